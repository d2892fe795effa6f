"""Lines of the kernel log that are no kills: what they explain, and how sure that may be."""

import pytest

from bot.model import Certainty
from tests.diagnosis.bundles import diagnose

BUS = "RuntimeError: DataLoader worker (pid 402) is killed by signal: Bus error. It is possible that dataloader's workers are out of shared memory.\n"


def kernel(line: str) -> dict[str, str]:
    return {"kernel.log": f"[  100.000001] {line}\n"}


def test_bus_error_beside_a_disk_that_fails_is_the_disks_and_not_of_shared_memory() -> None:
    alone = diagnose({"container.log": BUS})
    beside = diagnose({"container.log": BUS, **kernel("blk_update_request: I/O error, dev nvme0n1, sector 4711")})
    assert (alone.cause, beside.cause) == ("shm_too_small", "application_error")
    assert "shm_size" not in [each.remedy for each in beside.recommendations]


@pytest.mark.parametrize(
    ("line", "cause", "first"),
    [
        ("python3: page allocation failure: order:4, mode:0x40cc0(GFP_KERNEL|__GFP_COMP), nodemask=(null)", "node_out_of_memory", "drop_page_cache"),
        ("python3: page allocation failure: order:0, mode:0xcc0(GFP_KERNEL), nodemask=(null)", "node_out_of_memory", "host_memory_use"),
        ("pcieport 0000:17:00.0: AER: device recovery failed", "gpu_fault", "drain_node"),
        ("mlx5_core 0000:17:00.0: poll_health:828:(pid 0): device's health compromised - reached miss count", "nccl_failure", "network"),
        ("nfs: server 10.0.0.4 not responding, timed out", "application_error", "network"),
    ],
)
def test_trouble_of_the_machine_alone_is_possible_at_most(line: str, cause: str, first: str) -> None:
    found = diagnose(kernel(line))
    assert (found.cause, found.certainty) == (cause, Certainty.POSSIBLE)
    assert found.recommendations[0].remedy.startswith(first)


def test_request_that_may_not_wait_tells_of_no_failure() -> None:
    assert diagnose(kernel("swapper/12: page allocation failure: order:0, mode:0x480020(GFP_ATOMIC), nodemask=(null)")).cause == "unknown"


@pytest.mark.parametrize(
    ("code", "sure", "first"),
    [(8, Certainty.LIKELY, "restart"), (31, Certainty.LIKELY, "vllm_version"), (109, Certainty.LIKELY, "drain_node"), (119, Certainty.CERTAIN, "drain_node"), (137, Certainty.LIKELY, "restart")],
)
def test_card_is_drained_for_sure_only_where_the_fault_is_its_own(code: int, sure: Certainty, first: str) -> None:
    found = diagnose(kernel(f"NVRM: Xid (PCI:0000:18:00): {code}, pid=4711, name=python3, Ch 00000008"))
    assert (found.cause, found.certainty) == ("gpu_fault", sure)
    assert found.recommendations[0].remedy.startswith(first)


@pytest.mark.parametrize("code", [45, 63, 92, 121, 162])
def test_notice_of_the_driver_is_no_fault(code: int) -> None:
    line = f"NVRM: Xid (PCI:0000:18:00): {code}, pid=4711, name=python3, Ch 00000008"
    assert diagnose(kernel(line)).cause == "unknown"
    assert diagnose({"container.log": line + "\n"}).cause == "unknown"


@pytest.mark.parametrize(
    "line",
    ["nvidia-nvswitch0: SXid (PCI:0000:c5:00.0): 12028, Non-fatal, Link 32 egress non-posted PRIV error", "nvidia 0000:18:00.0: PCIe Bus Error: severity=Uncorrected (Non-Fatal), type=Transaction Layer, (Requester ID)"],
)
def test_error_that_a_link_can_live_with_is_no_rival_of_what_the_program_said(line: str) -> None:
    raised = "Traceback (most recent call last):\n  File \"/app/serve.py\", line 1, in <module>\nKeyError: 'model'\n"
    assert diagnose(kernel(line)).certainty == Certainty.POSSIBLE
    assert diagnose({"container.log": raised, **kernel(line)}).cause == "application_error"
