"""What a check reads, and what it says of what it could not read."""

import json
import time
from pathlib import Path
from typing import Any

import pytest

from bot.errors import Forbidden, HostKeyUnknown, NotFound, TimedOut
from bot.evidence.bundle import open_path, write
from bot.evidence.collect import collect
from bot.evidence.commands import kernel, memory, nvidia_smi, ray
from bot.model import Bundle, ObjectRef, Target
from bot.ports import Json
from tests.evidence.world import HEX, UID, FakeCluster, FakeNodes, Lines, Noon, event, node, owned_by, pod, workload

KERNEL = b"2026-11-30T09:00:00+0000 gpu-1 kernel: a\n2026-11-30T09:00:01+0000 gpu-1 kernel: python invoked oom-killer\n"
GLOB = UID.replace("-", "?")
TARGET = Target("one", "llm", "chat-x", UID, "server", "gpu-1", ObjectRef("apps/v1", "Deployment", "llm", "chat", "chat-uid"), 1)


def status(state: Json, identity: str = f"containerd://{HEX}", last: str = "", restarts: int = 0, name: str = "server") -> Json:
    ended = {"terminated": {"containerID": last, "exitCode": 137}} if last else {}
    return {"name": name, "state": state, "containerID": identity, "lastState": ended, "restartCount": restarts}


def chat(*statuses: Json, **changes: Any) -> Json:
    sidecar = {"name": "istio-proxy", "image": "istio/proxyv2"}
    server = {"name": "server", "image": "vllm/vllm-openai", "args": ["--model", "m"], "env": [{"name": "HF_TOKEN", "value": "hf_" + "x" * 30}]}
    spec = {"nodeName": "gpu-1", "containers": [server, sidecar], "initContainers": [{"name": "download", "image": "d"}]}
    status = {"phase": "Running", "containerStatuses": list(statuses)}
    return pod("chat-x", owner=owned_by("ReplicaSet", "chat-1"), metadata={"uid": UID, "managedFields": []}, spec=spec, status=status, **changes)


RUNNING = status({"running": {}}, last="containerd://before", restarts=2)
WAITING = status({"waiting": {"reason": "CrashLoopBackOff"}}, "containerd://dead", last="containerd://dead", restarts=14)


def cluster(server: Json = RUNNING) -> FakeCluster:
    return FakeCluster(
        objects=[
            chat(server, status({"running": {}}, "containerd://side", name="istio-proxy")),
            workload("ReplicaSet", "chat-1", owner=owned_by("Deployment", "chat")),
            workload("Deployment", "chat"),
            node(),
            event("a", "Pod", "chat-x", message="Liveness probe failed", at="2026-11-30T09:30:00Z"),
            event("b", "Node", "gpu-1", "default", at="2026-11-30T09:10:00Z"),
            event("c", "Deployment", "chat", at="2026-11-30T09:20:00Z"),
            event("d", "Pod", "another"),
        ],
        logs={
            ("chat-x", "server", False): b"now\xff\n",
            ("chat-x", "server", True): b"CUDA out of memory\nprompt: 'my secret'\n",
            ("chat-x", "istio-proxy", False): b"envoy\n",
        },
        outputs={memory.POD_SHM.argv: b"Filesystem 1K-blocks Used Available Use% Mounted on\nshm 65536 0 65536 0% /dev/shm\n"},
    )


def nodes() -> FakeNodes:
    return FakeNodes(
        {
            kernel.JOURNAL.argv: KERNEL,
            nvidia_smi.LIST.argv: b"GPU 0: NVIDIA L40S (UUID: GPU-1)\n",
            memory.FREE.argv: b"               total\nMem: 1\n",
            memory.UPTIME.argv: b"3600.00 1.0\n",
            memory.CONTAINER_CGROUP.filled({"pod_uid_glob": GLOB, "container_id": HEX}): b"==> /sys/fs/cgroup/x/memory.max <==\n1024\n",
        }
    )


def read(bundle: Bundle, name: str) -> bytes:
    with bundle.files[name].open() as stream:
        return stream.read()


