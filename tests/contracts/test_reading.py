"""Our own reading client, target search and collection, on the simulated and on the real API server, with the role of deploy/rbac."""

import json
from types import SimpleNamespace

import pytest

from bot.clients.kubernetes_config import api_client
from bot.clients.kubernetes_reader import KubernetesReader
from bot.errors import Forbidden, NotFound, Rejected, TargetNotFound
from bot.evidence import commands
from bot.evidence.collect import collect
from bot.evidence.commands import memory
from bot.evidence.locate import locate, query
from bot.model import Bundle
from tests.cluster import access
from tests.contracts.lane import CRASHES, SERVES, Lane
from tests.evidence.world import Lines, Noon


def reader_of(lane: Lane, role: str = "reader") -> KubernetesReader:
    path = lane.cluster.kubeconfig(lane._folder / f"reading-{role}", role)
    return KubernetesReader("lane", api_client(SimpleNamespace(in_cluster=False, token_file=None, kubeconfig=path, context=None)), commands.in_pod)


def read(bundle: Bundle, name: str) -> bytes:
    with bundle.files[name].open() as stream:
        return stream.read()


def test_uid_is_that_of_kube_system(lane: Lane) -> None:
    assert reader_of(lane).uid() == lane.cluster.uid


def test_objects_are_as_the_server_sends_them(lane: Lane) -> None:
    lane.deploy(SERVES)
    name = lane.ready_pod()["metadata"]["name"]
    reader = reader_of(lane)
    pod = reader.get("v1", "Pod", lane.namespace, name)
    assert (pod["kind"], pod["apiVersion"], pod["metadata"]["name"]) == ("Pod", "v1", name)
    listed = reader.list("v1", "Pod", lane.namespace, label_selector="app=chat")
    assert [(item["kind"], item["metadata"]["uid"]) for item in listed] == [("Pod", pod["metadata"]["uid"])]
    assert [item["metadata"]["name"] for item in reader.list("v1", "Pod", field_selector=f"metadata.name={name}")] == [name]
    assert [item["metadata"]["name"] for item in reader.names("v1", "Pod", lane.namespace)] == [name]
    assert reader.get("v1", "Node", "", lane.node)["metadata"]["name"] == lane.node


def test_what_is_not_there_and_what_is_not_allowed_are_two_things(lane: Lane) -> None:
    reader = reader_of(lane)
    with pytest.raises(NotFound, match='pods "nothing" not found'):
        reader.get("v1", "Pod", lane.namespace, "nothing")
    with pytest.raises(NotFound):
        reader.list("no.such.group/v1", "Thing", lane.namespace)
    with pytest.raises((Forbidden, NotFound, Rejected)):
        reader.list("v1", "Secret", lane.namespace)


def test_kinds_beyond_the_built_in_ones_are_found_by_discovery(lane: Lane) -> None:
    assert reader_of(lane).list("autoscaling/v2", "HorizontalPodAutoscaler", lane.namespace) == []
    assert reader_of(lane).list("policy/v1", "PodDisruptionBudget", lane.namespace) == []


def test_logs_of_now_and_before(lane: Lane) -> None:
    lane.deploy(CRASHES)
    name = lane.crashed_pod()["metadata"]["name"]
    reader = reader_of(lane)
    assert b"ValueError: no room" in reader.log(lane.namespace, name, "server", previous=True).data
    with pytest.raises(NotFound):
        reader.log(lane.namespace, name, "no-such-container")


def test_no_earlier_container_is_not_found(lane: Lane) -> None:
    lane.deploy(SERVES)
    with pytest.raises(NotFound):
        reader_of(lane).log(lane.namespace, lane.ready_pod()["metadata"]["name"], "server", previous=True)


def test_exec_of_the_allow_list_works_where_the_extra_role_is_bound(lane: Lane) -> None:
    lane.deploy(SERVES)
    name = lane.ready_pod()["metadata"]["name"]
    reader = reader_of(lane)
    with pytest.raises(Forbidden, match="not an allowed command"):
        reader.run(lane.namespace, name, "server", ["id"])
    with pytest.raises(Forbidden, match="forbidden"):
        reader.run(lane.namespace, name, "server", memory.POD_SHM.argv)
    lane.cluster.apply(access.bindings(lane.namespace))
    output = reader.run(lane.namespace, name, "server", memory.POD_SHM.argv)
    assert b"/dev/shm" in output.stdout
    assert output.status == 0


def check(lane: Lane, word: str) -> Bundle:
    reader = reader_of(lane)
    target = locate(query(word, lane.namespace), {"lane": reader})
    assert target.workload is not None
    assert (target.workload.kind, target.workload.name, target.container, target.gpus) == ("Deployment", "chat", "server", 1)
    return collect(target, reader, None, Lines(), clock=Noon())


def test_crashed_workload_is_collected(lane: Lane) -> None:
    lane.deploy(CRASHES)
    lane.crashed_pod()
    bundle = check(lane, "deploy/chat")
    assert b"ValueError: no room" in b"".join(read(bundle, name) for name in bundle.files if name in ("container.log", "previous.log"))
    assert [item["kind"] for item in json.loads(read(bundle, "workload.json"))["items"]] == ["ReplicaSet", "Deployment"]
    assert json.loads(read(bundle, "events.json"))["items"]
    assert read(bundle, "args.txt").decode().endswith("--gpu-memory-utilization=0.9 --max-model-len=4096\n")
    assert {gap.source for gap in bundle.gaps} <= {"kernel.log", "nvidia-smi.txt", "node_readings.txt", "exec"}, "without SSH and exec, nothing else is missing"


def test_prefix_of_a_pod_is_enough_and_nonsense_is_not_found(lane: Lane) -> None:
    lane.deploy(SERVES)
    name = lane.ready_pod()["metadata"]["name"]
    clusters = {"lane": reader_of(lane)}
    assert locate(query(name[:-3], lane.namespace), clusters).pod == name
    with pytest.raises(TargetNotFound) as nothing:
        locate(query("chet", lane.namespace), clusters)
    assert nothing.value.nearest == (f"{lane.namespace}/{name}",)
