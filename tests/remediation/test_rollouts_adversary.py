"""On a cluster: two workers that send the same step at once, admission that lets the dry run pass and refuses the real patch, somebody else at the very
moment of the patch, a quota, a deadline, and GitOps."""

import json
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import pytest

from bot.errors import Conflict, Rejected, Temporary
from bot.model import ObjectRef, Remediation
from bot.remediation import Changed, dry_run, execute_step, observe, plan_undo
from bot.remediation.standing import standing
from bot.remediation.workload import condition, is_ready
from bot.sandbox.behaviours import ANNOTATION
from tests.cluster.real_cluster import RealCluster
from tests.cluster.rest_api import MERGE
from tests.cluster.shared import real_cluster
from tests.remediation.place import CRASHES, Place, manifest, until
from tests.remediation.plans import new_id, operation, recommendation


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


@pytest.fixture
def mutated(place: Place) -> Iterator[Place]:
    """Admission puts the old length back into each update, in silence. Only the real control plane has admission policies."""
    if not isinstance(place.cluster, RealCluster):
        pytest.skip("the simulated cluster has no admission policies")
    client, where, name = real_cluster().client, "/apis/admissionregistration.k8s.io/v1", f"keeps-{place.namespace}"
    back = '[JSONPatch{op: "replace", path: "/spec/template/spec/containers/0/args/1", value: "--max-model-len=131072"}]'
    policy = {
        "apiVersion": POLICY["apiVersion"], "kind": "MutatingAdmissionPolicy", "metadata": {"name": name},
        "spec": {
            "failurePolicy": "Fail", "reinvocationPolicy": "Never", "matchConstraints": POLICY["spec"]["matchConstraints"],
            "mutations": [{"patchType": "JSONPatch", "jsonPatch": {"expression": back}}],
        },
    }  # fmt: skip
    there = {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": place.namespace}}}
    binding = {"apiVersion": POLICY["apiVersion"], "kind": "MutatingAdmissionPolicyBinding", "metadata": {"name": name}, "spec": {"policyName": name, "matchResources": there}}
    made(client.post(f"{where}/mutatingadmissionpolicies", json=policy))
    made(client.post(f"{where}/mutatingadmissionpolicybindings", json=binding))
    yield place
    for kind in ("mutatingadmissionpolicybindings", "mutatingadmissionpolicies"):
        made(client.request("DELETE", f"{where}/{kind}/{name}"))


def tried_for_a_while(remediation: Remediation, place: Place) -> None:
    """A new policy is taken up within moments."""
    end = time.monotonic() + 20
    while time.monotonic() < end:
        dry_run(remediation, place.writer)
        time.sleep(0.3)


def test_admission_that_would_change_the_patch_in_silence_is_found_by_the_dry_run(mutated: Place) -> None:
    remediation = mutated.planned(recommendation(), mutated.crash_looping("Deployment", script=CRASHES))
    before = mutated.body("Deployment")["spec"]
    with pytest.raises(Rejected, match=r"admission changes the patch: at /spec/template/spec/containers/0/args/1 it would write --max-model-len=131072"):
        tried_for_a_while(remediation, mutated)
    assert mutated.body("Deployment")["spec"] == before


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


class Interrupted:
    """The remediator's own writer; somebody else does something right before its patches arrive, each thing once."""

    def __init__(self, place: Place, *does: Callable[[], object]) -> None:
        self._place, self._does = place, list(does)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._place.writer, name)

    def patch(self, ref: ObjectRef, operations: Any, *, dry_run: bool) -> Any:
        if self._does and not dry_run:
            self._does.pop(0)()
        return self._place.writer.patch(ref, operations, dry_run=dry_run)


def scaled(place: Place, replicas: int) -> Callable[[], object]:
    return lambda: place.cluster.apply(manifest("Deployment", place.namespace, script=CRASHES, replicas=replicas), manager="kubectl")


def test_somebody_who_scales_at_the_moment_of_the_patch_is_no_conflict(place: Place) -> None:
    remediation = place.planned(recommendation(), place.crash_looping("Deployment", script=CRASHES))
    execute_step(remediation, 0, "op-1", Interrupted(place, scaled(place, 2)))
    body = place.body("Deployment")
    assert (body["spec"]["replicas"], body["metadata"]["annotations"]["oombot.io/operation"]) == (2, "op-1")


def test_somebody_who_changes_what_was_shown_at_the_moment_of_the_patch_is_named_and_nothing_is_written(place: Place) -> None:
    remediation = place.planned(recommendation(), place.crash_looping("Deployment", script=CRASHES))
    theirs = manifest("Deployment", place.namespace, script=CRASHES)
    theirs["spec"]["template"]["spec"]["containers"][0]["args"][1] = "--max-model-len=4096"
    with pytest.raises(Changed) as told:
        execute_step(remediation, 0, "op-1", Interrupted(place, lambda: place.cluster.apply(theirs, manager="kubectl")))
    assert any((one.before, one.now, one.who) == ("--max-model-len=131072", "--max-model-len=4096", "kubectl") for one in told.value.differences)
    body = place.body("Deployment")
    assert body["spec"]["template"]["spec"]["containers"][0]["args"][1] == "--max-model-len=4096"
    assert "oombot.io/operation" not in body["metadata"].get("annotations", {})


def test_somebody_who_is_faster_each_time_is_a_conflict_and_nothing_is_written(place: Place) -> None:
    remediation = place.planned(recommendation(), place.crash_looping("Deployment", script=CRASHES))
    with pytest.raises(Conflict):
        execute_step(remediation, 0, "op-1", Interrupted(place, *(scaled(place, count) for count in (2, 3, 4))))
    assert "--max-model-len=57344" not in str(place.body("Deployment")["spec"])


def test_pods_that_a_quota_forbids_are_stuck_with_its_words_and_the_change_is_undone(place: Place) -> None:
    """The old pod is let go first; then the quota, which was lowered meanwhile, lets no new one in. Once it is raised again, the pod that was missing takes the
    GPU that was free when the undo was planned."""
    if not isinstance(place.cluster, RealCluster):
        pytest.skip("the simulated cluster has no quotas")
    remediation = place.planned(recommendation(), place.crash_looping("Deployment", script=CRASHES))
    before = place.body("Deployment")["spec"]
    lowered(place, "0")
    execute_step(remediation, 0, "op-1", place.writer)
    later = datetime.now(UTC) + timedelta(minutes=1)
    found = until(lambda: look if (look := observe(remediation, place.reader, now=later)).stuck else None)
    assert found.stuck == "never_ready"
    assert "exceeded quota: few" in found.detail
    undo = plan_undo(operation(remediation), place.reader, new_id=new_id)
    lowered(place, "5")
    assert place.carry_out(undo, "op-2").done
    assert place.body("Deployment")["spec"] == before


def lowered(place: Place, pods: str) -> None:
    """A quota as its controller would have counted it: that one does not run in the tests, so its status is written by hand."""
    client, where = real_cluster().client, f"/api/v1/namespaces/{place.namespace}/resourcequotas"
    hard = {"hard": {"count/pods": pods}}
    client.post(where, json={"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "few"}, "spec": hard})
    made(client.patch(f"{where}/few", json={"spec": hard}, headers=MERGE))
    made(client.patch(f"{where}/few/status", json={"status": {**hard, "used": {"count/pods": "0"}}}, headers=MERGE))


def test_a_rollout_past_its_own_deadline_is_never_ready(place: Place) -> None:
    """By the controller's word, which is asked for a short one here."""
    if not isinstance(place.cluster, RealCluster):
        pytest.skip("the simulated controllers keep no deadline")
    theirs = manifest("Deployment", place.namespace, script={"ready_after": 1, "log": ["serving"]}, progressDeadlineSeconds=2)
    theirs["spec"]["template"]["spec"]["containers"][0]["readinessProbe"] = {"httpGet": {"path": "/health", "port": 8000}}
    place.cluster.apply(theirs)
    remediation = place.planned(recommendation(), place.target("Deployment", until(lambda: next((one for one in place.pods() if is_ready(one)), None))))
    execute_step(remediation, 0, "op-1", place.writer)
    stalls = {"spec": {"template": {"metadata": {"annotations": {ANNOTATION: json.dumps({"ready_after": None, "log": ["loading"]})}}}}}
    made(real_cluster().client.patch(f"/apis/apps/v1/namespaces/{place.namespace}/deployments/chat", json=stalls, headers=MERGE))
    found = until(lambda: look if (look := observe(remediation, place.reader)).stuck else None)
    assert found.stuck == "never_ready"
    assert "timed out progressing" in found.detail


def test_a_rollout_past_its_own_deadline_goes_on_while_the_start_up_probe_allows_it(place: Place) -> None:
    if not isinstance(place.cluster, RealCluster):
        pytest.skip("the simulated controllers keep no deadline")
    theirs = manifest("Deployment", place.namespace, script={"ready_after": 1, "log": ["serving"]}, progressDeadlineSeconds=2)
    probe = {"httpGet": {"path": "/health", "port": 8000}, "periodSeconds": 10, "failureThreshold": 120}
    theirs["spec"]["template"]["spec"]["containers"][0].update(readinessProbe={"httpGet": {"path": "/health", "port": 8000}}, startupProbe=probe)
    place.cluster.apply(theirs)
    remediation = place.planned(recommendation(), place.target("Deployment", until(lambda: next((one for one in place.pods() if is_ready(one)), None))))
    execute_step(remediation, 0, "op-1", place.writer)
    stalls = {"spec": {"template": {"metadata": {"annotations": {ANNOTATION: json.dumps({"ready_after": None, "log": ["loading"]})}}}}}
    made(real_cluster().client.patch(f"/apis/apps/v1/namespaces/{place.namespace}/deployments/chat", json=stalls, headers=MERGE))
    found = until(lambda: look if (look := observe(remediation, place.reader)).starting and late(place) else None)
    assert (found.done, found.stuck) == (False, "")


def late(place: Place) -> bool:
    return condition(place.body("Deployment"), "Progressing").get("reason") == "ProgressDeadlineExceeded"


def test_gitops_that_reverts_while_the_pods_roll_leaves_the_change_not_standing(place: Place) -> None:
    target = place.crash_looping("Deployment", script=CRASHES)
    remediation = place.planned(recommendation(), target)
    execute_step(remediation, 0, "op-1", place.writer)
    done = replace(operation(remediation), next_step=len(remediation.steps))
    assert standing(done, place.reader) == ()
    place.cluster.apply(manifest("Deployment", place.namespace, script=CRASHES), manager="kustomize-controller")
    assert {one.who for one in standing(done, place.reader)} == {"kustomize-controller"}
    with pytest.raises(Changed):  # an undo would write over what GitOps put there
        plan_undo(operation(remediation), place.reader, new_id=new_id)
