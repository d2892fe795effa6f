"""The table of moves: complete, closed, and the same as the one that people read."""

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from bot import lifecycle
from bot.errors import Refused
from bot.model import Actor, Case, Request, State, TargetQuery

NOW = datetime(2026, 11, 30, 10, 0, tzinfo=UTC)


def case_in(state: State) -> Case:
    request = Request("k", Actor("U1", "slack"), TargetQuery("pod-x"), NOW)
    return Case(id="c1", version=1, state=state, request=request, created_at=NOW, updated_at=NOW)


def reachable(start: State) -> set[State]:
    found, todo = {start}, [start]
    while todo:
        here = todo.pop()
        for row in lifecycle.TABLE:
            if row.from_state is here and row.to_state not in found:
                found.add(row.to_state)
                todo.append(row.to_state)
    return found


def test_every_state_is_reachable_from_received() -> None:
    assert reachable(State.RECEIVED) == set(State)


@pytest.mark.parametrize("state", [state for state in State if state not in lifecycle.END])
def test_a_state_that_is_no_end_has_a_way_to_an_end(state: State) -> None:
    assert reachable(state) & lifecycle.END


@pytest.mark.parametrize("state", sorted(lifecycle.END))
def test_an_end_state_has_no_way_out(state: State) -> None:
    assert reachable(state) == {state}


def test_no_move_stands_twice_in_the_table() -> None:
    moves = [(row.from_state, row.to_state) for row in lifecycle.TABLE]
    assert len(moves) == len(set(moves))


def test_every_move_of_the_table_is_made_and_kept_in_the_history() -> None:
    for row in lifecycle.TABLE:
        moved = lifecycle.move(case_in(row.from_state), row.to_state, "U2", "because", NOW)
        assert moved.state is row.to_state
        assert (moved.history[-1].from_state, moved.history[-1].to_state, moved.history[-1].who) == (row.from_state, row.to_state, "U2")


def test_every_other_move_is_refused_with_both_names() -> None:
    for from_state in State:
        for to_state in State:
            if not lifecycle.may(from_state, to_state):
                with pytest.raises(Refused) as refused:
                    lifecycle.move(case_in(from_state), to_state, "U2", "", NOW)
                assert refused.value.key == "not_now"
                assert refused.value.parameters == {"state": from_state.value, "wanted": to_state.value}


def test_nothing_is_executed_that_was_not_approved() -> None:
    begun = {State.WATCHING, State.STUCK}  # what was approved and began goes on
    assert {row.from_state for row in lifecycle.TABLE if row.to_state is State.EXECUTING} == {State.APPROVED, *begun}
    assert {row.from_state for row in lifecycle.TABLE if row.to_state is State.WATCHING} == {State.EXECUTING, State.STUCK}
    assert {row.from_state for row in lifecycle.TABLE if row.to_state is State.APPROVED} == {State.AWAITING_APPROVAL}


@pytest.mark.parametrize("resting", lifecycle.RESTING)
def test_a_plan_that_comes_to_nothing_goes_back_to_where_it_began(resting: State) -> None:
    planning = lifecycle.move(case_in(resting), State.PLANNING, "U1", "", NOW)
    waiting = lifecycle.move(planning, State.AWAITING_APPROVAL, lifecycle.BOT, "", NOW)
    back = lifecycle.move(waiting, lifecycle.resting_state(waiting), lifecycle.BOT, "expired", NOW)
    again = lifecycle.move(lifecycle.move(back, State.PLANNING, "U1", "preview again", NOW), State.AWAITING_APPROVAL, lifecycle.BOT, "", NOW)
    assert lifecycle.resting_state(again) is resting
    assert lifecycle.move(again, lifecycle.resting_state(again), lifecycle.BOT, "expired", NOW).state is resting


def test_a_case_without_history_rests_where_it_was_diagnosed() -> None:
    assert lifecycle.resting_state(replace(case_in(State.PLANNING), history=())) is State.DIAGNOSED


def test_the_page_about_the_lifecycle_shows_this_very_table() -> None:
    page = Path(__file__).parents[1] / "docs" / "lifecycle.md"
    assert lifecycle.table() in page.read_text(encoding="utf-8")
