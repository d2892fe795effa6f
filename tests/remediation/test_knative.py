"""A serverless InferenceService has a deadline that ends a start: Knative's. It is said beforehand, and a revision that was given up is not waited for."""

from datetime import timedelta
from typing import Any

import pytest

from bot.model import Remediation, Rollout
from bot.remediation import execute_step, observe
from bot.remediation.knative import DEADLINE, deadline, given_up
from tests.remediation.plans import planned
from tests.remediation.shelf import ShelfReader
from tests.remediation.test_kinds import ISVC, RAW, at, custom, model, shelf

KIND = "InferenceService"
PROBE = {"httpGet": {"path": "/health", "port": 8080}, "periodSeconds": 10, "failureThreshold": 120}  # 20 min
WROTE, LATER, BEFORE = "2026-11-30T10:00:00Z", "2026-11-30T10:10:00Z", "2026-11-30T09:50:00Z"
FAILED = {"type": "PredictorConfigurationReady", "status": "False", "reason": "RevisionFailed", "lastTransitionTime": LATER,
          "message": 'Revision "chat-predictor-00002" failed with message: Initial scale was never achieved.'}  # fmt: skip


def serverless(annotations: dict[str, str] | None = None, **fields: Any) -> ShelfReader:
    body = custom(KIND, model(args=["--max-model-len=131072"], **fields), **({"annotations": annotations} if annotations else {}))
    return shelf(body, ISVC, gpus=2)


def plan_of(here: ShelfReader) -> Remediation:
    return planned(here, at=at(KIND, "kserve-container"))


def notes(here: ShelfReader) -> str:
    return " ".join(note.en for note in plan_of(here).notes)


@pytest.mark.parametrize(
    ("text", "seconds"), [("600s", 600), ("30m", 1800), ("1h30m", 5400), ("1.5h", 5400), ("90000ms", 90), ("soon", None), ("", None), ("600", None), ("-10m", None)]
)
def test_a_deadline_is_read_as_go_writes_durations(text: str, seconds: float | None) -> None:
    body = {"metadata": {"annotations": {DEADLINE: text}}}
    assert deadline(body) == (None if seconds is None else timedelta(seconds=seconds))


def test_the_predictors_own_deadline_goes_before_that_of_the_object() -> None:
    body = {"metadata": {"annotations": {DEADLINE: "20m"}}, "spec": {"predictor": {"annotations": {DEADLINE: "30m"}}}}
    assert deadline(body) == timedelta(minutes=30)
    assert deadline({"metadata": {}, "spec": {"predictor": {}}}) is None


def test_the_preview_says_how_long_knative_waits_and_what_then() -> None:
    assert "Knative gives a new revision 10:00 to become ready" in notes(serverless())
    assert "unless the cluster sets another" in notes(serverless())
    assert "Knative gives a new revision 30:00 to become ready" in notes(serverless({DEADLINE: "30m"}))
    assert "unless" not in notes(serverless({DEADLINE: "30m"}))


def test_a_probe_that_allows_a_longer_start_than_knative_is_said_and_a_shorter_one_is_not() -> None:
    assert "By its probe a start may take 20:00: raise that annotation first." in notes(serverless(startupProbe=PROBE))
    assert "raise that annotation" not in notes(serverless({DEADLINE: "1h"}, startupProbe=PROBE))


def test_one_that_knative_does_not_run_has_no_such_deadline() -> None:
    body = custom(KIND, model(args=["--max-model-len=131072"]), **RAW)
    assert "Knative" not in notes(shelf(body, ISVC, gpus=2))


def watched(condition: dict[str, Any]) -> Rollout:
    here = serverless()
    plan = plan_of(here)
    execute_step(plan, 0, "op-1", here.writer())
    here.edit(KIND, "chat", lambda body: body["metadata"].update(managedFields=[{"manager": "oombot", "operation": "Update", "time": WROTE}]))
    here.edit(KIND, "chat", lambda body: body.update(status={**(body.get("status") or {}), "conditions": [condition]}))
    return observe(plan, here, ("chat-0-uid",))


def test_a_revision_that_knative_gave_up_is_never_ready_in_its_words() -> None:
    look = watched(FAILED)
    assert (look.done, look.stuck) == (False, "never_ready")
    assert look.detail.startswith('RevisionFailed: Revision "chat-predictor-00002" failed')


@pytest.mark.parametrize("condition", [{**FAILED, "status": "Unknown"}, {**FAILED, "lastTransitionTime": BEFORE}, {**FAILED, "type": "IngressReady"}])
def test_the_failure_of_an_older_revision_and_one_that_still_comes_say_nothing(condition: dict[str, Any]) -> None:
    assert watched(condition).stuck == ""


def test_without_a_write_of_ours_nothing_is_said() -> None:
    assert given_up({"metadata": {}, "status": {"conditions": [FAILED]}}) == ""
