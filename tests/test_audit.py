"""An audit trail that somebody changed is found, with the place; one that nobody changed is whole."""

import csv
import io
import json
import os
import stat
import subprocess
import sys
import threading
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
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
    assert trail.verify() == [
        Problem(0, "none of its 6 entries fits the key: the key was replaced, or somebody else wrote them"),
        Problem(0, "rewritten: entry 6 is not the one of the head kept in the store"),
    ]


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


@pytest.mark.parametrize("left", [0, 1, 4])
def test_what_was_cut_off_stays_missed_when_more_is_added_behind_it(trail: AuditTrail, store: SqliteStore, left: int) -> None:
    trail.path.write_bytes(b"".join(lines(trail)[:left]))
    for writer in (trail, AuditTrail(trail.path, KEY, FixedClock(), store), trail):  # the bot that wrote it, one that starts anew
        writer.append({"what": "closed"})
    assert trail.verify() == [Problem(left + 1, f"entry 7 follows entry {left}: entries are missing")]
    assert [entry["n"] for entry in trail.entries()] == [*range(1, left + 1), 7, 8, 9]


def test_a_trail_that_was_put_away_is_missed_by_the_one_that_is_begun_anew(trail: AuditTrail, store: SqliteStore) -> None:
    trail.path.unlink()
    AuditTrail(trail.path, KEY, FixedClock(), store).append({"what": "closed"})
    assert trail.verify() == [Problem(1, "entry 7 follows entry 0: entries are missing")]


@pytest.mark.parametrize("count", [5, 6, 9])
def test_a_trail_written_anew_with_the_key_is_not_taken_over_by_what_is_added(trail: AuditTrail, store: SqliteStore, tmp_path: Path, count: int) -> None:
    forged = AuditTrail(tmp_path / "forged.jsonl", KEY, FixedClock(), None)
    for number in range(count):
        forged.append({"what": "approved", "case": f"c{number}", "who": "U9"})
    trail.path.write_bytes(forged.path.read_bytes())
    AuditTrail(trail.path, KEY, FixedClock(), store).append({"what": "closed"})
    assert places(trail) == [count + 1]
    trail.append({"what": "again"})
    assert places(trail) == [count + 1]


def test_an_entry_added_by_somebody_else_is_told_at_its_line_and_what_the_bot_adds_is_not(trail: AuditTrail) -> None:
    last = json.loads(lines(trail)[-1])
    forged = {"n": 7, "at": "2026-11-30T10:00:00+00:00", "event": {"what": "approved", "who": "U9"}, "prev": last["mac"], "mac": "0" * 64}
    with trail.path.open("ab") as file:
        file.write(json.dumps(forged, sort_keys=True).encode() + b"\n")
    trail.append({"what": "closed"})
    assert trail.verify() == [Problem(7, "edited, or written with another key")]


def test_a_key_that_was_replaced_half_way_is_told_once_with_its_lines(trail: AuditTrail, store: SqliteStore) -> None:
    other = AuditTrail(trail.path, b"x" * 32, FixedClock(), store)
    for _ in range(3):
        other.append({"what": "closed"})
    assert trail.verify() == [Problem(7, "edited, or written with another key (all to line 9)")]
    assert other.verify() == [Problem(1, "edited, or written with another key (all to line 6)")]


@pytest.mark.parametrize(
    ("find", "put"),
    [
        (b'"event": {', b'"event": {"what": "rejected"}, "event": {'),  # who reads the file sees the first of the two
        (b'"n": 3', b'"n":  3'),
        (b"\n", b" \n"),
    ],
)
def test_the_same_entry_in_other_bytes_is_found(trail: AuditTrail, find: bytes, put: bytes) -> None:
    kept = lines(trail)
    kept[2] = kept[2].replace(find, put)
    trail.path.write_bytes(b"".join(kept))
    assert trail.verify() == [Problem(3, "edited: the same entry in other bytes")]


@pytest.mark.parametrize("mac", ["\u00e9", "\ud800", "", [1], None])
def test_a_mac_that_is_none_is_a_problem_and_no_crash(trail: AuditTrail, mac: object) -> None:
    kept = lines(trail)
    kept[2] = json.dumps({**json.loads(kept[2]), "mac": mac}, sort_keys=True).encode() + b"\n"
    trail.path.write_bytes(b"".join(kept))
    assert Problem(3, "edited, or written with another key") in trail.verify()


def test_a_line_that_nests_without_end_is_no_entry(trail: AuditTrail) -> None:
    with trail.path.open("ab") as file:
        file.write(b"[" * 200_000 + b"\n")
    assert trail.verify() == [Problem(7, "not an entry")]


ADDS = """
import sys
from pathlib import Path
from bot.audit import AuditTrail
from bot.clients.sqlite import Database
from bot.clock import SystemClock
from bot.store.sqlite import SqliteStore
folder = Path(sys.argv[1])
trail = AuditTrail(folder / "audit.jsonl", b"k" * 32, SystemClock(), SqliteStore(Database(folder / "oombot.db")))
for _ in range(60):
    trail.append({"what": "step", "by": sys.argv[2]})
"""