def gaps(bundle: Bundle) -> dict[str, str]:
    return {gap.source: gap.reason for gap in bundle.gaps}


def check(world: FakeCluster, ssh: FakeNodes | None = None, target: Target = TARGET, lines: Lines | None = None, budget_s: float = 10) -> Bundle:
    return collect(target, world, ssh, lines or Lines(), clock=Noon(), budget_s=budget_s)


def test_everything_that_stands_there_is_in_the_bundle() -> None:
    bundle = check(cluster(), nodes())
    assert set(bundle.files) == {
        "pod.json", "workload.json", "events.json", "container.log", "previous.log", "logs/istio-proxy.log", "node.json", "args.txt", "bundle.json",
        "kernel.log", "nvidia-smi.txt", "node_readings.txt",
    }  # fmt: skip
    assert gaps(bundle) == {}
    assert read(bundle, "container.log") == b"now\xff\n"
    assert read(bundle, "kernel.log") == KERNEL


def test_owner_chain_leads_to_what_a_person_edits() -> None:
    items = json.loads(read(check(cluster(), nodes()), "workload.json"))["items"]
    assert [(item["kind"], item["metadata"]["name"]) for item in items] == [("ReplicaSet", "chat-1"), ("Deployment", "chat")]
    assert "managedFields" not in items[0]["metadata"]


def test_events_are_those_of_pod_workload_and_node_in_order_of_time() -> None:
    items = json.loads(read(check(cluster(), nodes()), "events.json"))["items"]
    assert [item["metadata"]["name"] for item in items] == ["b", "c", "a"]


def test_secrets_and_prompts_never_reach_the_bundle() -> None:
    bundle = check(cluster(), nodes())
    everything = b"".join(read(bundle, name) for name in bundle.files)
    assert b"hf_xxxx" not in everything
    assert b"my secret" not in everything
    assert b"prompt: '[redacted]'" in read(bundle, "previous.log")
    assert json.loads(read(bundle, "pod.json"))["spec"]["containers"][0]["env"][0]["value"] == "[redacted]"


def test_container_that_waits_for_its_restart_is_read_once() -> None:
    world = cluster(WAITING)
    world.logs[("chat-x", "server", True)] = world.logs[("chat-x", "server", False)]
    bundle = check(world, nodes())
    assert ("log", "chat-x", "server", "False") in world.asked
    assert world.asked.count(("log", "chat-x", "server", "True")) == 1
    assert world.tails == [("chat-x", "server", 1)]  # one line tells that it is the same
    assert "previous.log" not in bundle.files
    assert gaps(bundle) == {}
    assert "the one in the current log" in json.loads(read(bundle, "bundle.json"))["absent"]["previous.log"]


def test_container_that_was_started_again_while_we_looked_keeps_the_log_of_the_one_that_ended() -> None:
    world = cluster(WAITING)
    ended = world.logs[("chat-x", "server", False)]
    world.logs |= {("chat-x", "server", True): ended, ("chat-x", "server", False): b"INFO starting\n"}
    bundle = check(world, nodes())
    assert read(bundle, "container.log") == b"INFO starting\n"
    assert read(bundle, "previous.log").splitlines()[0] == ended.splitlines()[0]


def test_previous_log_that_is_the_current_one_is_not_kept_twice() -> None:
    world = cluster()
    world.logs[("chat-x", "server", True)] = world.logs[("chat-x", "server", False)]
    assert "previous.log" not in check(world, nodes()).files


def test_container_that_never_started_has_no_log_and_no_gap() -> None:
    world = cluster({"name": "server", "state": {"waiting": {"reason": "ImagePullBackOff"}}})
    bundle = check(world, nodes())
    assert "container.log" not in bundle.files
    assert gaps(bundle) == {}
    assert json.loads(read(bundle, "bundle.json"))["absent"]["container.log"] == "the container has not started"


