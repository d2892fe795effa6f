"""Bare pods and Jobs: what is handed out can be applied as it stands once the old one is deleted, and then serves."""

import json
import shlex
from typing import Any

import pytest
import yaml

from bot.evidence.locate import locate, query
from bot.model import ObjectRef, Target
from bot.remediation.pointer import apply
from bot.remediation.workload import is_ready
from tests.remediation.place import Place, manifest, restarts, until
from tests.remediation.plans import handed_out
from tests.remediation.shelf import ShelfReader, container


def bare(place: Place) -> dict[str, Any]:
    template = manifest("Deployment", place.namespace)["spec"]["template"]
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "chat", "namespace": place.namespace, **template["metadata"]}, "spec": template["spec"]}


def test_a_bare_pod_serves_after_it_was_made_anew_from_the_handout(place: Place) -> None:
    place.cluster.apply(bare(place))
    until(lambda: next((one for one in place.pods() if restarts(one) >= 1), None))
    target = locate(query(f"{place.namespace}/chat"), {"sandbox": place.reader})
    found = handed_out(place.reader, at=target)
    place.cluster.delete("Pod", place.namespace, "chat")
    until(lambda: None if place.pods() else True)
    place.cluster.apply(found.paste)
    assert until(lambda: next((one for one in place.pods() if is_ready(one)), None))["spec"]["containers"][0]["args"][1] == "--max-model-len=57344"
    place.cluster.delete("Pod", place.namespace, "chat")


def job(namespace: str) -> dict[str, Any]:
    template = manifest("Deployment", namespace)["spec"]["template"]
    template["spec"]["restartPolicy"] = "Never"
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "chat", "namespace": namespace}, "spec": {"backoffLimit": 0, "template": template}}


def test_a_job_can_be_made_anew_from_the_handout(place: Place) -> None:
    made = place.cluster.apply(job(place.namespace))[0]
    ref = ObjectRef("batch/v1", "Job", place.namespace, "chat", made["metadata"]["uid"])
    found = handed_out(place.reader, at=Target("sandbox", place.namespace, "chat-x", container="server", workload=ref))
    assert "does not let anybody change a Job's template" in found.reason.en
    place.cluster.delete("Job", place.namespace, "chat", api_version="batch/v1")
    until(lambda: None if place.cluster.objects("batch/v1", "Job", place.namespace) else True)
    again = place.cluster.apply(found.paste)[0]
    assert again["spec"]["template"]["spec"]["containers"][0]["args"][1] == "--max-model-len=57344"
    place.cluster.delete("Job", place.namespace, "chat", api_version="batch/v1")


@pytest.mark.parametrize("kind", ["Pod", "Job"])
def test_a_manifest_too_long_for_a_message_is_kept_and_changed_by_commands(place: Place, kind: str) -> None:
    body = bare(place) if kind == "Pod" else job(place.namespace)
    body["metadata"]["annotations"] = {"note": "x" * 3000}
    version = "v1" if kind == "Pod" else "batch/v1"
    made = place.cluster.apply(body)[0]
    ref = ObjectRef(version, kind, place.namespace, "chat", made["metadata"]["uid"])
    found = handed_out(place.reader, at=Target("sandbox", place.namespace, "chat", container="server", workload=ref))
    lines = found.paste.splitlines()
    assert lines[0] == f"kubectl -n {place.namespace} get {kind.lower()} chat -o yaml > chat.yaml  # kept"
    new = apply(place.reader.get(version, kind, place.namespace, "chat"), json.loads(shlex.split(lines[1])[-3]))
    place.cluster.delete(kind, place.namespace, "chat", api_version=version)
    until(lambda: None if place.cluster.objects(version, kind, place.namespace) else True)
    again = place.cluster.apply(new)[0]
    spec = again["spec"] if kind == "Pod" else again["spec"]["template"]["spec"]
    assert spec["containers"][0]["args"][1] == "--max-model-len=57344"
    place.cluster.delete(kind, place.namespace, "chat", api_version=version)


def test_secrets_in_the_manifest_are_covered_and_the_way_to_them_is_said() -> None:
    secret = container(env=[{"name": "HF_TOKEN", "value": "hf_abcdefghijklmnopqrstuvwxyz012345"}])
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "chat", "namespace": "llm", "uid": "u"}, "spec": {"containers": [secret]}}
    found = handed_out(ShelfReader(pod), at=Target("shelf", "llm", "chat", "u", "server"))
    assert "hf_abc" not in found.paste
    assert found.paste.startswith("# 0. put back what stands as [redacted]")


def test_what_the_cluster_filled_in_is_left_out() -> None:
    mounted = container(volumeMounts=[{"name": "kube-api-access-x", "mountPath": "/var/run/secrets"}, {"name": "data", "mountPath": "/data"}])
    spec = {"containers": [mounted], "nodeName": "gpu-1", "volumes": [{"name": "kube-api-access-x"}, {"name": "data", "emptyDir": {}}]}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "chat", "namespace": "llm", "uid": "u"}, "spec": spec, "status": {"phase": "Running"}}
    found = yaml.safe_load(handed_out(ShelfReader(pod), at=Target("shelf", "llm", "chat", "u", "server")).paste)
    assert set(found) == {"apiVersion", "kind", "metadata", "spec"}
    assert found["metadata"] == {"name": "chat", "namespace": "llm"}
    assert found["spec"]["volumes"] == [{"name": "data", "emptyDir": {}}]
    assert "nodeName" not in found["spec"]