def test_several_processes_add_at_once_and_who_looks_meanwhile_finds_it_whole(trail: AuditTrail, tmp_path: Path) -> None:
    bots = [subprocess.Popen([sys.executable, "-c", ADDS, str(tmp_path), name], cwd=Path(__file__).parents[1]) for name in ("one", "two", "three")]
    seen = []
    while any(bot.poll() is None for bot in bots):
        seen += trail.verify()
    assert ([bot.returncode for bot in bots], seen, trail.verify()) == ([0, 0, 0], [], [])
    assert [entry["n"] for entry in trail.entries()] == list(range(1, 187))


def test_a_full_disk_is_one_line_and_leaves_no_half_entry(tmp_path: Path) -> None:
    """A limit on the size of files stands for the disk: the write is cut short, as on a full one."""
    script = ADDS.replace("for _", "import resource, signal\nsignal.signal(signal.SIGXFSZ, signal.SIG_IGN)\nresource.setrlimit(resource.RLIMIT_FSIZE, (2000, 2000))\nfor _")
    (tmp_path / "small").mkdir()
    script = script.replace('SqliteStore(Database(folder / "oombot.db"))', "None")
    done = subprocess.run([sys.executable, "-c", script, str(tmp_path / "small"), "one"], cwd=Path(__file__).parents[1], capture_output=True, text=True, check=False)
    assert done.stderr.splitlines()[-1] == f"bot.errors.StoreError: {tmp_path}/small/audit.jsonl: File too large"
    trail = AuditTrail(tmp_path / "small" / "audit.jsonl", KEY, FixedClock(), None)
    assert trail.path.stat().st_size < 2000
    assert trail.verify() == []
    trail.append({"what": "closed"})
    assert trail.verify() == []
    assert sum(1 for _ in trail.entries()) > 3


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


def test_show_does_nothing_to_a_terminal(run: Callable[..., int], trail: AuditTrail, capsys: pytest.CaptureFixture[str]) -> None:
    trail.append({"what": "refused", "reason": "\x1b[2J\nwho=U9 \u202egnp.exe"})
    run("show", "--last", "1")
    assert capsys.readouterr().out == "7 2026-11-30T10:00:00+00:00 refused reason=\\x1b[2J\\nwho=U9 \\u202egnp.exe\n"


def test_export_as_a_table_has_a_row_an_entry_and_no_formula(run: Callable[..., int], trail: AuditTrail, capsys: pytest.CaptureFixture[str]) -> None:
    trail.append({"what": "asked", "case": "c7", "target": '=HYPERLINK("https://x.example")', "who": "slack:U1", "steps": ["a,b"]})
    assert run("export", "--format", "csv", "--case", "c7") == 0
    names, row = csv.reader(io.StringIO(capsys.readouterr().out))
    assert names == ["n", "at", "what", "case", "target", "cluster", "who", "more", "prev", "mac"]
    last = list(trail.entries())[-1]
    assert row == ["7", last["at"], "asked", "c7", '\'=HYPERLINK("https://x.example")', "", "slack:U1", '{"steps": ["a,b"]}', last["prev"], last["mac"]]


def test_a_folder_that_is_not_there_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="no such folder"):
        command.main(["--data-dir", str(tmp_path / "none"), "verify"])


# ---------------------------------------------------------------- once

LONG_AGO = datetime(2020, 1, 1, tzinfo=UTC)


def test_the_same_event_is_added_once_and_gives_the_head_of_its_entry(trail: AuditTrail) -> None:
    event = {"what": "outcome", "case": "c-1", "says": "token=abcdefghijklmnopqrstuvwxyz"}
    first = trail.append_once(event, LONG_AGO)
    trail.append({"what": "asked"})
    count = len(lines(trail))
    assert (trail.append_once(event, LONG_AGO), len(lines(trail))) == (first, count)
    assert trail.append_once({**event, "case": "c-2"}, LONG_AGO) != first
    assert trail.verify() == []


def test_a_field_that_may_differ_makes_no_other_entry_and_any_other_does(trail: AuditTrail) -> None:
    first = trail.append_once({"what": "planned", "until": "10:00", "digest": "a"}, LONG_AGO, ["until"])
    assert trail.append_once({"what": "planned", "until": "11:00", "digest": "a"}, LONG_AGO, ["until"]) == first
    assert trail.append_once({"what": "planned", "until": "11:00", "digest": "b"}, LONG_AGO, ["until"]) != first


def test_an_entry_from_before_is_not_taken_for_the_one_that_is_added(trail: AuditTrail) -> None:
    first = trail.append({"what": "wanted"})
    later = datetime.fromisoformat(list(trail.entries())[-1]["at"]) + timedelta(seconds=1)
    assert trail.append_once({"what": "wanted"}, later) != first


def test_an_entry_that_somebody_else_wrote_keeps_none_out(trail: AuditTrail) -> None:
    trail.append({"what": "asked"})
    forged = {**list(trail.entries())[-1], "event": {"what": "approved"}}
    with trail.path.open("ab") as file:
        file.write(json.dumps(forged, sort_keys=True).encode() + b"\n")
    count = len(lines(trail))
    trail.append_once({"what": "approved"}, LONG_AGO)
    assert len(lines(trail)) == count + 1


def test_an_entry_is_found_behind_many_others(trail: AuditTrail) -> None:
    first = trail.append_once({"what": "planned", "diff": "x" * 15_000}, LONG_AGO)
    for number in range(30):
        trail.append({"what": "planned", "diff": f"{number}" + "y" * 9_000})
    assert trail.append_once({"what": "planned", "diff": "x" * 15_000}, LONG_AGO) == first