def test_readings_come_under_the_exact_command_and_the_nodes_come_first() -> None:
    text = read(check(cluster(), nodes()), "node_readings.txt").decode()
    assert text.startswith("$ free\n")
    assert f"-path '*pod{GLOB}*{HEX}*'" in text
    assert text.index("memory.max <==") < text.index("$ kubectl exec -n llm chat-x -c server -- df -k /dev/shm")


def test_boot_time_is_worked_out() -> None:
    about = json.loads(read(check(cluster(), nodes()), "bundle.json"))
    assert about["node_boot_time"] == "2026-11-30T11:00:00+00:00"
    assert about["server_container"] == "server"
    assert about["target"]["workload"]["kind"] == "Deployment"


def test_node_is_found_by_itself_and_asked_at_its_inner_address_first() -> None:
    ssh = nodes()
    check(cluster(), ssh)
    assert ssh.opened == [("gpu-1", ("10.0.0.1", "gpu-1"))]


def test_dmesg_is_asked_when_the_journal_is_empty() -> None:
    ssh = nodes()
    ssh.outputs[kernel.JOURNAL.argv] = b"-- No entries --\n"
    ssh.outputs[kernel.DMESG_SUDO.argv] = KERNEL
    bundle = check(cluster(), ssh)
    assert read(bundle, "kernel.log") == KERNEL
    assert json.loads(read(bundle, "bundle.json"))["kernel_log_command"] == "sudo -n dmesg --time-format iso"


def test_kernel_log_that_nobody_may_read_is_a_gap_that_says_what_was_tried() -> None:
    ssh = nodes()
    del ssh.outputs[kernel.JOURNAL.argv]
    bundle = check(cluster(), ssh)
    assert "kernel.log" not in bundle.files
    assert "no journalctl here" in gaps(bundle)["kernel.log"]
    assert "no dmesg here" in gaps(bundle)["kernel.log"]


def test_unknown_host_key_is_a_gap_of_each_file_that_it_hides_and_the_rest_is_read() -> None:
    bundle = check(cluster(), FakeNodes(refuses=HostKeyUnknown("the SSH host key of gpu-1 is not in /etc/known_hosts")))
    assert {"kernel.log", "nvidia-smi.txt", "node_readings.txt"} <= set(gaps(bundle))
    assert gaps(bundle)["kernel.log"].startswith("SSH refused: the SSH host key of gpu-1")
    assert "previous.log" in bundle.files


def test_cards_are_asked_from_inside_where_ssh_does_not_reach() -> None:
    world = cluster()
    world.outputs[nvidia_smi.POD_LIST.argv] = b"GPU 0: NVIDIA L40S (UUID: GPU-1)\n"
    bundle = check(world, None)
    assert read(bundle, "nvidia-smi.txt") == b"$ kubectl exec -n llm chat-x -c server -- nvidia-smi -L\nGPU 0: NVIDIA L40S (UUID: GPU-1)\n"


def test_exec_that_is_not_permitted_is_one_gap() -> None:
    world = cluster()
    world.refuses["exec"] = Forbidden("pods/exec is forbidden")
    bundle = check(world, nodes())
    assert gaps(bundle) == {"exec": "not permitted: pods/exec is forbidden"}


def test_ray_is_asked_where_the_server_is_rays() -> None:
    world = cluster()
    world.objects[0]["spec"]["containers"][0]["image"] = "rayproject/ray-llm:2.49"
    world.outputs[ray.STATUS.argv] = b"======== Autoscaler status ========\n"
    assert "ray_status.txt" in check(world, nodes()).files
    assert ("exec", "ray", "status") not in [asked[:3] for asked in cluster().asked]


def test_what_may_not_be_read_is_a_gap_with_its_reason_and_what_it_would_have_told() -> None:
    world = cluster()
    world.refuses = {"log": Forbidden("pods/log is forbidden"), "Event": TimedOut("no answer"), "Deployment": Forbidden("deployments is forbidden")}
    bundle = check(world, nodes())
    assert gaps(bundle)["container.log"] == "not permitted: pods/log is forbidden"
    assert gaps(bundle)["events.json"] == "no answer in time: no answer"
    assert gaps(bundle)["workload.json"] == "deployments is forbidden"
    assert all(gap.would_tell for gap in bundle.gaps)


