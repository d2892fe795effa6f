"""What is seen of a change after it was made, on a cluster: GitOps that puts its own back, and a process that ends again."""

from dataclasses import replace
from datetime import datetime, timedelta

import pytest

from bot.remediation import observe
from bot.remediation.lives import lives
from bot.remediation.standing import standing
from tests.remediation.place import CRASHES, MODEL, Place, manifest, restarts, until
from tests.remediation.plans import operation, recommendation


@pytest.mark.parametrize("kind", ["Deployment", "StatefulSet"])
def test_gitops_that_reverts_in_the_middle_is_named(place: Place, kind: str) -> None:
    target = place.crash_looping(kind)
    remediation = place.planned(recommendation(), target)
    place.carry_out(remediation, "op-1")
    done = replace(operation(remediation), next_step=len(remediation.steps))
    assert standing(done, place.reader) == ()
    place.cluster.apply(manifest(kind, place.namespace), manager="argocd-application-controller")
    found = standing(done, place.reader)
    assert ("--max-model-len=57344", "--max-model-len=131072", "argocd-application-controller") in {(one.before, one.now, one.who) for one in found}
    assert MODEL not in str(found)


def test_a_process_that_ends_again_is_counted(place: Place) -> None:
    target = place.crash_looping("Deployment", script=CRASHES)
    remediation = place.planned(recommendation(), target)
    (first,) = lives(remediation, [target.pod], place.reader)
    seen = until(lambda: found[0] if (found := lives(remediation, [target.pod], place.reader)) and found[0].restarts > first.restarts else None)
    assert (seen.uid, seen.failed, seen.ended) == (target.pod_uid, False, "Error, exit code 1")
    assert seen.restarts <= max(map(restarts, place.pods()))


def test_the_new_pods_of_a_rollout_are_those_that_are_counted(place: Place) -> None:
    remediation = place.planned(recommendation(), place.crash_looping("Deployment"))
    place.carry_out(remediation, "op-1")
    found = lives(remediation, observe(remediation, place.reader).new_pods, place.reader)
    assert [(one.restarts, one.failed) for one in found] == [(0, False)]


def test_the_clusters_clock_is_asked_of_its_api_server(place: Place) -> None:
    """What a rollout is given patience for is stamped by it: ours may be off."""
    target = place.crash_looping("Deployment", script=CRASHES)
    made = place.reader.get("v1", "Pod", place.namespace, target.pod)["metadata"]["creationTimestamp"]
    assert timedelta(seconds=-2) < place.reader.now() - datetime.fromisoformat(made) < timedelta(minutes=2)
