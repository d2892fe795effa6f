"""Which kill belongs to the incident, and whose limit it was."""

import pytest

from bot.facts import ABSENT, UNKNOWN
from tests.diagnosis.scenes import ID, OLD_ID, UID, container, derived, killed, path, pod, status, terminated

OTHER = "ffffffff-1111-2222-3333-444455556666"
DEAD = pod([container()], [status(last=terminated(137, "OOMKilled"))])


def slice_of(container_path: str) -> str:
    return container_path.rpartition("/")[0]


def test_kill_at_the_container_limit_belongs_to_it() -> None:
    facts = derived(DEAD, kernel=killed(path(OLD_ID), path(OLD_ID)))
    assert [facts.get(f"kernel.{name}") for name in ("kill_matches_container", "match", "limit", "victim")] == [True, "container", "container", "VLLM::EngineCor"]


def test_kill_at_the_pod_limit_is_a_limit_of_the_workload() -> None:
    facts = derived(DEAD, kernel=killed(slice_of(path()), path()))
    assert (facts.get("kernel.level"), facts.get("kernel.limit")) == ("pod", "container")


def test_kill_at_the_limit_of_all_pods_is_the_node() -> None:
    facts = derived(DEAD, kernel=killed("/kubepods.slice", path()))
    assert [facts.get(f"kernel.{name}") for name in ("kill_matches_container", "limit", "ancestor")] == [True, "node", True]


def test_global_kill_of_this_container_is_the_node_though_the_status_says_oomkilled() -> None:
    facts = derived(DEAD, kernel=killed(None, path()))
    assert [facts.get(f"kernel.{name}") for name in ("kill_matches_container", "limit", "ancestor")] == [True, "node", False]


def test_kill_in_another_pod_is_no_proof_for_this_one() -> None:
    facts = derived(DEAD, kernel=killed(path("c" * 64, OTHER), path("c" * 64, OTHER)))
    assert (facts.get("kernel.kill_matches_container"), facts.get("kernel.other_kills")) == (False, 1)


def test_global_kill_of_another_pod_says_that_the_node_ran_out_and_not_more() -> None:
    facts = derived(DEAD, kernel=killed(None, path("c" * 64, OTHER)))
    assert (facts.get("kernel.kill_matches_container"), facts.get("kernel.match"), facts.get("kernel.limit")) == (False, "node", "node")


def test_kill_of_an_earlier_container_of_the_same_pod_is_matched_by_the_pod() -> None:
    facts = derived(DEAD, kernel=killed(path("d" * 64), path("d" * 64)))
    assert (facts.get("kernel.kill_matches_container"), facts.get("kernel.match")) == (True, "pod")


def test_without_a_pod_the_kill_of_a_server_is_taken_by_its_name() -> None:
    log = killed("/docker/" + "e" * 64, "/docker/" + "e" * 64, "VLLM::EngineCor", 9) + killed("/docker/" + "d" * 64, "/docker/" + "d" * 64, "nginx", 10)
    facts = derived(kernel=log)
    assert (facts.get("kernel.match"), facts.get("kernel.victim"), facts.get("kernel.limit")) == ("name", "VLLM::EngineCor", "container")


@pytest.mark.parametrize(
    ("available", "holder", "beside"),
    [(1, "python3 /srv/report.py", True), (40, "python3 /srv/report.py", False), (1, "/usr/bin/nginx -g daemon", False)],
)
def test_small_kill_beside_a_machine_that_another_process_filled_is_told_from_one_in_the_filled_group(available: int, holder: str, beside: bool) -> None:
    node = (
        "$ free -g\n               total        used        free      shared  buff/cache   available\n"
        f"Mem:             251         250           0           0           1        {available:4}\n"
        f"$ ps -eo pid,user,rss,etime,args --sort=-rss | head -2\n    PID USER       RSS     ELAPSED COMMAND\n   7001 root  239075328       12:04 {holder}\n"
    )
    group = "/system.slice/docker-" + "d" * 64 + ".scope"
    assert derived(kernel=killed(group, group, "nginx", 10), node=node).get("kernel.beside_full_node") is beside


def test_child_was_killed_when_the_same_container_still_runs() -> None:
    facts = derived(pod([container()], [status(container_id=ID)]), kernel=killed(path(ID), path(ID)))
    assert facts.get("kernel.child_killed") is True


def test_group_kill_is_no_child() -> None:
    facts = derived(DEAD, kernel=killed(path(), path(), group=True))
    assert (facts.get("kernel.group_kill"), facts.get("kernel.child_killed")) == (True, False)


