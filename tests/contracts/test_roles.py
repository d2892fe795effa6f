"""RBAC: the reader cannot write, the remediator can do its verbs and no more."""

from collections.abc import Callable
from typing import Any

import pytest
from kubernetes import client

from tests.cluster import access
from tests.contracts.lane import Lane, refused

NOTHING = [{"op": "test", "path": "/spec/replicas", "value": 0}]


@pytest.fixture
def chat(lane: Lane) -> Lane:
    lane.deploy(replicas=0)
    lane.cluster.apply(lane.workload("StatefulSet", replicas=0))
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "alone", "namespace": lane.namespace}, "spec": lane.pod_template()["spec"]}
    lane.cluster.apply(pod)
    lane.cluster.apply(access.bindings(lane.namespace))
    return lane


def test_the_reader_reads(chat: Lane) -> None:
    core, apps = chat.core("reader"), chat.apps("reader")
    assert core.read_namespaced_pod("alone", chat.namespace).metadata.name == "alone"
    assert apps.read_namespaced_deployment("chat", chat.namespace).metadata.name == "chat"
    assert core.read_namespace("kube-system").metadata.uid == chat.cluster.uid
    for call in (core.list_node, core.list_pod_for_all_namespaces, core.list_event_for_all_namespaces, apps.list_stateful_set_for_all_namespaces):
        call(limit=1)


@pytest.mark.parametrize(
    "write",
    [
        lambda lane: lane.apps("reader").patch_namespaced_deployment("chat", lane.namespace, NOTHING),
        lambda lane: lane.apps("reader").patch_namespaced_deployment("chat", lane.namespace, NOTHING, dry_run="All"),
        lambda lane: lane.core("reader").delete_namespaced_pod("alone", lane.namespace),
        lambda lane: lane.core("reader").delete_collection_namespaced_pod(lane.namespace),
        lambda lane: lane.core("reader").create_namespaced_config_map(lane.namespace, {"metadata": {"name": "x"}}),
        lambda lane: lane.core("reader").list_namespaced_secret(lane.namespace),
    ],
)
def test_the_reader_writes_nothing_and_sees_no_secret(chat: Lane, write: Callable[[Lane], Any]) -> None:
    code, status = refused(lambda: write(chat))
    assert (code, status["reason"]) == (403, "Forbidden")


def test_a_refusal_names_who_what_and_where(chat: Lane) -> None:
    _, status = refused(lambda: chat.core("reader").delete_namespaced_pod("alone", chat.namespace))
    user = status["message"].split('"')[3]
    assert user.startswith("system:serviceaccount:")
    assert status["message"] == f'pods "alone" is forbidden: User "{user}" cannot delete resource "pods" in API group "" in the namespace "{chat.namespace}"'


def test_the_remediator_patches_workloads_and_deletes_pods(chat: Lane) -> None:
    chat.apps("remediator").patch_namespaced_deployment("chat", chat.namespace, NOTHING, dry_run="All")
    chat.apps("remediator").patch_namespaced_stateful_set("chat", chat.namespace, NOTHING)
    chat.core("remediator").delete_namespaced_pod("alone", chat.namespace)


@pytest.mark.parametrize(
    "write",
    [
        lambda lane: lane.apps("remediator").delete_namespaced_deployment("chat", lane.namespace),
        lambda lane: lane.core("remediator").create_namespaced_pod(lane.namespace, {"metadata": {"name": "x"}, "spec": lane.pod_template()["spec"]}),
        lambda lane: lane.core("remediator").list_namespaced_secret(lane.namespace),
        lambda lane: lane.core("remediator").delete_node("gpu-node-1"),
        lambda lane: lane.core("remediator").delete_namespace(lane.namespace),
        lambda lane: lane.apps("remediator").patch_namespaced_deployment("chat", "default", NOTHING),
    ],
)
def test_the_remediator_does_nothing_else(chat: Lane, write: Callable[[Lane], Any]) -> None:
    assert refused(lambda: write(chat))[0] == 403


def test_an_unknown_token_is_nobody(chat: Lane) -> None:
    configuration = chat.api("reader").configuration
    stranger = client.Configuration()
    stranger.host, stranger.ssl_ca_cert = configuration.host, configuration.ssl_ca_cert
    stranger.api_key = {"authorization": "Bearer made-up"}
    code, status = refused(lambda: client.CoreV1Api(client.ApiClient(stranger)).list_namespaced_pod(chat.namespace))
    assert (code, status["reason"]) == (401, "Unauthorized")


def test_one_may_ask_what_one_may_do(chat: Lane) -> None:
    def may(role: str, verb: str, resource: str, group: str) -> bool:
        attributes = {"namespace": chat.namespace, "verb": verb, "resource": resource, "group": group}
        body = {"spec": {"resourceAttributes": attributes}}
        return bool(client.AuthorizationV1Api(chat.api(role)).create_self_subject_access_review(body).status.allowed)

    assert may("reader", "list", "pods", "")
    assert not may("reader", "patch", "deployments", "apps")
    assert may("remediator", "patch", "deployments", "apps")
    assert not may("remediator", "delete", "deployments", "apps")