def test_pod_that_is_gone_still_gives_events_node_and_kernel_log() -> None:
    world = cluster()
    del world.objects[0]
    bundle = check(world, nodes())
    assert gaps(bundle)["pod.json"].startswith("not there")
    assert {"events.json", "node.json", "kernel.log", "container.log"} <= set(bundle.files)


def test_pod_that_was_replaced_is_not_taken_for_the_old_one() -> None:
    world = cluster()
    world.objects[0]["metadata"]["uid"] = "another"
    bundle = check(world, nodes())
    assert "pod.json" not in bundle.files
    assert "replaced" in gaps(bundle)["pod.json"]


def test_node_target_reads_the_node_alone() -> None:
    bundle = check(cluster(), nodes(), Target("one", "", "", node="gpu-1"))
    assert {"node.json", "kernel.log", "nvidia-smi.txt", "events.json"} <= set(bundle.files)
    assert not {"pod.json", "container.log"} & set(bundle.files)


def test_slow_part_costs_no_more_than_the_budget_and_becomes_a_gap() -> None:
    world, lines = cluster(), Lines()
    world.slow["Event"] = 5
    start = time.monotonic()
    bundle = check(world, nodes(), lines=lines, budget_s=1)
    assert time.monotonic() - start < 2
    assert gaps(bundle)["events.json"] == "not read in time"
    assert "container.log" in bundle.files
    assert lines.last()["events"].state == "failed"


def test_node_that_takes_long_to_connect_does_not_hold_the_check_and_is_closed_in_the_end() -> None:
    ssh = nodes()
    ssh.slow_s = 1.5
    start = time.monotonic()
    bundle = check(cluster(), ssh, budget_s=0.6)
    assert time.monotonic() - start < 1.2
    assert gaps(bundle)["kernel.log"] == "not read in time"
    time.sleep(1.5)
    assert [shell.closed for shell in ssh.shells] == [True]


def test_connection_to_the_node_is_closed() -> None:
    ssh = nodes()
    check(cluster(), ssh)
    assert [shell.closed for shell in ssh.shells] == [True]


def test_probes_run_side_by_side() -> None:
    world = cluster()
    world.slow = {"Event": 0.4, "log": 0.2, "ReplicaSet": 0.4}
    start = time.monotonic()
    check(world, nodes())
    assert time.monotonic() - start < 1.4, "one after another it would take 2.2 s"


def test_defect_in_one_collector_costs_only_its_own_files() -> None:
    world = cluster()
    world.objects[4]["lastTimestamp"] = {"not": "a time"}
    world.objects[4]["involvedObject"] = None
    bundle = check(world, nodes())
    assert gaps(bundle)["events.json"].startswith("the collector failed: ")
    assert "container.log" in bundle.files


def test_progress_ends_with_every_line_done() -> None:
    lines = Lines()
    check(cluster(), nodes(), lines=lines)
    assert {line.state for line in lines.last().values()} == {"done"}
    assert lines.last()["logs"].detail == "3 of 3"


def test_written_bundle_reads_back_as_the_same_bytes_gaps_and_cuts(tmp_path: Path) -> None:
    world = cluster()
    world.refuses["exec"] = NotFound("no exec")
    live = check(world, nodes())
    write(live, tmp_path, json.loads(read(live, "bundle.json")))
    again = open_path(str(tmp_path))
    assert {name: read(again, name) for name in again.files if name != "bundle.json"} == {
        name: read(live, name) for name in live.files if name != "bundle.json"
    }
    assert again.gaps == live.gaps


@pytest.mark.parametrize("uid", ["*", "../..", "x -delete"])
def test_odd_uid_is_never_put_into_a_command(uid: str) -> None:
    world = cluster()
    world.objects[0]["metadata"]["uid"] = uid
    bundle = check(world, nodes(), Target("one", "llm", "chat-x", uid, "server", "gpu-1"))
    assert read(bundle, "node_readings.txt").startswith(b"$ free\n")
    assert b"find" not in read(bundle, "node_readings.txt")
