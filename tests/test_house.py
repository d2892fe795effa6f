"""The rules of the house that a machine can check: sizes, names, borders, broad excepts, what may not stand in a repository."""

import ast
import re
import subprocess
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
CODE = sorted(p for part in ("bot", "handlers") for p in (ROOT / part).rglob("*.py"))
ALL = CODE + sorted((ROOT / "tests").rglob("*.py")) + sorted((ROOT / "bench").rglob("*.py"))
LONGEST = 600
BROAD_EXCEPTS = 3


def tracked() -> list[Path]:
    listed = subprocess.run(["git", "-C", str(ROOT), "ls-files", "-z"], capture_output=True, check=False)
    if listed.returncode:
        pytest.skip("not a git checkout")
    return [ROOT / name for name in listed.stdout.decode().split("\0") if name]


def test_no_file_is_too_long_to_read() -> None:
    lengths = {str(p.relative_to(ROOT)): len(p.read_text().splitlines()) for p in ALL}
    assert {name: n for name, n in lengths.items() if n > LONGEST} == {}


def broad_excepts(source: str) -> list[int]:
    """Lines of handlers that catch everything: bare, Exception or BaseException, and `suppress` of these."""
    names = {"Exception", "BaseException"}
    found = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ExceptHandler):
            caught = [node.type] if not isinstance(node.type, ast.Tuple) else list(node.type.elts)
            if any(c is None or (isinstance(c, ast.Name) and c.id in names) for c in caught):
                found.append(node.lineno)
        suppress = isinstance(node, ast.Call) and getattr(node.func, "id", getattr(node.func, "attr", "")) == "suppress"
        if suppress and any(isinstance(a, ast.Name) and a.id in names for a in node.args):
            found.append(node.lineno)
    return found


def test_at_most_three_places_catch_everything() -> None:
    places = [f"{p.relative_to(ROOT)}:{line}" for p in CODE for line in broad_excepts(p.read_text())]
    assert len(places) <= BROAD_EXCEPTS, places


def test_the_counter_of_broad_excepts_sees_each_form() -> None:
    forms = "try: pass\nexcept: pass\n", "try: pass\nexcept (OSError, Exception): pass\n", "import contextlib\nwith contextlib.suppress(Exception): pass\n"
    assert [len(broad_excepts(form)) for form in forms] == [1, 1, 1]
    assert broad_excepts("try: pass\nexcept OSError: pass\n") == []


def test_no_module_has_a_name_that_says_nothing() -> None:
    nothing = {"utils", "util", "helpers", "helper", "common", "base", "manager", "misc"}
    assert [str(p) for p in ALL if p.stem in nothing or p.parent.name in nothing] == []


def test_every_module_opens_with_what_it_is_for() -> None:
    silent = [str(p.relative_to(ROOT)) for p in CODE if p.read_text().strip() and ast.get_docstring(ast.parse(p.read_text())) is None]
    assert silent == []


def test_only_settings_reads_the_environment() -> None:
    readers = [str(p.relative_to(ROOT)) for p in CODE if re.search(r"\bos\.(environ|getenv)\b|\bgetenv\(", p.read_text())]
    assert set(readers) <= {"bot/settings.py"}


def test_no_test_replaces_the_product_with_a_mock() -> None:
    mocked = [
        str(p.relative_to(ROOT))
        for p in ALL
        if re.search(r"unittest.mock|MagicMock|mocker\b|monkeypatch\.setattr\(\s*[\"']?(bot|handlers)", p.read_text()) and p.name != "test_house.py"
    ]
    assert mocked == []


def test_the_playbooks_hold_data_only() -> None:
    assert [str(p) for p in (ROOT / "playbooks").rglob("*") if p.is_file() and p.suffix not in {".yaml", ".j2", ".md"} and p.parent.name != "__pycache__"] == []


def test_top_level_is_what_was_asked_for() -> None:
    folders = {p.relative_to(ROOT).parts[0] for p in tracked() if len(p.relative_to(ROOT).parts) > 1}
    assert folders <= {"bot", "handlers", "playbooks", "tests", "deploy", "bench", "docs", ".ci"}


def test_every_module_of_the_product_stands_in_a_layer() -> None:
    contract = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"][0]
    named = {name.strip() for layer in contract["layers"] for name in re.split(r"[|:]", layer)}
    modules = {f"bot.{p.stem}" for p in (ROOT / "bot").iterdir() if (p.suffix == ".py" and p.stem != "__init__") or (p / "__init__.py").is_file()}
    assert modules | {"handlers"} == named
