"""Whole remediations against the simulated cluster: one GPU for one replica, the old pod crash-looping, real clients on both sides."""

import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from bot.clients.kubernetes_config import api_client
from bot.clients.kubernetes_reader import KubernetesReader
from bot.clients.kubernetes_writer import KubernetesWriter
from bot.errors import Conflict, Forbidden, Rejected, Temporary
from bot.model import ObjectRef, Remediation, Rollout, Target
from bot.remediation import Changed, differences, dry_run, execute_step, observe, plan_undo
from bot.sandbox.cluster.simulated import SimulatedCluster
from bot.settings import Access
from tests.remediation.plans import new_id, operation, planned, recommendation

MODEL = "/models/chat-32b-w6"  # 131,072 tokens do not fit beside it on one L40S; 57,344 do


def manifest(kind: str, **spec: Any) -> dict[str, Any]:
    resources = {"limits": {"nvidia.com/gpu": "1"}}
    container = {"name": "server", "image": "vllm/vllm-openai:v0.11.0", "args": [f"--model={MODEL}", "--max-model-len=131072"], "resources": resources}
    template = {"metadata": {"labels": {"app": "chat"}}, "spec": {"containers": [container], "terminationGracePeriodSeconds": 1}}
    body = {"replicas": 1, "selector": {"matchLabels": {"app": "chat"}}, "template": template, **spec}
    return {"apiVersion": "apps/v1", "kind": kind, "metadata": {"name": "chat", "namespace": "llm"}, "spec": body}


class Place:
    """A simulated cluster with a reader and a writer, each with its own role's token."""

    def __init__(self, cluster: SimulatedCluster, folder: Path) -> None:
        self.cluster = cluster
        self.reader = KubernetesReader("sandbox", self._client(folder, "reader"), lambda argv: False)
        self.writer = KubernetesWriter("sandbox", self._client(folder, "remediator"))
        self.reading_writer = KubernetesWriter("sandbox", self._client(folder, "reader"))

    def _client(self, folder: Path, role: str) -> Any:
        return api_client(Access(kubeconfig=self.cluster.kubeconfig(folder / f"{role}.yaml", role)))

    def body(self, kind: str) -> dict[str, Any]:
        return dict(self.reader.get("apps/v1", kind, "llm", "chat"))

    def pods(self) -> list[dict[str, Any]]:
        return list(self.reader.list("v1", "Pod", "llm"))

    def crash_looping(self, kind: str, **spec: Any) -> Target:
        self.cluster.apply(manifest(kind, **spec))
        pod = until(lambda: next((one for one in self.pods() if restarts(one) >= 1), None))
        ref = ObjectRef("apps/v1", kind, "llm", "chat", self.body(kind)["metadata"]["uid"])
        return Target("sandbox", "llm", pod["metadata"]["name"], pod["metadata"]["uid"], "server", "gpu-node-1", ref, 1)

    def carry_out(self, remediation: Remediation, name: str) -> Rollout:
        """Dry run, every step in its time, until the rollout is done."""
        dry_run(remediation, self.writer)
        for index, step in enumerate(remediation.steps):
            if step.after_rollout:
                self.wait(remediation)
                with_patience(lambda index=index: execute_step(remediation, index, name, self.writer))
            else:
                execute_step(remediation, index, name, self.writer)
                execute_step(remediation, index, name, self.writer)  # as after a crash
        return self.wait(remediation)

    def planned(self, wanted: Any, target: Target) -> Remediation:
        return planned(self.reader, wanted, target, now=datetime.now(UTC))

    def wait(self, remediation: Remediation) -> Rollout:
        return until(lambda: found if (found := observe(remediation, self.reader)).done else None)


def restarts(pod: dict[str, Any]) -> int:
    return sum(status["restartCount"] for status in pod["status"].get("containerStatuses") or [])


def until(look: Callable[[], Any], seconds: float = 30) -> Any:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if (found := look()) is not None:
            return found
        time.sleep(0.1)
    raise AssertionError("it did not happen in time")


def with_patience(work: Callable[[], None]) -> None:
    for _ in range(50):
        try:
            return work()
        except Temporary:
            time.sleep(0.1)
    raise AssertionError("it went on being temporary")


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    with SimulatedCluster(scale=200) as cluster:
        yield Place(cluster, tmp_path)


