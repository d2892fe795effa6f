"""On a cluster: two workers that send the same step at once, and admission that lets the dry run pass and refuses the real patch."""

import threading
import time
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from bot.errors import Conflict, Rejected, Temporary
from bot.remediation import dry_run, execute_step
from tests.cluster.real_cluster import RealCluster
from tests.cluster.rest_api import MERGE
from tests.cluster.shared import real_cluster
from tests.remediation.place import CRASHES, Place
from tests.remediation.plans import recommendation


def test_two_who_send_the_same_step_at_once_write_once(place: Place) -> None:
    remediation = place.planned(recommendation(), place.crash_looping("Deployment", script=CRASHES))
    generation, together, refused = place.body("Deployment")["metadata"]["generation"], threading.Barrier(4), list[str]()

    def send() -> None:
        together.wait()
        try:
            execute_step(remediation, 0, "op-1", place.writer)
        except (Conflict, Temporary) as wrong:
            refused.append(str(wrong))

    threads = [threading.Thread(target=send) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    body = place.body("Deployment")
    assert refused == []
    assert body["metadata"]["generation"] == generation + 1
    assert body["metadata"]["annotations"]["oombot.io/operation"] == "op-1"


POLICY: dict[str, Any] = {
    "apiVersion": "admissionregistration.k8s.io/v1",
    "kind": "ValidatingAdmissionPolicy",
    "metadata": {"name": "only-dry-runs"},
    "spec": {
        "failurePolicy": "Fail",
        "matchConstraints": {"resourceRules": [{"apiGroups": ["apps"], "apiVersions": ["v1"], "operations": ["UPDATE"], "resources": ["deployments"]}]},
        "validations": [{"expression": "request.dryRun == true", "message": "guard.example: not today"}],
    },
}


@pytest.fixture
def guarded(place: Place) -> Iterator[Place]:
    """Admission lets only dry runs pass in the place's namespace. Only the real control plane has admission policies."""
    if not isinstance(place.cluster, RealCluster):
        pytest.skip("the simulated cluster has no admission policies")
    client = real_cluster().client
    where = "/apis/admissionregistration.k8s.io/v1"
    binding = {
        "apiVersion": POLICY["apiVersion"],
        "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": {"name": "only-dry-runs"},
        "spec": {
            "policyName": "only-dry-runs",
            "validationActions": ["Deny"],
            "matchResources": {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": place.namespace}}},
        },
    }
    made(client.post(f"{where}/validatingadmissionpolicies", json=POLICY))
    made(client.post(f"{where}/validatingadmissionpolicybindings", json=binding))
    yield place
    for kind in ("validatingadmissionpolicybindings", "validatingadmissionpolicies"):
        made(client.request("DELETE", f"{where}/{kind}/only-dry-runs"))


def made(answer: httpx.Response) -> None:
    assert answer.is_success, answer.text


def test_admission_that_passes_the_dry_run_and_refuses_the_patch_is_told_in_its_words(guarded: Place) -> None:
    target = guarded.crash_looping("Deployment", script=CRASHES)
    remediation = guarded.planned(recommendation(), target)
    before = guarded.body("Deployment")["spec"]
    dry_run(remediation, guarded.writer)
    until_guarded(guarded)
    dry_run(remediation, guarded.writer)
    with pytest.raises(Rejected, match=r"guard\.example: not today"):
        execute_step(remediation, 0, "op-1", guarded.writer)
    assert guarded.body("Deployment")["spec"] == before


def until_guarded(place: Place) -> None:
    """A new policy is taken up within moments."""
    where, end = f"/apis/apps/v1/namespaces/{place.namespace}/deployments/chat", time.monotonic() + 20
    while time.monotonic() < end:
        touch = {"metadata": {"annotations": {"touched": str(time.monotonic())}}}
        answer = real_cluster().client.patch(where, json=touch, headers=MERGE)
        if "guard.example" in answer.text:
            return
        time.sleep(0.3)
    raise AssertionError(f"the policy was not taken up: {answer.status_code} {answer.text[:300]}")
