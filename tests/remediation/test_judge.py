"""Whether it worked: by the mechanism, not by readiness alone."""

from dataclasses import replace
from typing import Any

import pytest

from bot.model import Certainty, Diagnosis, Gap, Ledger, Outcome, Phase, Predicted, Rollout, Text, Verdict
from bot.remediation import judge
from tests.remediation.plans import PREDICTED, planned, recommendation
from tests.remediation.shelf import NOW, deployment_shelf

READY = Rollout(1, 1, 1, True)
STUCK = Rollout(1, 1, 0, False, "crash_looping", "chat-x: ended with exit code 1")


def diagnosis(cause: str = "healthy", **fields: Any) -> Diagnosis:
    return Diagnosis(cause, "x", Certainty.CERTAIN, Text(f"found {cause}"), **fields)


BEFORE = diagnosis("context_exceeds_kv_cache", phase=Phase.CACHE_SIZING)


def judged(after: Diagnosis | None, rollout: Rollout = READY, before: Diagnosis = BEFORE, **fields: Any) -> Outcome:
    remediation = planned(deployment_shelf(), recommendation(predicted=PREDICTED, **fields), diagnosis=before)
    return judge(remediation, before, after, rollout, NOW)


@pytest.mark.parametrize("reached", [Phase.CACHE_ALLOCATION, Phase.GRAPH_CAPTURE, Phase.SERVING])
def test_a_process_past_the_phase_where_the_old_one_died_is_verified(reached: Phase) -> None:
    found = judged(diagnosis(reached=reached))
    assert found.verdict is Verdict.VERIFIED
    assert "got past cache sizing" in found.says.en


@pytest.mark.parametrize("reached", [Phase.WEIGHTS, Phase.CACHE_SIZING])
def test_a_process_not_seen_past_that_phase_is_not_verifiable_though_it_is_ready(reached: Phase) -> None:
    found = judged(diagnosis(reached=reached))
    assert found.verdict is Verdict.NOT_VERIFIABLE
    assert "only up to" in found.says.en


def test_the_predicted_cache_is_compared_with_the_real_one() -> None:
    real = judged(diagnosis(reached=Phase.SERVING, ledger=Ledger(kv_tokens=57_776)))
    assert "predicted 57,776 tokens, real 57,776." in real.says.en
    off = judged(diagnosis(reached=Phase.SERVING, ledger=Ledger(kv_tokens=40_000)))
    assert "off by 31%" in off.says.en


def test_the_cache_is_compared_in_bytes_where_tokens_were_not_predicted() -> None:
    size = Predicted(available_kv_bytes=11_531_987_190)
    remediation = planned(deployment_shelf(), recommendation(predicted=size), diagnosis=BEFORE)
    after = diagnosis(reached=Phase.SERVING, ledger=Ledger(available_kv_bytes=11_531_987_190, kv_tokens=58_640))
    assert "predicted 10.74 GiB, real 10.74 GiB." in judge(remediation, BEFORE, after, READY, NOW).says.en


def test_a_remark_about_a_process_that_still_loads_does_not_fail_it() -> None:
    assert judged(diagnosis("cpu_throttling", reached=Phase.WEIGHTS)).verdict is Verdict.NOT_VERIFIABLE
    assert judged(diagnosis("cuda_graph_capture", phase=Phase.GRAPH_CAPTURE, reached=Phase.GRAPH_CAPTURE)).verdict is Verdict.FAILED


def test_the_same_cause_again_is_failed() -> None:
    for rollout in (READY, STUCK):
        found = judged(diagnosis("context_exceeds_kv_cache", reached=Phase.CACHE_SIZING), rollout)
        assert found.verdict is Verdict.FAILED
        assert found.says.en.startswith("The same cause again")


def test_the_same_cause_that_is_only_possible_beside_ready_pods_is_not_verifiable() -> None:
    perhaps = replace(diagnosis(BEFORE.cause), certainty=Certainty.POSSIBLE)
    found = judged(perhaps)
    assert (found.verdict, "the same cause is possible" in found.says.en) == (Verdict.NOT_VERIFIABLE, True)
    assert judged(perhaps, Rollout(1, 1, 0, False)).verdict is Verdict.FAILED


def test_another_cause_is_failed_with_the_new_diagnosis() -> None:
    after = diagnosis("cuda_graph_capture", reached=Phase.GRAPH_CAPTURE)
    found = judged(after, STUCK)
    assert (found.verdict, found.diagnosis) == (Verdict.FAILED, after)
    assert "another cause (cuda_graph_capture)" in found.says.en


def test_a_remark_about_a_process_that_serves_does_not_fail_it() -> None:
    assert judged(diagnosis("cpu_throttling", reached=Phase.SERVING)).verdict is Verdict.VERIFIED


def test_unreadable_logs_are_not_verifiable_with_the_reason() -> None:
    gap = Gap("container.log", "the kubelet does not answer")
    found = judged(diagnosis("unknown", gaps=(gap,)))
    assert found.verdict is Verdict.NOT_VERIFIABLE
    assert "the kubelet does not answer" in found.says.en
    assert judged(None).verdict is Verdict.NOT_VERIFIABLE


def test_a_rollout_that_is_not_through_is_failed_even_without_a_diagnosis() -> None:
    found = judged(None, STUCK)
    assert found.verdict is Verdict.FAILED
    assert "crash_looping" in found.says.en


def test_a_death_while_serving_is_verified_with_a_caution() -> None:
    before = diagnosis("runtime_burst", phase=Phase.SERVING)
    found = judged(diagnosis(reached=Phase.SERVING), before=before)
    assert found.verdict is Verdict.VERIFIED
    assert "only time will tell" in found.says.en


def test_a_restart_is_verified_by_ready_pods() -> None:
    found = judge(planned(deployment_shelf(), "restart"), BEFORE, diagnosis(reached=Phase.SERVING), READY, NOW)
    assert found.verdict is Verdict.VERIFIED


def test_a_restart_that_dies_of_the_same_cause_is_failed() -> None:
    after = diagnosis("context_exceeds_kv_cache", reached=Phase.CACHE_SIZING)
    assert judge(planned(deployment_shelf(), "restart"), BEFORE, after, STUCK, NOW).verdict is Verdict.FAILED


def test_every_outcome_speaks_both_languages() -> None:
    for after in (None, diagnosis(reached=Phase.SERVING), diagnosis("context_exceeds_kv_cache")):
        for rollout in (READY, STUCK):
            assert judged(after, rollout).says.zh
