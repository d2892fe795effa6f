"""Windows, dated freezes and quotas: open or not, and when it opens."""

from datetime import UTC, datetime, time, timedelta

import pytest

from bot.change_times import Freeze, Quota, Window, closed
from bot.model import Act
from bot.reach import Reach

OFFICE = Window(("mon", "tue", "wed", "thu", "fri"), time(9), time(17), "Europe/Berlin")
NIGHT = Window(("fri",), time(22), time(2))


def at(text: str) -> datetime:
    return datetime.fromisoformat(text)


def opens(windows: list[Window], freezes: list[Freeze], now: str) -> datetime | None:
    shut = closed(windows, freezes, at(now))
    assert shut is not None
    return shut.opens


def test_without_windows_and_freezes_it_is_always_open() -> None:
    assert closed([], [], at("2026-11-29T03:00+00:00")) is None


@pytest.mark.parametrize("now", ["2026-11-30T08:00+00:00", "2026-11-30T15:59+00:00", "2026-07-01T07:00+00:00"])
def test_inside_of_a_window_it_is_open_by_the_clock_of_its_zone(now: str) -> None:
    assert closed([OFFICE], [], at(now)) is None


@pytest.mark.parametrize(
    ("now", "next_"),
    [
        ("2026-11-30T07:59+00:00", "2026-11-30T08:00+00:00"),
        ("2026-11-30T16:00+00:00", "2026-12-01T08:00+00:00"),
        ("2026-12-04T16:30+00:00", "2026-12-07T08:00+00:00"),  # a Friday evening
        ("2026-03-28T12:00+00:00", "2026-03-30T07:00+00:00"),  # summer time begins in between
    ],
)
def test_outside_it_says_when_it_opens(now: str, next_: str) -> None:
    assert opens([OFFICE], [], now) == at(next_)


def test_a_window_over_midnight_is_open_on_both_sides() -> None:
    assert closed([NIGHT], [], at("2026-12-04T23:00+00:00")) is None
    assert closed([NIGHT], [], at("2026-12-05T01:59+00:00")) is None
    assert opens([NIGHT], [], "2026-12-05T02:00+00:00") == at("2026-12-11T22:00+00:00")


def test_of_several_windows_one_is_enough() -> None:
    assert closed([OFFICE, NIGHT], [], at("2026-12-04T23:00+00:00")) is None


def test_a_freeze_closes_an_open_window_and_its_end_waits_for_the_next() -> None:
    freeze = Freeze(at("2026-12-18T12:00+00:00"), at("2027-01-02T00:00+00:00"), "year end")
    shut = closed([OFFICE], [freeze], at("2026-12-18T13:00+00:00"))
    assert shut is not None
    assert (shut.opens, shut.freeze) == (at("2027-01-04T08:00+00:00"), freeze)
    assert closed([OFFICE], [freeze], at("2026-12-18T11:59+00:00")) is None


def test_freezes_that_overlap_are_counted_as_one() -> None:
    freezes = [Freeze(at("2026-12-01T00:00+00:00"), at("2026-12-03T00:00+00:00")), Freeze(at("2026-12-02T00:00+00:00"), at("2026-12-05T00:00+00:00"))]
    assert opens([], freezes, "2026-12-01T10:00+00:00") == at("2026-12-05T00:00+00:00")


def test_a_window_without_a_day_never_opens() -> None:
    assert opens([Window(())], [], "2026-12-01T10:00+00:00") is None


# ---------------------------------------------------------------- quotas

NOW = datetime(2026, 11, 30, 10, 0, tzinfo=UTC)


def acts(*places: tuple[str, str, float]) -> list[Act]:
    return [Act(f"o{number}", NOW - timedelta(minutes=ago), cluster, namespace) for number, (cluster, namespace, ago) in enumerate(places)]


@pytest.mark.parametrize(("per", "count"), [("namespace", 1), ("cluster", 2), ("rule", 3)])
def test_a_quota_counts_by_namespace_by_cluster_or_altogether(per: str, count: int) -> None:
    found = Quota(1, per).counted(acts(("prod", "llm", 5), ("prod", "other", 5), ("stage", "llm", 5)), "prod", "llm", NOW)
    assert len(found) == count


def test_only_the_last_hour_counts_and_what_lies_ahead_since_a_clock_was_set_back() -> None:
    found = Quota(1).counted(acts(("prod", "llm", 61), ("prod", "llm", 59), ("prod", "llm", -30)), "prod", "llm", NOW)
    assert [act.id for act in found] == ["o1", "o2"]


def test_what_lies_outside_of_the_reach_is_not_counted() -> None:
    assert Quota(1, "rule", Reach(("prod",), ("llm",))).counted(acts(("prod", "other", 1), ("stage", "llm", 1)), "prod", "llm", NOW) == []
