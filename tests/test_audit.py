"""An audit trail that somebody changed is found, with the place; one that nobody changed is whole."""

import json
import os
import stat
import threading
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest

from bot.audit import AuditTrail, Head, Problem, load_key
from bot.clients.sqlite import Database
from bot.errors import BadInput
from bot.redact import redact
from bot.store.sqlite import SqliteStore
from bot.terminal import audit as command

KEY = b"k" * 32


class FixedClock:
    def now(self) -> datetime:
        return datetime(2026, 11, 30, 10, 0, tzinfo=UTC)


@pytest.fixture
def store(tmp_path: Path) -> SqliteStore:
    return SqliteStore(Database(tmp_path / "oombot.db"))


@pytest.fixture
def trail(tmp_path: Path, store: SqliteStore) -> AuditTrail:
    trail = AuditTrail(tmp_path / "audit.jsonl", KEY, FixedClock(), store, redact)
    for number in range(1, 7):
        trail.append({"what": "approved", "case": f"c{number}", "who": "U1"})
    return trail


def lines(trail: AuditTrail) -> list[bytes]:
    return trail.path.read_bytes().splitlines(keepends=True)


def places(trail: AuditTrail) -> list[int]:
    return [problem.line for problem in trail.verify()]


def test_a_trail_that_nobody_changed_is_whole(trail: AuditTrail) -> None:
    assert trail.verify() == []
    assert trail.head() == Head(6, json.loads(lines(trail)[-1])["mac"])


def test_an_empty_trail_is_whole(tmp_path: Path, store: SqliteStore) -> None:
    assert AuditTrail(tmp_path / "other.jsonl", KEY, FixedClock(), store).verify() == []


def test_an_edited_entry_is_found_at_its_line(trail: AuditTrail) -> None:
    trail.path.write_bytes(trail.path.read_bytes().replace(b'"case": "c3"', b'"case": "c9"'))
    assert trail.verify() == [Problem(3, "edited, or written with another key")]


@pytest.mark.parametrize("field", ["n", "at", "event", "prev", "mac"])
def test_a_change_of_any_part_of_an_entry_is_found(trail: AuditTrail, field: str) -> None:
    kept = lines(trail)
    entry = json.loads(kept[2])
    entry[field] = {"n": 9, "at": "later", "event": {}, "prev": "0", "mac": "0"}[field]
    trail.path.write_bytes(b"".join([*kept[:2], json.dumps(entry).encode() + b"\n", *kept[3:]]))
    assert 3 in places(trail)


def test_an_entry_cut_out_of_the_middle_is_found(trail: AuditTrail) -> None:
    kept = lines(trail)
    trail.path.write_bytes(b"".join(kept[:2] + kept[3:]))
    assert trail.verify() == [Problem(3, "entry 4 follows entry 2: entries are missing")]


def test_the_first_entry_cut_off_is_found(trail: AuditTrail) -> None:
    trail.path.write_bytes(b"".join(lines(trail)[1:]))
    assert trail.verify() == [Problem(1, "entry 2 follows entry 0: entries are missing")]


def test_two_entries_that_changed_places_are_found(trail: AuditTrail) -> None:
    kept = lines(trail)
    trail.path.write_bytes(b"".join([kept[0], kept[2], kept[1], *kept[3:]]))
    assert 2 in places(trail)


@pytest.mark.parametrize("left", [0, 1, 5])
def test_a_truncated_trail_is_found_by_the_head_that_is_kept_apart(trail: AuditTrail, left: int) -> None:
    trail.path.write_bytes(b"".join(lines(trail)[:left]))
    assert trail.verify() == [Problem(0, f"truncated: it ends at entry {left}, but the head kept in the store is entry 6")]


def test_a_trail_that_was_removed_is_found(trail: AuditTrail) -> None:
    trail.path.unlink()
    assert "truncated" in trail.verify()[0].what


def test_a_trail_written_anew_without_the_key_is_found(trail: AuditTrail, tmp_path: Path) -> None:
    forged = AuditTrail(tmp_path / "forged.jsonl", b"x" * 32, FixedClock(), None)
    for number in range(1, 7):
        forged.append({"what": "approved", "case": f"c{number}", "who": "U9"})
    trail.path.write_bytes(forged.path.read_bytes())
    assert [problem.what for problem in trail.verify()].count("edited, or written with another key") == 6
    assert "rewritten" in trail.verify()[-1].what


def test_a_trail_written_anew_with_the_key_is_found_by_the_head(trail: AuditTrail, tmp_path: Path) -> None:
    forged = AuditTrail(tmp_path / "forged.jsonl", KEY, FixedClock(), None)
    for number in range(1, 7):
        forged.append({"what": "approved", "case": f"c{number}", "who": "U9"})
    trail.path.write_bytes(forged.path.read_bytes())
    assert trail.verify() == [Problem(0, "rewritten: entry 6 is not the one of the head kept in the store")]


def test_a_posted_head_finds_a_trail_and_a_store_that_were_both_put_back(trail: AuditTrail, store: SqliteStore) -> None:
    posted = trail.head()
    kept = lines(trail)[:4]
    trail.path.write_bytes(b"".join(kept))
    store.set_flag("audit_head", f"4:{json.loads(kept[-1])['mac']}")
    assert trail.verify() == []
    assert trail.verify(posted) == [Problem(0, "truncated: it ends at entry 4, but the head that was posted is entry 6")]


def test_a_store_without_a_head_is_told(trail: AuditTrail, store: SqliteStore) -> None:
    store.set_flag("audit_head", None)
    assert [problem.line for problem in trail.verify()] == [0]


