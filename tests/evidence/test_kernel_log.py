"""The kernel log in the formats that its readers print: time, message, and the table of tasks."""

from typing import Any

import pytest

from bot.evidence.kernel_log import clock, read
from tests.diagnosis.scenes import OLD_ID, UID, killed, path

PREFIXES = {
    "dmesg": "[ 8523.347322] ",
    "dmesg -T": "[Sun Feb 23 16:24:18 2025] ",
    "dmesg -T in Chinese": "[四 3月 20 21:01:25 2025] ",
    "journal": "Jul 30 08:11:33 node-1 kernel: ",
    "short-iso": "2026-09-13T07:47:06-0400 node-1 kernel: ",
    "syslog": "Oct 12 19:00:20 node-1 kernel: [ 8523.347322] ",
    "kmsg": "6,23800,6780904484233,-;",
    "none": "",
}
LINES = (
    "python3 invoked oom-killer: gfp_mask=0xcc0(GFP_KERNEL), order=0, oom_score_adj=0",
    "Tasks state (memory values in pages):",
    "[  pid  ]   uid  tgid total_vm      rss pgtables_bytes swapents oom_score_adj name",
    "[    911]     0   911   400448   100112         800896        0           984 python3",
    "[  28802]     0 28802 33204448  8301112       66408896        0          -997 VLLM::Worker_TP",
    "oom-kill:constraint=CONSTRAINT_NONE,nodemask=(null),cpuset=/,mems_allowed=0-1,global_oom,task_memcg=/x,task=python3,pid=911,uid=0",
    "Out of memory: Killed process 911 (python3) total-vm:9kB, anon-rss:5kB, file-rss:1kB, shmem-rss:0kB, UID:0 pgtables:1kB oom_score_adj:984",
)


def facts(prefix: str) -> dict[str, Any]:
    text = "".join(f"{prefix}{line}\n" for line in LINES)
    return {fact.name: fact.value for fact in read(text.encode(), "kernel.log").facts}


@pytest.mark.parametrize("name", PREFIXES)
def test_table_of_tasks_is_read_behind_every_prefix(name: str) -> None:
    found = facts(PREFIXES[name])
    assert (found["kernel.kill.0.task"], found["kernel.kill.0.largest"], found["kernel.kill.0.tasks"]) == ("python3", "VLLM::Worker_TP", 2)


def test_date_of_a_chinese_locale_is_a_local_time() -> None:
    assert clock("四 3月 20 21:01:25 2025") == ("local", 1742504485)


def quotes(text: str) -> set[str]:
    return {fact.place.quote for fact in read(text.encode(), "kernel.log").facts if fact.place and fact.place.quote}


def test_quote_of_a_long_verdict_keeps_whose_limit_and_which_process() -> None:
    node = f"cri-containerd-{OLD_ID}.scope"
    text = killed(path(), path()).replace("cpuset=/,mems_allowed=0,", f"cpuset={node},mems_allowed=0-1,")
    shown = next(quote for quote in quotes(text) if "oom-kill:constraint" in quote)
    assert len(shown) <= 245
    assert "oom_memcg=/kubepods.slice/" in shown
    assert f"pod{UID.replace('-', '_')}" in shown
    assert all(part.strip() in text for part in shown.split("..."))


def test_quote_of_a_group_kill_keeps_what_was_set() -> None:
    group = f"/kubepods/burstable/pod{UID}/{'c' * 64}"
    text = killed(group, group, group=True)
    assert any("oom_memcg=" in quote for quote in quotes(text))
    assert all(len(quote) <= 245 for quote in quotes(text))


def test_systemds_own_word_of_an_oomd_kill_is_no_second_kill() -> None:
    text = (
        "Jan 14 09:31:07 node-1 systemd-oomd[812]: Killed /system.slice/chat.service due to memory pressure for /system.slice being 72.31% > 60.00% for > 30s with reclaim activity\n"
        "Jan 14 09:31:07 node-1 systemd[1]: chat.service: systemd-oomd killed 43 process(es) in this unit.\n"
    )
    found = {fact.name: fact.value for fact in read(text.encode(), "kernel.log").facts}
    assert (found["kernel.kills"], found["kernel.kill.0.by"], found["kernel.kill.0.cgroup"]) == (1, "systemd-oomd", "/system.slice/chat.service")
    assert str(found["kernel.kill.0.why"]).startswith("memory pressure for /system.slice")


def old_kill(*lines: str) -> dict[str, Any]:
    head = ("Task in /docker/71ab killed as a result of limit of /docker/71ab", "memory: usage 2097152kB, limit 2097152kB, failcnt 71")
    return {fact.name: fact.value for fact in read("".join(f"[ 8523.347322] {line}\n" for line in (*head, *lines)).encode(), "kernel.log").facts}


def test_old_kernel_scores_a_thread_or_a_parent_and_kills_another_number_in_one_incident() -> None:
    found = old_kill(
        "Memory cgroup out of memory: Kill process 4190 (server) score 1001 or sacrifice child",
        "Killed process 4171 (worker) total-vm:9kB, anon-rss:5kB, file-rss:0kB",
    )
    assert (found["kernel.kills"], found["kernel.kill.0.limit"], found["kernel.kill.0.task"]) == (1, 2 * 2**30, "worker")


def test_kill_whose_own_line_was_filtered_out_has_its_victim_from_the_reaper() -> None:
    found = old_kill("oom_reaper: reaped process 4171 (worker), now anon-rss:0kB, file-rss:0kB, shmem-rss:0kB")
    assert (found["kernel.kills"], found["kernel.kill.0.task"]) == (1, "worker")


