"""The parsed playbooks that are kept between starts are used only while they are whole, ours and of these very files; nothing depends on them."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from bot.playbooks import compiled, folder, load


@pytest.fixture
def root(tmp_path: Path) -> Path:
    place = tmp_path / "playbooks"
    for name in ("log_messages", "signatures/healthy", "remedies.yaml"):
        source = folder() / name
        (place / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copytree(source, place / name) if source.is_dir() else shutil.copy(source, place / name)
    return place


def kept(root: Path) -> Path:
    return root / "__pycache__" / "knowledge.json"


def test_a_second_load_gives_the_same_from_what_was_kept(root: Path) -> None:
    first = load(root)
    assert compiled.read(root, compiled.stamp(root)) is not None
    second = load(root)
    assert (first.messages, first.signatures, first.remedies) == (second.messages, second.signatures, second.remedies)


def test_a_changed_file_a_new_one_and_a_lost_one_are_noticed(root: Path) -> None:
    load(root)
    with (root / "remedies.yaml").open("a") as file:
        file.write("\n# changed\n")
    assert compiled.read(root, compiled.stamp(root)) is None
    load(root)
    next((root / "signatures" / "healthy").glob("*.yaml")).unlink()
    assert compiled.read(root, compiled.stamp(root)) is None


@pytest.mark.parametrize(
    "damage",
    [
        lambda whole: b"",
        lambda whole: whole[: len(whole) // 2],
        lambda whole: whole.replace(b"weights", b"cuckoos", 1),
        lambda whole: b"{}",
        lambda whole: b"\xff\xfe" + whole,
        lambda whole: b"[" * 200_000,
        lambda whole: whole.replace(b"oombot %d " % compiled.FORMAT, b"oombot 1 "),
    ],
)
def test_a_damaged_or_foreign_file_is_written_anew(root: Path, damage: object) -> None:
    before = load(root)
    kept(root).write_bytes(damage(kept(root).read_bytes()))  # type: ignore[operator]
    assert compiled.read(root, compiled.stamp(root)) is None
    assert load(root).messages == before.messages
    assert compiled.read(root, compiled.stamp(root)) is not None


def test_a_file_that_anybody_may_write_is_not_believed(root: Path) -> None:
    load(root)
    kept(root).chmod(0o666)
    assert compiled.read(root, compiled.stamp(root)) is None


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root can give a file away")
def test_a_file_of_somebody_else_is_not_believed(root: Path) -> None:
    load(root)
    os.chown(kept(root), 65534, 65534)
    assert compiled.read(root, compiled.stamp(root)) is None


def test_a_forged_document_with_a_right_sum_does_not_hide_the_files(root: Path) -> None:
    load(root)
    body = json.dumps({"stamp": [], "messages": [], "signatures": [], "remedies": []}).encode()
    kept(root).write_bytes(compiled._head(body) + body)
    assert load(root).messages


def test_where_nothing_can_be_kept_everything_works(root: Path) -> None:
    (root / "__pycache__").write_text("in the way")
    assert load(root).messages
    assert load(root).messages


def test_many_starts_at_once_leave_one_whole_file_and_nothing_else(root: Path) -> None:
    code = f"from pathlib import Path; from bot.playbooks import load; load(Path({str(root)!r}))"
    starts = [subprocess.Popen([sys.executable, "-c", code]) for _ in range(4)]
    assert [start.wait() for start in starts] == [0] * 4
    assert [path.name for path in (root / "__pycache__").iterdir()] == ["knowledge.json"]
    assert compiled.read(root, compiled.stamp(root)) is not None