def test_a_line_that_is_no_entry_is_found(trail: AuditTrail) -> None:
    with trail.path.open("ab") as file:
        file.write(b"hello\n")
    assert trail.verify() == [Problem(7, "not an entry")]


def test_a_line_torn_by_a_power_cut_is_told_and_the_next_entry_follows_the_last_whole_one(trail: AuditTrail) -> None:
    with trail.path.open("ab") as file:
        file.write(b'{"n": 7, "at": ')
    assert trail.verify() == [Problem(7, "cut short: no end of line")]
    trail.append({"what": "closed"})
    assert trail.verify() == []


def test_an_entry_written_just_before_a_kill_is_no_problem(trail: AuditTrail, store: SqliteStore) -> None:
    store.set_flag("audit_head", f"5:{json.loads(lines(trail)[4])['mac']}")  # killed between the file and the store
    assert trail.verify() == []
    trail.append({"what": "closed"})
    assert trail.verify() == []


def test_the_next_process_goes_on_where_the_last_ended(trail: AuditTrail, store: SqliteStore) -> None:
    AuditTrail(trail.path, KEY, FixedClock(), store).append({"what": "closed"})
    trail.append({"what": "again"})
    assert [entry["n"] for entry in trail.entries()] == list(range(1, 9))
    assert trail.verify() == []


def test_many_writers_at_once_make_one_chain(trail: AuditTrail) -> None:
    def write() -> None:
        for _ in range(10):
            trail.append({"what": "step"})

    threads = [threading.Thread(target=write) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert trail.verify() == []
    assert sum(1 for _ in trail.entries()) == 46


def test_secrets_do_not_get_in(trail: AuditTrail) -> None:
    trail.append({"what": "sent", "patch": [{"value": "HF_TOKEN=hf_abcdefghijklmnopqrstuvwxyz0123456789"}], "note": "Authorization: Bearer eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.sig12345678"})
    text = trail.path.read_text()
    assert "hf_abcdefghij" not in text
    assert "eyJhbGciOiJIUzI1NiJ9" not in text
    assert "[redacted]" in text


def test_a_value_beside_a_telling_name_does_not_get_in(trail: AuditTrail) -> None:
    trail.append({"what": "planned", "steps": [{"patch": [{"op": "add", "path": "/spec/env/0", "value": {"name": "HF_API_KEY", "value": "correct-horse-battery"}}]}]})
    assert "correct-horse" not in trail.path.read_text()
    assert trail.verify() == []


def test_a_digest_is_not_taken_for_a_secret(trail: AuditTrail) -> None:
    digest = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"
    trail.append({"what": "approved", "digest": digest, "button": "hVqC2x8eQ0KJY0m1uWn3vA"})
    assert list(trail.entries())[-1]["event"]["digest"] == digest


def test_the_trail_and_its_key_are_for_the_owner_only(trail: AuditTrail, tmp_path: Path) -> None:
    load_key(tmp_path / "audit.key")
    for path in (trail.path, tmp_path / "audit.key"):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_the_key_is_made_once_and_then_read(tmp_path: Path) -> None:
    key = load_key(tmp_path / "new" / "audit.key")
    assert len(key) == 64
    assert load_key(tmp_path / "new" / "audit.key") == key
    assert load_key(tmp_path / "new" / "audit.key", "g" * 32) == b"g" * 32


def test_a_key_that_is_missing_or_short_is_one_clear_line(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=r"audit\.key: the key of the audit trail cannot be read"):
        load_key(tmp_path / "audit.key", make=False)
    (tmp_path / "audit.key").write_text("short")
    with pytest.raises(BadInput, match="shorter than 32"):
        load_key(tmp_path / "audit.key")


# ---------------------------------------------------------------- the command


@pytest.fixture
def run(trail: AuditTrail, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., int]:
    (tmp_path / "audit.key").write_bytes(KEY)
    for name in [name for name in os.environ if name.startswith("OOMBOT_")]:
        monkeypatch.delenv(name)
    return lambda *words: command.main(["--data-dir", str(tmp_path), *words])


def test_verify_says_whole_and_the_head(run: Callable[..., int], trail: AuditTrail, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("verify") == 0
    assert f"6 entries, whole; head {trail.head()}" in capsys.readouterr().out


def test_verify_names_the_line_and_says_no(run: Callable[..., int], trail: AuditTrail, capsys: pytest.CaptureFixture[str]) -> None:
    trail.path.write_bytes(trail.path.read_bytes().replace(b'"case": "c3"', b'"case": "c9"'))
    assert run("verify") == 1
    assert capsys.readouterr().err == f"{trail.path}:3: edited, or written with another key\n"


def test_verify_checks_a_posted_head(run: Callable[..., int], trail: AuditTrail, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("verify", "--head", str(trail.head())[:16]) == 0
    assert run("verify", "--head", "9:" + "a" * 64) == 1
    assert "the head that was posted is entry 9" in capsys.readouterr().err
    with pytest.raises(BadInput, match="should be NUMBER:HASH"):
        run("verify", "--head", "nonsense")


def test_show_prints_the_newest_of_a_case_in_words(run: Callable[..., int], capsys: pytest.CaptureFixture[str]) -> None:
    assert run("show", "--case", "c4") == 0
    assert capsys.readouterr().out == "4 2026-11-30T10:00:00+00:00 approved case=c4 who=U1\n"
    run("show", "--last", "2")
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == ["5", "6"]


def test_export_prints_every_entry_as_json(run: Callable[..., int], trail: AuditTrail, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("export") == 0
    assert [json.loads(line) for line in capsys.readouterr().out.splitlines()] == list(trail.entries())


def test_a_folder_that_is_not_there_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="no such folder"):
        command.main(["--data-dir", str(tmp_path / "none"), "verify"])
