"""`oombot freeze`: the kill switch from a terminal."""

import json
from pathlib import Path

import pytest

from bot.__main__ import main
from bot.model import State
from tests.walk.world import JO, OPS, WEI, Stage, planned


def said(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert main(["freeze", *words]) == 0
    return capsys.readouterr().out


def test_it_stops_a_bot_that_runs_and_lets_it_go_on(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    stage = Stage(tmp_path)
    case = planned(stage)
    assert "frozen by terminal:" in said(capsys, "--data-dir", str(tmp_path))
    assert stage.click(WEI, case, "approve").state is State.AWAITING_APPROVAL
    assert stage.chat.told(WEI) == ["frozen"]
    assert said(capsys, "--data-dir", str(tmp_path), "--off") == "not frozen: what the policy allows may be changed\n"
    assert stage.click(WEI, case, "approve").state is State.VERIFIED


def test_it_survives_a_restart_of_the_bot(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Stage(tmp_path)
    said(capsys, "--data-dir", str(tmp_path))
    stage = Stage(tmp_path)
    assert stage.click(JO, stage.ask(), "apply").state is State.DIAGNOSED
    assert stage.chat.told(JO) == ["frozen"]


def test_what_was_frozen_in_slack_is_seen_in_the_terminal_and_the_other_way_round(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    stage = Stage(tmp_path)
    stage.cases.freeze(JO, True, OPS)
    assert said(capsys, "--data-dir", str(tmp_path), "--status").startswith("frozen by UJO since 2026-11-30T10:00:00")
    said(capsys, "--data-dir", str(tmp_path), "--off")
    assert stage.cases.status(JO, OPS).frozen is None


def test_status_changes_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    stage = Stage(tmp_path)
    assert said(capsys, "--data-dir", str(tmp_path), "--status") == "not frozen: what the policy allows may be changed\n"
    assert list(stage.audit.entries()) == []


def test_the_trail_names_the_account(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Stage(tmp_path)
    (tmp_path / "audit.key").write_text("k" * 32)
    said(capsys, "--data-dir", str(tmp_path))
    said(capsys, "--data-dir", str(tmp_path), "--off")
    events = [json.loads(line)["event"] for line in (tmp_path / "audit.jsonl").read_text().splitlines()]
    assert [event["what"] for event in events] == ["frozen", "unfrozen"]
    assert all(event["who"].startswith("terminal:") for event in events)


def test_a_folder_that_is_not_there_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["freeze", "--data-dir", str(tmp_path / "none")]) == 2
    assert capsys.readouterr().err == f"oombot: {tmp_path}/none: no such folder; --data-dir or the setting data_dir names it\n"


def test_it_works_without_a_readable_key_of_the_trail(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    (tmp_path / "audit.key").write_text("short")
    assert main(["freeze", "--data-dir", str(tmp_path)]) == 2
    assert stage.cases.status(JO, OPS).frozen is not None


@pytest.mark.parametrize("words", [(), ("--status",), ("--off",)], ids=str)
def test_a_folder_that_no_bot_uses_is_refused_and_left_as_it_is(tmp_path: Path, capsys: pytest.CaptureFixture[str], words: tuple[str, ...]) -> None:
    """Whoever freezes the wrong folder in a hurry must not believe that the bot has stopped."""
    assert main(["freeze", "--data-dir", str(tmp_path), *words]) == 2
    assert "no bot has kept anything there" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []
