"""Steps are sent once, only for what was approved, and recognised after a crash."""

import copy
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from bot.errors import Conflict, NotFound, Rejected, Temporary
from bot.model import ObjectRef, Remediation, StepKind, Written
from bot.remediation import OPERATION, Changed, differences, dry_run, execute_step
from tests.remediation.plans import planned, recommendation
from tests.remediation.shelf import ShelfReader, ShelfWriter, deployment_shelf, pod, stateful_shelf, target, workload


def fields(manager: str, time: str, *path: str) -> dict[str, Any]:
    owned: dict[str, Any] = {}
    for part in reversed(path):
        owned = {part: owned}
    return {"manager": manager, "operation": "Update", "time": time, "fieldsV1": owned}


ARGS = ("f:spec", "f:template", "f:spec", "f:containers", 'k:{"name":"server"}', "f:args")


def somebody_sets(shelf: ShelfReader, *args: str, by: str = "argocd-application-controller") -> None:
    def change(body: Any) -> None:
        body["spec"]["template"]["spec"]["containers"][0]["args"] = list(args)
        body["metadata"]["generation"] += 1
        body["metadata"]["managedFields"] = [fields("kubectl-create", "2026-11-30T08:00:00Z", "f:spec"), fields(by, "2026-11-30T10:18:00Z", *ARGS)]

    shelf.edit("Deployment", "chat", change)


def status_moves(shelf: ShelfReader, kind: str = "Deployment") -> None:
    def change(body: Any) -> None:
        body["metadata"]["resourceVersion"] = str(int(body["metadata"]["resourceVersion"]) + 7)
        body["metadata"]["labels"] = {"touched": "yes"}
        body["status"]["unavailableReplicas"] = 1
        body["spec"]["replicas"] = 1

    shelf.edit(kind, "chat", change)


def test_a_step_changes_the_object_and_leaves_its_mark() -> None:
    shelf = deployment_shelf()
    execute_step(planned(shelf), 0, "op-1", shelf.writer())
    body = shelf.seen("Deployment", "chat")
    assert body["spec"]["template"]["spec"]["containers"][0]["args"] == ["--model=llama", "--max-model-len=57344"]
    assert body["metadata"]["annotations"]["oombot.io/operation"] == "op-1"
    assert body["metadata"]["annotations"]["deployment.kubernetes.io/revision"] == "1"


def test_a_step_that_was_done_before_a_crash_is_not_done_again() -> None:
    shelf = deployment_shelf()
    remediation = planned(shelf)
    for _ in range(3):
        execute_step(remediation, 0, "op-1", shelf.writer())
    assert shelf.sent == [("patch", "chat")]


def test_what_came_back_of_a_write_is_given_by_its_numbers_alone() -> None:
    shelf = deployment_shelf()
    remediation = planned(shelf)
    back = execute_step(remediation, 0, "op-1", shelf.writer())
    meta = shelf.seen("Deployment", "chat")["metadata"]
    assert back == Written("Deployment llm/chat", meta["uid"], meta["resourceVersion"], meta["generation"])
    assert execute_step(remediation, 0, "op-1", shelf.writer()) == replace(back, recognised=True)


def test_what_a_server_gives_back_as_a_number_is_kept_short() -> None:
    shelf = deployment_shelf()
    remediation = planned(shelf)
    shelf.edit("Deployment", "chat", lambda body: body["metadata"]["annotations"].update({OPERATION: "op-1", "note": "a" * 900}))
    shelf.edit("Deployment", "chat", lambda body: body["metadata"].update(resourceVersion="7" * 900, generation="hf_abc"))
    back = execute_step(remediation, 0, "op-1", shelf.writer())
    assert (back.resource_version, back.generation) == ("7" * 64, None)


def test_an_object_without_annotations_gets_them_without_overwriting_anybodys() -> None:
    shelf = stateful_shelf()
    remediation = planned(shelf, at=target("StatefulSet"))

    def annotate(body: Any) -> None:
        body["metadata"]["annotations"] = {"team": "ranking"}

    races = [lambda: shelf.edit("StatefulSet", "chat", annotate)]
    shelf.before_patch = lambda: races.pop()() if races else None
    execute_step(remediation, 0, "op-1", shelf.writer())
    assert shelf.seen("StatefulSet", "chat")["metadata"]["annotations"] == {"team": "ranking", "oombot.io/operation": "op-1"}


def test_a_status_that_moves_all_the_time_goes_through() -> None:
    shelf = deployment_shelf()
    remediation = planned(shelf)
    shelf.before_patch = lambda: status_moves(shelf)
    status_moves(shelf)
    assert differences(remediation, shelf) == ()
    dry_run(remediation, shelf.writer())
    execute_step(remediation, 0, "op-1", shelf.writer())
    assert shelf.sent == [("patch", "chat")]