def kills_in(*lines: str) -> dict[str, Any]:
    return {fact.name: fact.value for fact in read("".join(f"[ 8523.347322] {line}\n" for line in lines).encode(), "kernel.log").facts}


def test_numbers_of_a_report_whose_header_was_cut_off_belong_to_its_victim() -> None:
    group = f"/kubepods/burstable/pod{UID}/{OLD_ID}"
    found = kills_in(
        "memory: usage 524288kB, limit 524288kB, failcnt 9",
        f"Memory cgroup stats for {group}: cache:0KB rss:520000KB",
        "Memory cgroup out of memory: Killed process 911 (server) total-vm:9kB, anon-rss:5kB, file-rss:1kB, shmem-rss:0kB",
    )
    assert (found["kernel.kills"], found["kernel.kill.0.limit"], found["kernel.kill.0.level"]) == (1, 512 * 2**20, "container")


def test_numbers_behind_a_victim_are_of_the_next_report_and_change_nothing_of_the_last() -> None:
    found = kills_in(
        "python3 invoked oom-killer: gfp_mask=0xcc0(GFP_KERNEL), order=0, oom_score_adj=0",
        "memory: usage 524288kB, limit 524288kB, failcnt 9",
        "Memory cgroup out of memory: Killed process 911 (server) total-vm:9kB, anon-rss:5kB, file-rss:1kB, shmem-rss:0kB",
        "memory: usage 1048576kB, limit 1048576kB, failcnt 3",
        "Memory cgroup out of memory: Killed process 977 (worker) total-vm:9kB, anon-rss:5kB, file-rss:1kB, shmem-rss:0kB",
    )
    assert [found[f"kernel.kill.{index}.limit"] for index in range(2)] == [512 * 2**20, 2**30]


@pytest.mark.parametrize("name", ["runc:[2:INIT]", "runc:[1:CHILD]", "python3", "VLLM::EngineCore"])
def test_process_that_asked_is_known_by_any_name_that_a_kernel_writes(name: str) -> None:
    found = kills_in(
        f"{name} invoked oom-killer: gfp_mask=0xcc0(GFP_KERNEL), order=0, oom_score_adj=-998",
        "memory: usage 15360kB, limit 15360kB, failcnt 23",
        f"Memory cgroup out of memory: Killed process 911 ({name}) total-vm:9kB, anon-rss:5kB, file-rss:1kB, shmem-rss:0kB",
    )
    assert (found["kernel.kill.0.invoker"], found["kernel.kill.0.limit"]) == (name, 15 * 2**20)


@pytest.mark.parametrize(
    ("group", "level"),
    [("/podruntime.slice", "system"), ("/runtime.slice", "system"), ("/system.slice", "system"), ("/kube-reserved", "system"), ("/system.slice/containerd.service", "system"), ("/system.slice/chat.service", "unit")],
)
def test_limit_of_a_nodes_own_daemons_is_no_limit_of_a_program(group: str, level: str) -> None:
    line = f"oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=/,mems_allowed=0,oom_memcg={group},task_memcg={group},task=exe,pid=911,uid=0"
    assert kills_in(line)["kernel.kill.0.level"] == level


def test_limit_of_all_services_is_not_the_daemons_where_a_container_under_it_was_taken() -> None:
    group = f"/system.slice/docker-{OLD_ID}.scope"
    line = f"oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=/,mems_allowed=0,oom_memcg=/system.slice,task_memcg={group},task=python3,pid=911,uid=0"
    assert kills_in(line)["kernel.kill.0.level"] == "other"


@pytest.mark.parametrize(
    ("line", "name", "value"),
    [
        ("NVRM: GPU 0000:3b:00.0: RmInitAdapter failed! (0x26:0x56:1474)", "nvrm_error", "RmInitAdapter failed! (0x26:0x56:1474)"),
        ("NVRM: RmInitAdapter failed! (0x26:0xffff:1133)", "nvrm_error", "RmInitAdapter failed! (0x26:0xffff:1133)"),
        ("MCE 0x3f7e8c: Killing python3:4711 due to hardware memory corruption", "memory_failure", "MCE 0x3f7e8c: Killing python3:4711 due to hardware memory corruption"),
        ("traps: python3[4421] trap invalid opcode ip:7f1c2a3b4c5d sp:7ffd1 error:0 in libtorch_cpu.so[7f1c2a000000+134000]", "invalid_opcode", "python3"),
        ("cgroup: fork rejected by pids controller in /system.slice/docker-1f0c.scope", "pids_refused", "/system.slice/docker-1f0c.scope"),
        ("amdgpu 0000:c1:00.0: amdgpu: [gfxhub0] no-retry page fault (src_id:0 ring:24 vmid:3 pasid:32779)", "amd_fault", "page fault (src_id:0 ring:24 vmid:3 pasid:32779)"),
        ("[drm:amdgpu_job_timedout [amdgpu]] *ERROR* ring gfx_0.0.0 timeout, signaled seq=11, emitted seq=13", "amd_fault", "ring gfx_0.0.0 timeout, signaled seq=11, emitted seq=13"),
    ],
)
def test_other_things_that_a_kernel_log_proves_are_read(line: str, name: str, value: str) -> None:
    found = {fact.name: fact.value for fact in read(f"[ 8523.347322] {line}\n".encode(), "kernel.log").facts}
    assert found.get(f"kernel.{name}") == value
    assert "kernel.segfault" not in found
