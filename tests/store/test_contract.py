"""What every case store does. Each test runs for each implementation in STORES; a store that comes later is one more line there."""

import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from bot.clients.sqlite import Database
from bot.errors import Refused, StoreError, VersionConflict
from bot.lifecycle import END
from bot.model import Act, Actor, Button, Case, Request, State, TargetQuery
from bot.ports import CaseStore
from bot.store.sqlite import SqliteStore

NOW = datetime(2026, 11, 30, 10, 0, tzinfo=UTC)
STORES: dict[str, Callable[[Path], CaseStore]] = {"sqlite": lambda folder: SqliteStore(Database(folder / "oombot.db"))}


def new_case(case_id: str = "c1", minutes: int = 0, state: State = State.RECEIVED) -> Case:
    at = NOW + timedelta(minutes=minutes)
    return Case(case_id, 0, state, Request(f"key-{case_id}", Actor("U1", "slack"), TargetQuery("pod-x"), at), at, at)


@pytest.fixture(params=sorted(STORES))
def opener(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[], CaseStore]:
    """Opens the same store again, as the next process would."""
    return lambda: STORES[request.param](tmp_path)


@pytest.fixture
def store(opener: Callable[[], CaseStore]) -> CaseStore:
    return opener()


def test_what_arrives_twice_is_one_case(store: CaseStore) -> None:
    first, new = store.create(new_case("c1"), "webhook-1")
    second, again = store.create(new_case("c2"), "webhook-1")
    assert (new, again) == (True, False)
    assert second == first
    assert store.get("c2") is None


def test_a_case_outlives_its_process(store: CaseStore, opener: Callable[[], CaseStore]) -> None:
    kept, _ = store.create(new_case(), "k")
    assert opener().get("c1") == kept


def test_there_is_no_case_that_nobody_kept(store: CaseStore) -> None:
    assert store.get("c9") is None
    assert store.find_button("b9") is None


def test_saving_counts_the_version_up(store: CaseStore) -> None:
    kept, _ = store.create(new_case(), "k")
    saved = store.save(replace(kept, state=State.CHECKING))
    assert saved.version == kept.version + 1
    assert store.get("c1") == saved


def test_who_saves_second_is_told_and_changes_nothing(store: CaseStore) -> None:
    kept, _ = store.create(new_case(), "k")
    first = store.save(replace(kept, state=State.CHECKING))
    with pytest.raises(VersionConflict):
        store.save(replace(kept, state=State.CLOSED))
    assert store.get("c1") == first


def test_of_many_savers_at_once_exactly_one_wins(store: CaseStore) -> None:
    kept, _ = store.create(new_case(), "k")
    won: list[str] = []
    start = threading.Barrier(8)

    def save(name: str) -> None:
        start.wait()
        try:
            store.save(replace(kept, asked_again=(name,)))
        except VersionConflict:
            return
        won.append(name)

    threads = [threading.Thread(target=save, args=(f"U{number}",)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(won) == 1
    assert store.get("c1") == replace(kept, version=kept.version + 1, asked_again=(won[0],))


def test_a_button_finds_its_case_also_after_it_was_taken_off(store: CaseStore) -> None:
    kept, _ = store.create(new_case(), "k")
    shown = store.save(replace(kept, buttons=(Button("b1", "apply"),)))
    bare = store.save(replace(shown, buttons=()))
    assert store.find_button("b1") == bare


def test_open_cases_are_those_that_did_not_end_oldest_first(store: CaseStore) -> None:
    for number, state in enumerate(State):
        store.create(new_case(f"c{number:02}", minutes=-number, state=state), f"k{number}")
    found = store.open_cases()
    assert {case.state for case in found} == set(State) - END
    assert [case.created_at for case in found] == sorted(case.created_at for case in found)


def test_recent_cases_come_newest_first_and_only_as_many_as_asked(store: CaseStore) -> None:
    for number in range(5):
        store.create(new_case(f"c{number}", minutes=number), f"k{number}")
    assert [case.id for case in store.recent(3)] == ["c4", "c3", "c2"]


def test_a_key_is_new_once(store: CaseStore, opener: Callable[[], CaseStore]) -> None:
    assert not store.seen("event-1")
    assert store.seen("event-1")
    assert opener().seen("event-1")
    assert not store.seen("event-2")


def test_a_flag_survives_and_can_be_taken_away(store: CaseStore, opener: Callable[[], CaseStore]) -> None:
    assert store.get_flag("frozen") is None
    store.set_flag("frozen", "U1")
    store.set_flag("frozen", "U2")
    assert opener().get_flag("frozen") == "U2"
    store.set_flag("frozen", None)
    assert store.get_flag("frozen") is None


def test_a_file_of_a_newer_program_is_refused_with_a_clear_line(tmp_path: Path) -> None:
    database = Database(tmp_path / "oombot.db")
    SqliteStore(database)
    with database.write() as connection:
        connection.execute("UPDATE schema_versions SET version = 99 WHERE part = 'store'")
    with pytest.raises(StoreError, match="store has schema version 99, this program knows 2: start a newer one"):
        SqliteStore(Database(tmp_path / "oombot.db"))


def test_a_file_that_is_no_database_is_refused_with_a_clear_line(tmp_path: Path) -> None:
    (tmp_path / "oombot.db").write_bytes(b"not a database, certainly not" * 100)
    with pytest.raises(StoreError, match="not a database"):
        Database(tmp_path / "oombot.db")


def test_a_folder_that_cannot_be_made_is_refused_with_a_clear_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match=r"(file|data): (File exists|Not a directory)"):
        Database(tmp_path / "file" / "data" / "oombot.db")


# ---------------------------------------------------------------- acts


def act(name: str, minutes_ago: float = 0) -> Act:
    return Act(name, NOW - timedelta(minutes=minutes_ago), "prod", "llm")


def fewer_than(most: int) -> Callable[[Sequence[Act]], None]:
    def allowed(others: Sequence[Act]) -> None:
        if len(others) >= most:
            raise Refused("quota_used")

    return allowed


def test_an_act_outlives_its_process_and_is_found_by_its_time(store: CaseStore, opener: Callable[[], CaseStore]) -> None:
    store.record_act(act("o1", 70), NOW - timedelta(hours=1), fewer_than(9))
    store.record_act(act("o2", 10), NOW - timedelta(hours=1), fewer_than(9))
    assert [one.id for one in opener().acts(NOW - timedelta(hours=1))] == ["o2"]


def test_an_act_that_is_not_allowed_is_not_kept_and_one_that_is_kept_is_not_asked_about_again(store: CaseStore) -> None:
    since = NOW - timedelta(hours=1)
    store.record_act(act("o1"), since, fewer_than(1))
    with pytest.raises(Refused):
        store.record_act(act("o2"), since, fewer_than(1))
    store.record_act(act("o1"), since, fewer_than(1))
    assert [one.id for one in store.acts(since)] == ["o1"]


def test_of_many_acts_at_once_only_as_many_are_kept_as_are_allowed(opener: Callable[[], CaseStore]) -> None:
    since, refused = NOW - timedelta(hours=1), []

    def begin(name: str) -> None:
        try:
            opener().record_act(act(name), since, fewer_than(3))
        except Refused:
            refused.append(name)

    threads = [threading.Thread(target=begin, args=(f"o{number}",)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (len(opener().acts(since)), len(refused)) == (3, 5)