def test_container_that_ended_with_zero_lost_a_child() -> None:
    facts = derived(pod([container()], [status(last=terminated(0, "OOMKilled"))]), kernel=killed(path(), path()))
    assert facts.get("kernel.child_killed") is True


def test_quiet_kernel_log_is_a_look_and_no_log_is_none() -> None:
    assert derived(DEAD, kernel="[1.0] usb 1-1: new device\n").get("kernel.kill_matches_container") is False
    assert derived(DEAD).get("kernel.kill_matches_container") is UNKNOWN


def test_limit_of_a_systemd_unit_is_a_limit_of_the_workload() -> None:
    facts = derived(kernel=killed("/system.slice/vllm.service", "/system.slice/vllm.service"))
    assert (facts.get("kernel.level"), facts.get("kernel.limit")) == ("unit", "container")


def test_userspace_killer_acts_for_the_node() -> None:
    line = 'Nov 30 09:12:01 desk earlyoom[702]: sending SIGTERM to process 77 uid 1000 "python3": badness 1020, VmRSS 58000 MiB\n'
    facts = derived(kernel=line)
    assert (facts.get("kernel.limit"), facts.get("kernel.by")) == ("node", "earlyoom")


def test_only_the_worst_gpu_fault_counts() -> None:
    lines = "[5.0] NVRM: Xid (PCI:0000:17:00): 45, pid=4121, name=python3, Ch 10\n[6.0] NVRM: Xid (PCI:0000:a1:00): 79, GPU has fallen off the bus.\n"
    facts = derived(kernel=lines)
    assert (facts.get("kernel.xid_code"), facts.get("kernel.xid_kind")) == (79, "hardware")


def test_mirror_pod_is_matched_by_its_configuration_hash() -> None:
    hashed = "0123456789abcdef0123456789abcdef"
    static = pod([container()], [status(last=terminated(137, "OOMKilled"))], metadata={"annotations": {"kubernetes.io/config.hash": hashed}})
    where = f"/kubepods/burstable/pod{hashed}/{'d' * 64}"
    assert derived(static, kernel=killed(where, where)).get("kernel.match") == "pod"
    assert UID not in where


def test_kill_of_an_older_start_does_not_explain_a_last_end_of_its_own() -> None:
    crashed = pod([container()], [status(last=terminated(1))])
    facts = derived(crashed, kernel=killed(path("d" * 64), path("d" * 64)))
    assert (facts.get("kernel.kill_matches_container"), facts.get("kernel.match")) == (False, "earlier")


def test_pod_without_any_container_left_is_still_matched_by_its_uid() -> None:
    empty = {"metadata": {"name": "chat-0", "uid": UID}}
    facts = derived(empty, kernel=killed(path(), path()))
    assert (facts.get("kernel.match"), facts.get("kernel.child_killed")) == ("pod", True)  # one engine was taken, by the record


PATHLESS = "2026-01-14T{time}+00:00 node-1 kernel: Memory cgroup out of memory: Killed process 811 (VLLM::EngineCor) total-vm:9kB, anon-rss:5kB, file-rss:1kB, shmem-rss:0kB\n"


def test_kill_without_a_path_is_ours_when_it_was_at_the_time_of_our_end() -> None:
    now, long_ago = (derived(DEAD, kernel=PATHLESS.format(time=time)) for time in ("09:31:05", "03:00:00"))
    assert (now.get("kernel.match"), now.get("kernel.kill_matches_container")) == ("time", True)
    assert (long_ago.get("kernel.match"), long_ago.get("kernel.kill_matches_container")) == ("unplaced", False)


def test_kill_of_an_older_start_hours_before_the_last_end_is_an_earlier_one() -> None:
    old = killed(path("d" * 64), path("d" * 64)).replace("[1.", "2026-01-14T03:00:00+00:00 node-1 kernel: [1.")
    facts = derived(pod([container()], [status(last=terminated(137))]), kernel=old)
    assert (facts.get("kernel.match"), facts.get("kernel.kill_matches_container")) == ("earlier", False)


def _xid_seen(code: int, at: str) -> object:
    """The fault that counts for a container that ran from 09:00 to 09:31."""
    line = f"{at} node-1 kernel: NVRM: Xid (PCI:0000:a1:00): {code}, pid=7, name=python3, GPU has fallen off the bus.\n"
    return derived(pod([container()], [status(last=terminated(1))]), kernel=line).get("kernel.xid_code")


