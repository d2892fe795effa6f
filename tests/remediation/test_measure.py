"""A metrics server is asked about the plan's pods, and what it answers is compared: better, no better, or why it cannot tell."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta

import pytest

from bot.clients.prometheus import Prometheus
from bot.errors import Unreachable
from bot.model import Certainty, Diagnosis, Measured, Recommendation, Remediation, Text
from bot.ports import Sample
from bot.remediation.measure import NO_SAMPLE, Measure, Server, compare, shown
from bot.settings import PrometheusSettings
from tests.clients.fake_prometheus import FakePrometheus, vector
from tests.remediation.plans import planned, recommendation
from tests.remediation.shelf import deployment_shelf, target

AT, HOUR = datetime(2026, 11, 30, 10, tzinfo=UTC), timedelta(hours=1)


@dataclass
class Answers:
    """A metrics server that answers each query with what stands under a part of it."""

    by_part: dict[str, Sequence[float]] = field(default_factory=dict)
    down: bool = False
    queries: list[str] = field(default_factory=list)

    def query(self, promql: str, at: datetime) -> Sequence[Sample]:
        self.queries.append(promql)
        if self.down:
            raise Unreachable("Prometheus of prod cannot be reached: ConnectError")
        return [Sample({}, value) for part, values in self.by_part.items() if part in promql for value in values]


@pytest.fixture
def plan() -> Remediation:
    return planned(deployment_shelf(), recommendation(), target())


def measured(answers: Answers, plan: Remediation, cause: str = "cpu_throttling", pods: Sequence[str] = ("chat-1",)) -> tuple[Measured, ...]:
    return Measure({"shelf": Server(answers, {})})(plan, cause, pods, AT, HOUR)


def values(found: Sequence[Measured]) -> dict[str, float | None]:
    return {one.metric: one.value for one in found}


def test_a_real_client_is_asked_with_the_plans_pods(plan: Remediation) -> None:
    fake = FakePrometheus(lambda query: vector(({}, "0.41")) if "throttled" in query else vector())
    try:
        server = Server(Prometheus("shelf", PrometheusSettings(url=fake.start())), {"cluster": "west"})
        found = Measure({"shelf": server})(plan, "cpu_throttling", ["chat-1"], AT, HOUR)
    finally:
        fake.stop()
    assert values(found)["cpu_throttled"] == 0.41
    assert all('namespace="llm",pod=~"chat-1"' in query and 'cluster="west"' in query for query in fake.queries)
    assert "[3600s]" in fake.queries[0]


@pytest.mark.parametrize(("answer", "reason"), [([], NO_SAMPLE.en), ([math.nan], NO_SAMPLE.en), ([math.inf], NO_SAMPLE.en), ([0.1, 0.2], "not one number")])
def test_what_is_absent_or_not_one_number_has_a_reason_instead_of_a_value(plan: Remediation, answer: list[float], reason: str) -> None:
    first = measured(Answers({"throttled": answer}), plan)[0]
    assert (first.metric, first.value) == ("cpu_throttled", None)
    assert reason in str(first.reason)


def test_the_second_name_counts_where_the_first_has_no_rows(plan: Remediation) -> None:
    found = values(measured(Answers({"gpu_cache_usage_perc": [0.99]}), replace(plan, remedy="max_num_seqs:lower"), ""))
    assert found == {"cache_usage": 0.99}


def test_what_the_remedy_is_about_is_no_gap_where_the_server_never_ran(plan: Remediation) -> None:
    assert measured(Answers(), plan, "context_exceeds_kv_cache") == ()
    assert [one.metric for one in measured(Answers(down=True), plan, "context_exceeds_kv_cache")] == ["cache_usage", "preemptions"]


def test_a_server_that_is_down_is_a_reason_and_no_error(plan: Remediation) -> None:
    answers = Answers(down=True)
    found = measured(answers, plan)
    assert len(found) > 1
    assert {one.value for one in found} == {None}
    assert all("cannot be reached" in str(one.reason) for one in found)
    assert len(answers.queries) == 1  # a write does not wait for it again and again


def test_nobody_is_asked_without_a_server_without_pods_or_for_an_undo(plan: Remediation) -> None:
    answers = Answers({"throttled": [0.4]})
    assert Measure({})(plan, "cpu_throttling", ["chat-1"], AT, HOUR) == ()
    assert measured(answers, plan, pods=()) == ()
    assert measured(answers, replace(plan, direction="undo")) == ()
    assert answers.queries == []


def test_a_very_short_time_is_widened_so_that_it_holds_samples(plan: Remediation) -> None:
    answers = Answers()
    Measure({"shelf": Server(answers, {})})(plan, "cpu_throttling", ["chat-1"], AT, timedelta(seconds=3))
    assert "[120s]" in answers.queries[0]


def one(metric: str, value: float | None, reason: Text | None = None) -> Measured:
    return Measured(metric, value, AT, 3600, reason)


@pytest.mark.parametrize(
    ("before", "after", "says", "better"),
    [
        (0.41, 0.02, "41 % before, 2 % after.", True),
        (0.41, 0.40, "41 % before, 40 % after, which is no better.", False),
        (0.41, 0.60, "which is no better.", False),
        (0.04, 0.90, "", None),  # it was not bad
    ],
)
def test_what_was_bad_is_set_beside_what_it_is_now(before: float, after: float, says: str, better: bool | None) -> None:
    found = compare([one("cpu_throttled", before)], [one("cpu_throttled", after)])
    assert says in found.says.en
    assert (found.better, bool(found.says.en)) == (better, bool(says))


def test_counters_that_went_with_the_limit_are_no_proof_and_no_gap() -> None:
    found = compare([one("cpu_throttled", 0.41)], [one("cpu_throttled", None, NO_SAMPLE)])
    assert "41 % before; no periods are counted any more" in found.says.en
    assert found.better is None


@pytest.mark.parametrize(
    ("before", "after", "says"),
    [
        (one("restarts", None, NO_SAMPLE), one("restarts", 0), "not verifiable by this metric, because before the change the server has no sample of it"),
        (one("restarts", 2), one("restarts", None, Text("it is down", "x")), "not verifiable by this metric, because after it it is down"),
        (one("restarts", 2), None, "because after it the server has no sample"),
    ],
)
def test_what_cannot_be_compared_is_said_with_the_reason(before: Measured, after: Measured | None, says: str) -> None:
    found = compare([before], [after] if after else [])
    assert says in found.says.en
    assert found.better is None


def test_one_metric_that_is_better_is_enough_and_all_are_said() -> None:
    found = compare([one("restarts", 2), one("cpu_throttled", 0.5)], [one("restarts", 2), one("cpu_throttled", 0.0)])
    assert found.better is True
    assert ("Restarts of the container" in found.says.en, "throttled" in found.says.en) == (True, True)


@pytest.mark.parametrize(("value", "unit", "en"), [(0.4123, "share", "41.2 %"), (25 << 30, "bytes", "25 GiB"), (12.0, "count", "12"), (0.5, "per_minute", "0.5 a minute")])
def test_numbers_are_written_as_people_do(value: float, unit: str, en: str) -> None:
    assert shown(value, unit).en == en


def test_the_sums_of_two_servers_are_not_mixed(plan: Remediation) -> None:
    other = Answers({"throttled": [0.9]})
    assert Measure({"elsewhere": Server(other, {})})(plan, "cpu_throttling", ["chat-1"], AT, HOUR) == ()
    assert other.queries == []


def test_queries_are_asked_for_the_moment_and_not_for_now(plan: Remediation) -> None:
    asked: list[datetime] = []

    class Clocked(Answers):
        def query(self, promql: str, at: datetime) -> Sequence[Sample]:
            asked.append(at)
            return ()

    measured(Clocked(), plan)
    assert set(asked) == {AT}



def found_at_check(answers: Answers, cause: str, *remedies: str, pod: str = "chat-1") -> list[tuple[str, str]]:
    told = tuple(Recommendation(*remedy.split(":"), Text("x"), Text("x"), "low") for remedy in remedies)
    diagnosis = Diagnosis(cause, "x", Certainty.LIKELY, Text("x"), recommendations=told)
    quotes = Measure({"shelf": Server(answers, {})}).readings(replace(target(), pod=pod), diagnosis, AT, HOUR)
    assert all((one.source, one.line) == ("prometheus", None) for one in quotes)
    return [(one.quote, one.says.en) for one in quotes]


def test_at_a_check_each_metric_of_the_cause_is_told_and_of_the_remedies_the_bad_ones() -> None:
    answers = Answers({"working_set": [0.4], "restarts_total": [0.2], "kv_cache_usage": [0.99], "preemptions": [0.5]})
    found = found_at_check(answers, "container_memory_limit", "memory_limit:raise", "max_num_seqs:lower")
    assert [quote for quote, _ in found] == ["host_memory_peak 0.4", "restarts 0.2", "cache_usage 0.99"]
    assert found[0][1] == "Highest working set of its memory limit in the last 60 min: 40 % (samples may miss a peak)"


def test_at_a_check_nothing_is_told_without_a_sample_a_server_or_a_pod() -> None:
    assert found_at_check(Answers(), "container_memory_limit") == []
    assert found_at_check(Answers(down=True), "container_memory_limit") == []
    assert found_at_check(Answers({"working_set": [0.4]}), "container_memory_limit", pod="") == []
    assert found_at_check(Answers({"working_set": [0.4, 0.5]}), "container_memory_limit") == []
    diagnosis = Diagnosis("container_memory_limit", "x", Certainty.LIKELY, Text("x"))
    assert Measure({}).readings(target(), diagnosis, AT, HOUR) == ()


def test_a_server_that_does_not_answer_is_asked_once_at_a_check() -> None:
    answers = Answers(down=True)
    found_at_check(answers, "container_memory_limit", "max_num_seqs:lower")
    assert len(answers.queries) == 1