def test_a_template_changed_meanwhile_is_refused_with_who_changed_what() -> None:
    shelf = deployment_shelf()
    remediation = planned(shelf)
    somebody_sets(shelf, "--model=llama", "--max-model-len=8192")
    found = differences(remediation, shelf)
    assert [(one.path, one.before, one.now, one.who) for one in found] == [
        ("/spec/template/spec/containers/0/args/1", "--max-model-len=131072", "--max-model-len=8192", "argocd-application-controller")
    ]
    with pytest.raises(Changed, match="by argocd-application-controller") as refused:
        execute_step(remediation, 0, "op-1", shelf.writer())
    assert refused.value.differences == found
    assert shelf.sent == []


def test_another_argument_changed_meanwhile_is_refused_and_shown() -> None:
    shelf = deployment_shelf()
    remediation = planned(shelf, recommendation())
    somebody_sets(shelf, "--model=mistral", "--max-model-len=131072")
    assert [(one.before, one.now) for one in differences(remediation, shelf)] == [("--model=llama", "--model=mistral")]


def test_a_change_elsewhere_in_the_template_is_refused() -> None:
    shelf = deployment_shelf()
    remediation = planned(shelf)
    shelf.edit("Deployment", "chat", lambda body: body["spec"]["template"]["spec"].update(terminationGracePeriodSeconds=5))
    assert [one.path for one in differences(remediation, shelf)] == ["/spec/template"]
    with pytest.raises(Changed):
        dry_run(remediation, shelf.writer())


def test_a_strategy_changed_meanwhile_is_refused() -> None:
    shelf = deployment_shelf()
    remediation = planned(shelf)
    shelf.edit("Deployment", "chat", lambda body: body["spec"]["strategy"]["rollingUpdate"].update(maxSurge=3))
    assert [(one.path, one.now) for one in differences(remediation, shelf)] == [("/spec/strategy/rollingUpdate/maxSurge", 3)]


def test_somebodys_restart_meanwhile_is_no_change() -> None:
    shelf = deployment_shelf()
    remediation = planned(shelf)
    stamp = {"annotations": {"kubectl.kubernetes.io/restartedAt": "2026-11-30T10:16:00Z"}}
    shelf.edit("Deployment", "chat", lambda body: body["spec"]["template"]["metadata"].update(stamp))
    assert differences(remediation, shelf) == ()


def test_an_object_recreated_under_the_same_name_is_refused() -> None:
    shelf = deployment_shelf()
    remediation = planned(shelf)
    shelf.edit("Deployment", "chat", lambda body: body["metadata"].update(uid="another-uid"))
    assert [(one.path, one.now) for one in differences(remediation, shelf)] == [("uid", "another-uid")]
    with pytest.raises(Changed, match="uid"):
        execute_step(remediation, 0, "op-1", shelf.writer())


def test_another_cluster_behind_the_same_name_is_refused() -> None:
    shelf = deployment_shelf()
    remediation = planned(shelf)
    shelf.cluster_uid = "another-cluster"
    assert [one.path for one in differences(remediation, shelf)] == ["cluster"]
    with pytest.raises(Conflict, match="not the cluster"):
        execute_step(remediation, 0, "op-1", shelf.writer())
    assert shelf.sent == []


def test_an_object_that_is_gone_is_said_to_be_gone() -> None:
    shelf = deployment_shelf()
    remediation = planned(shelf)
    shelf.drop("Deployment", "chat")
    with pytest.raises(NotFound):
        differences(remediation, shelf)


def test_a_change_between_the_look_and_the_patch_is_refused_by_the_patch_itself() -> None:
    shelf = deployment_shelf()
    remediation = planned(shelf, recommendation("max_num_seqs", to=8))
    races = [lambda: somebody_sets(shelf, "--model=llama", "--max-model-len=131072", "--max-num-seqs=999")]
    shelf.before_patch = lambda: races.pop()() if races else None
    with pytest.raises(Changed):
        execute_step(remediation, 0, "op-1", shelf.writer())
    assert shelf.sent == []


def test_scaling_between_the_look_and_the_patch_does_not_stop_it() -> None:
    shelf = deployment_shelf()
    remediation = planned(shelf)

    def scale(body: Any) -> None:
        body["spec"]["replicas"] = 3
        body["metadata"]["generation"] += 1

    races = [lambda: shelf.edit("Deployment", "chat", scale)]
    shelf.before_patch = lambda: races.pop()() if races else None
    execute_step(remediation, 0, "op-1", shelf.writer())
    assert shelf.seen("Deployment", "chat")["spec"]["replicas"] == 3


def test_a_dry_run_sends_every_step_and_changes_nothing() -> None:
    shelf = stateful_shelf()
    before = shelf.seen("StatefulSet", "chat")
    dry_run(planned(shelf, at=target("StatefulSet")), shelf.writer())
    assert shelf.dry == [("patch", "chat"), ("delete", "chat-0")]
    assert (shelf.sent, shelf.seen("StatefulSet", "chat")) == ([], before)


def applied(shelf: ShelfReader) -> Remediation:
    remediation = planned(shelf, at=target("StatefulSet"))
    execute_step(remediation, 0, "op-1", shelf.writer())
    return remediation


class Mutating:
    """A cluster whose admission has the last word: it changes what comes back of each patch."""

    def __init__(self, writer: ShelfWriter, change: Callable[[dict[str, Any]], object]) -> None:
        self._writer, self._change = writer, change

    def __getattr__(self, name: str) -> Any:
        return getattr(self._writer, name)

    def patch(self, ref: ObjectRef, operations: Any, *, dry_run: bool) -> Any:
        body = copy.deepcopy(self._writer.patch(ref, operations, dry_run=dry_run))
        self._change(body["spec"]["template"]["spec"]["containers"][0])
        return body


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda container: container["args"].__setitem__(1, "--max-model-len=8192"), "args/1 it would write --max-model-len=8192, and not what is shown"),
        (lambda container: container.pop("args"), "args/1 it would write nothing"),
        (lambda container: container["args"].__setitem__(1, "--api-key=hf_" + "Zx81kQp0" * 4), "args/1 it would write "),
    ],
)
def test_a_dry_run_that_comes_back_otherwise_than_it_was_shown_is_refused(change: Callable[[dict[str, Any]], object], says: str) -> None:
    shelf = deployment_shelf()
    with pytest.raises(Rejected, match=says) as refused:
        dry_run(planned(shelf), Mutating(shelf.writer(), change))
    assert "Zx81" not in str(refused.value)


def test_a_dry_run_of_which_something_else_was_filled_in_passes() -> None:
    shelf = deployment_shelf()
    dry_run(planned(shelf), Mutating(shelf.writer(), lambda container: container.update(terminationMessagePath="/dev/termination-log")))


def test_the_not_ready_pod_is_deleted_once_even_when_asked_twice() -> None:
    shelf = stateful_shelf()
    remediation = applied(shelf)
    assert remediation.steps[1].kind is StepKind.DELETE_POD
    execute_step(remediation, 1, "op-1", shelf.writer())
    execute_step(remediation, 1, "op-1", shelf.writer())
    assert shelf.sent == [("patch", "chat"), ("delete", "chat-0")]


def test_a_pod_that_was_made_anew_meanwhile_is_left_alone() -> None:
    shelf = stateful_shelf()
    remediation = applied(shelf)
    shelf.edit("Pod", "chat-0", lambda body: body["metadata"].update(uid="newer-uid"))
    execute_step(remediation, 1, "op-1", shelf.writer())
    assert shelf.seen("Pod", "chat-0")["metadata"]["uid"] == "newer-uid"


def test_no_pod_is_deleted_before_the_controller_has_seen_the_template() -> None:
    shelf = stateful_shelf()
    remediation = applied(shelf)
    shelf.edit("StatefulSet", "chat", lambda body: body["status"].update(observedGeneration=1))
    waits: list[float] = []
    with pytest.raises(Temporary, match="has not taken up"):
        execute_step(remediation, 1, "op-1", shelf.writer(), sleep=waits.append)
    assert 10 <= sum(waits) < 12
    assert shelf.sent == [("patch", "chat")]


def test_no_pod_is_deleted_when_the_patch_was_not_ours() -> None:
    shelf = stateful_shelf()
    remediation = planned(shelf, at=target("StatefulSet"))
    with pytest.raises(Conflict, match="does not bear"):
        execute_step(remediation, 1, "op-1", shelf.writer())
    assert shelf.sent == []


def test_ready_pods_on_delete_stay() -> None:
    owner = workload("StatefulSet", updateStrategy={"type": "OnDelete"})
    shelf = stateful_shelf(body=owner, pods=[pod("chat-0", owner, ready=True)])
    assert len(planned(shelf, at=target("StatefulSet")).steps) == 1


def test_a_pod_that_is_going_already_is_not_deleted_again() -> None:
    """A process that was killed after it sent the deletion comes back while the pod still ends."""
    shelf = stateful_shelf()
    remediation = planned(shelf, at=target("StatefulSet"))
    execute_step(remediation, 0, "op-1", shelf.writer())
    shelf.sent.clear()
    shelf.edit("Pod", "chat-0", lambda body: body["metadata"].update(deletionTimestamp="2026-11-30T10:17:00Z"))
    execute_step(remediation, 1, "op-1", shelf.writer())
    assert shelf.sent == []