def test_fault_of_a_program_before_this_run_is_over_and_a_broken_card_is_not() -> None:
    assert _xid_seen(13, "2026-01-14T09:10:00+0000") == 13
    assert _xid_seen(13, "2026-01-14T03:10:00+0000") is ABSENT
    assert _xid_seen(79, "2026-01-14T03:10:00+0000") == 79
    assert _xid_seen(79, "2025-12-20T03:10:00+0000") is ABSENT


def test_fault_that_came_twice_counts_by_its_last_time() -> None:
    line = "{} node-1 kernel: NVRM: Xid (PCI:0000:a1:00): 79, pid=7, name=python3, GPU has fallen off the bus.\n"
    kernel = line.format("2025-12-20T03:10:00+0000") + line.format("2026-01-14T09:10:00+0000")
    assert derived(pod([container()], [status(last=terminated(1))]), kernel=kernel).get("kernel.xid_code") == 79


def test_helper_taken_for_a_server_that_fills_the_pods_limit_is_not_the_one_at_fault() -> None:
    slice_path = path().rpartition("/")[0]
    table = "[1.1] Tasks state (memory values in pages):\n[1.1] [  pid  ]   uid  tgid total_vm      rss pgtables_bytes swapents oom_score_adj name\n"
    rows = "[1.1] [ 811]     0   811   1000   {}   8   0   984 python3\n[1.1] [ 900]     0   900   9000   8000000   8   0   -997 VLLM::Worker_TP\n"
    kernel = killed(slice_path, path(), "python3")
    seen = []
    for pages in (100, 7000000):
        text = kernel.replace("[1.2]", table + rows.format(pages) + "[1.2]").replace("anon-rss:5kB", f"anon-rss:{pages * 4}kB")
        seen.append(derived(pod([container()], [status(last=terminated(137, "OOMKilled"))]), kernel=text).get("kernel.pod_limit_by_server"))
    assert seen == [True, False]


def test_fork_that_another_containers_limit_refused_says_nothing_of_this_one() -> None:
    line = "[8523.1] cgroup: fork rejected by pids controller in {}\n"
    seen = [derived(DEAD, kernel=line.format(where)).get("kernel.pids_refused_here") for where in (path(OLD_ID), path("c" * 64, OTHER))]
    assert seen == [True, False]
    assert derived(kernel=line.format(path(OLD_ID))).get("kernel.pids_refused_here") is True


def _sweep(names: list[str], report_of: int = 0) -> str:
    """Kills of one sweep, as the kernel writes them when it limits its own messages: one has its report, the others their last line only."""
    lines = []
    for number, name in enumerate(names):
        full = killed(path(), path(), name, pid=900 + number)
        lines.append(full if number == report_of else full.splitlines()[-1] + "\n")
    return "".join(lines)


def test_of_several_kills_in_one_sweep_the_one_with_a_report_tells_the_limit() -> None:
    facts = derived(kernel=_sweep(["VLLM::Worker_TP"] * 4))
    assert (facts.get("kernel.limit_bytes"), facts.get("kernel.limit")) == (33554432 * 1024, "container")


def test_kill_with_others_beside_it_is_not_said_to_be_the_only_one() -> None:
    assert derived(kernel=_sweep(["VLLM::Worker_TP"] * 4)).get("kernel.child_killed") is ABSENT
    assert derived(kernel=_sweep(["VLLM::Worker_TP"])).get("kernel.child_killed") is True


def test_report_of_another_program_lends_its_limit_to_nobody() -> None:
    facts = derived(kernel=_sweep(["VLLM::Worker_TP", "VLLM::EngineCor"]))
    assert (facts.get("kernel.victim"), facts.get("kernel.limit_bytes")) == ("VLLM::EngineCor", ABSENT)


def test_limit_that_a_report_leaves_out_is_the_containers_own_where_the_kill_was_in_it() -> None:
    kernel = "".join(line + "\n" for line in killed(path(ID), path(ID), "filebeat").splitlines() if "memory: usage" not in line)
    facts = derived(pod([container(limit="2Gi")], [status()]), kernel=kernel)
    assert (facts.get("kernel.kill_matches_container"), facts.get("kernel.limit_bytes")) == (True, 2 * 2**30)
    elsewhere = derived(pod([container(limit="2Gi")], [status()]), kernel=kernel.replace(ID, "c" * 64).replace("0a1b2c3d", "ffffffff"))
    assert elsewhere.get("kernel.limit_bytes") is ABSENT
