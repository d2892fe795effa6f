"""What a kernel log proves besides kills and Xids: each line is found in a log of any size and means what it says."""

import pytest

from bot.evidence.kernel_log import read

AUDIT = 'audit: type={} audit(1700000000.123:456): auid=4294967295 uid=0 gid=0 ses=4294967295 pid=4711 comm="python3" exe="/usr/bin/python3.12" sig={} '
SAID = {
    "python3: page allocation failure: order:4, mode:0x40cc0(GFP_KERNEL|__GFP_COMP), nodemask=(null)": ("allocation_failed", "order:4, mode:0x40cc0(GFP_KERNEL|__GFP_COMP)"),
    "python3: page allocation stalls for 10128ms, order:0, mode:0x14200ca(GFP_HIGHUSER_MOVABLE), nodemask=(null)": ("allocation_failed", "order:0, mode:0x14200ca(GFP_HIGHUSER_MOVABLE)"),
    "vmap allocation for size 268439552 failed: use vmalloc=<size> to increase size": ("allocation_failed", "vmap allocation for size 268439552 failed"),
    AUDIT.format(1701, 11): ("segfault", "python3"),
    AUDIT.format(1701, 6): ("aborted", "python3"),
    AUDIT.format(1701, 7): ("bus_error", "python3"),
    AUDIT.format(1701, 8): ("divide_error", "python3"),
    AUDIT.format(1326, 31): ("seccomp_kill", "python3"),
    "systemd-coredump[9]: Process 4711 (VLLM::EngineCor) of user 0 terminated abnormally with signal 6/ABRT, processing...": ("aborted", "VLLM::EngineCor"),
    "python3[4711]: unhandled exception: DABT (lower EL), ESR 0x92000004, level 0 translation fault in libtorch_cpu.so[f0+a0]": ("segfault", "python3"),
    "traps: python3[4711] trap divide error ip:7f00 sp:7ffe error:0 in libtorch.so[7f00+1]": ("divide_error", "python3"),
    "NVRM: _kgspRpcRecvPoll: GSP RM heartbeat timed out on GPU0": ("gpu_hung", "_kgspRpcRecvPoll: GSP RM heartbeat timed out on GPU0"),
    "NVRM: krcWatchdog_IMPL: RC watchdog: GPU is probably locked!": ("gpu_hung", "krcWatchdog_IMPL: RC watchdog: GPU is probably locked!"),
    "NVRM: None of the NVIDIA devices were initialized.": ("nvrm_error", "None of the NVIDIA devices were"),
    "nvidia 0000:18:00.0: probe with driver nvidia failed with error -1": ("nvrm_error", "probe with driver nvidia failed with error -1"),
    "nvidia 0000:18:00.0: AER: can't recover (no error_detected callback)": ("pcie_error", "nvidia 0000:18:00.0: AER: can't recover (no error_detected callback)"),
    "pcieport 0000:17:00.0: AER: device recovery failed": ("pcie_error", "pcieport 0000:17:00.0: AER: device recovery failed"),
    "blk_update_request: I/O error, dev nvme0n1, sector 4711": ("storage_error", "blk_update_request: I/O error, dev nvme0n1, sector 4711"),
    "nfs: server 10.0.0.4 not responding, timed out": ("storage_error", "nfs: server 10.0.0.4 not responding, timed out"),
    "EDAC MC1: 1 UE memory read error on CPU_SrcID#0": ("memory_hardware", "EDAC MC1: 1 UE memory read error on CPU_SrcID#0"),
    "NMI watchdog: Watchdog detected hard LOCKUP on cpu 12": ("hung_task", "cpu 12"),
    "Kernel panic - not syncing: Fatal machine check": ("panic", "Kernel panic - not syncing: Fatal machine check"),
    "reboot: Restarting system": ("shut_down", "reboot: Restarting system"),
}
NOTHING = (
    "Kernel panic - not syncing: Out of memory: system-wide panic_on_oom is enabled",  # a kill, and read as one
    "pcieport 0000:17:00.0: AER: Corrected error received: 0000:18:00.0",
    "EDAC MC0: 1 CE memory read error on CPU_SrcID#0",
    "EXT4-fs (nvme0n1p1): mounted filesystem with ordered data mode",
    "I/O error, dev sr0, sector 0 op 0x0:(READ)",
    AUDIT.format(1326, 0),
    "mlx5_core 0000:17:00.0 ens1f0np0: Link down",
)


def told(line: str) -> dict[str, object]:
    found = read(f"[  100.000001] {line}\n".encode(), "kernel.log").facts
    return {fact.name.removeprefix("kernel."): fact.value for fact in found if fact.name not in ("kernel.looked", "kernel.kills") and ".kill." not in fact.name}


@pytest.mark.parametrize("line", SAID, ids=lambda line: line[:60])
def test_line_is_found_and_means_what_it_says(line: str) -> None:
    name, value = SAID[line]
    assert told(line)[name] == value


@pytest.mark.parametrize("line", NOTHING, ids=lambda line: line[:60])
def test_line_of_a_healthy_machine_means_nothing(line: str) -> None:
    assert told(line) == {}


def test_limit_that_met_a_victim_which_was_ending_already_is_a_kill_of_that_limit() -> None:
    line = "[  100.000001] Memory cgroup out of memory: OOM victim 4711 (python3) is already exiting. Skip killing the task\n"
    found = {fact.name: fact.value for fact in read(line.encode(), "kernel.log").facts}
    assert (found["kernel.kills"], found["kernel.kill.0.scope"], found["kernel.kill.0.task"]) == (1, "memcg", "python3")