@pytest.mark.parametrize("kind", ["Deployment", "StatefulSet"])
def test_a_crash_looping_workload_becomes_ready_and_goes_back(place: Place, kind: str) -> None:
    target = place.crash_looping(kind)
    before = place.body(kind)["spec"]
    remediation = place.planned(recommendation(), target)
    assert len(remediation.steps) == (1 if kind == "Deployment" else 2)
    done = place.carry_out(remediation, "op-1")
    assert (done.ready, done.wanted) == (1, 1)
    assert place.body(kind)["spec"]["template"]["spec"]["containers"][0]["args"] == [f"--model={MODEL}", "--max-model-len=57344"]
    patched = place.body(kind)["metadata"]["generation"]

    undo = plan_undo(operation(remediation), place.reader, new_id=new_id)
    assert patched == place.body(kind)["metadata"]["generation"]
    place.carry_out(undo, "op-2")
    assert place.body(kind)["spec"] == before
    assert place.body(kind)["metadata"]["annotations"]["oombot.io/operation"] == ("op-2/1" if kind == "Deployment" else "op-2")


def test_each_step_reaches_the_server_once(place: Place) -> None:
    target = place.crash_looping("Deployment")
    generation = place.body("Deployment")["metadata"]["generation"]
    remediation = place.planned(recommendation(), target)
    for _ in range(4):
        execute_step(remediation, 0, "op-1", place.writer)
    assert place.body("Deployment")["metadata"]["generation"] == generation + 1


def test_a_dry_run_with_the_writing_credentials_changes_nothing(place: Place) -> None:
    target = place.crash_looping("StatefulSet")
    before, uids = place.body("StatefulSet")["spec"], [one["metadata"]["uid"] for one in place.pods()]
    dry_run(place.planned(recommendation(), target), place.writer)
    assert place.body("StatefulSet")["spec"] == before
    assert [one["metadata"]["uid"] for one in place.pods()] == uids


def test_the_reading_credentials_cannot_write(place: Place) -> None:
    remediation = place.planned(recommendation(), place.crash_looping("Deployment"))
    with pytest.raises(Forbidden):
        dry_run(remediation, place.reading_writer)
    with pytest.raises(Forbidden):
        execute_step(remediation, 0, "op-1", place.reading_writer)


def test_an_object_recreated_under_the_same_name_is_refused(place: Place) -> None:
    remediation = place.planned(recommendation(), place.crash_looping("Deployment"))
    place.cluster.delete("Deployment", "llm", "chat", api_version="apps/v1")
    place.cluster.apply(manifest("Deployment"))
    with pytest.raises(Changed, match="uid"):
        execute_step(remediation, 0, "op-1", place.writer)
    assert [one.path for one in differences(remediation, place.reader)] == ["uid"]


def test_a_status_that_moves_all_the_time_goes_through(place: Place) -> None:
    remediation = place.planned(recommendation(), place.crash_looping("Deployment"))
    version = place.body("Deployment")["metadata"]["resourceVersion"]
    until(lambda: True if place.body("Deployment")["metadata"]["resourceVersion"] != version else None)
    assert differences(remediation, place.reader) == ()
    execute_step(remediation, 0, "op-1", place.writer)


def test_a_template_changed_meanwhile_is_refused_with_who(place: Place) -> None:
    remediation = place.planned(recommendation(), place.crash_looping("Deployment"))
    changed = manifest("Deployment")
    changed["spec"]["template"]["spec"]["containers"][0]["args"][1] = "--max-model-len=8192"
    place.cluster.apply(changed, manager="argocd-application-controller")
    with pytest.raises(Changed) as refused:
        execute_step(remediation, 0, "op-1", place.writer)
    assert [(one.before, one.now, one.who) for one in refused.value.differences] == [
        ("--max-model-len=131072", "--max-model-len=8192", "argocd-application-controller")
    ]


def test_a_fix_that_does_not_fit_is_seen_as_crash_looping(place: Place) -> None:
    remediation = place.planned(recommendation(to=120_000), place.crash_looping("Deployment"))
    execute_step(remediation, 0, "op-1", place.writer)
    found = until(lambda: look if (look := observe(remediation, place.reader)).stuck else None)
    assert found.stuck == "crash_looping"
    assert "container server ended with exit code" in found.detail


def test_the_servers_words_come_with_a_rejection(place: Place) -> None:
    target = place.crash_looping("Deployment")
    ref = target.workload
    assert ref is not None
    with pytest.raises(Conflict, match="not what the patch was made for"):
        place.writer.patch(ref, [{"op": "test", "path": "/metadata/uid", "value": "other"}], dry_run=False)
    with pytest.raises(Rejected):
        place.writer.delete_pod(ref, dry_run=False)
    pod = ObjectRef("v1", "Pod", "llm", target.pod, "another-uid")
    with pytest.raises(Conflict):
        place.writer.delete_pod(pod, dry_run=False)
