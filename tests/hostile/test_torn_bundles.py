"""Real bundles with something torn out, swapped or put in: always an answer, never an exception, whatever a file holds."""

import json
import random
from collections.abc import Callable, Iterator
from functools import partial
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bot.incident import examine, to_json
from bot.model import Bundle, BundleFile
from bot.playbooks import load
from bot.terminal.text import note

CASES = sorted(path.parent for path in (Path(__file__).parent.parent / "cases").glob("*/expected.yaml"))
FILES: dict[str, list[bytes]] = {}
for _case in CASES:
    for _file in _case.iterdir():
        if _file.name != "expected.yaml":
            FILES.setdefault(_file.name, []).append(_file.read_bytes())
KNOWLEDGE = load()
ODD: list[Any] = [None, True, -1, 10**40, 1e308, float("nan"), "", "\x00\ud800", "9" * 2000, "x" * 5000, [], {}, [[]], [None], {"": None}, {"name": {}}, [{}], "2026-13-45T99:99:99Z", "-1Gi", "1e99Ei"]
QUICK = settings(max_examples=250, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])


def answered(files: dict[str, bytes]) -> None:
    found = examine(Bundle("torn", {name: BundleFile(name, partial(BytesIO, data)) for name, data in files.items()}), KNOWLEDGE)
    json.dumps(to_json("torn", found), allow_nan=False)
    note("torn", found, "en")
    note("torn", found, "zh")


def places(node: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    yield path
    for key, inner in node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ():
        yield from places(inner, (*path, key))


def put(document: Any, path: tuple[Any, ...], value: Any) -> Any:
    """The document with another value at one place."""
    if not path:
        return value
    copy = dict(document) if isinstance(document, dict) else list(document)
    copy[path[0]] = put(document[path[0]], path[1:], value)
    return copy


@QUICK
@given(st.data())
def test_any_value_in_the_place_of_any_value_of_a_json_file(data: st.DataObject) -> None:
    name = data.draw(st.sampled_from([name for name in sorted(FILES) if name.endswith(".json")]))
    document = json.loads(data.draw(st.sampled_from(FILES[name])))
    for _ in range(data.draw(st.integers(1, 4))):
        document = put(document, data.draw(st.sampled_from(list(places(document)))), data.draw(st.sampled_from(ODD)))
    answered({name: json.dumps(document).encode("utf-8", "surrogatepass"), "container.log": data.draw(st.sampled_from(FILES["container.log"]))})


def cut(data: bytes, dice: random.Random) -> bytes:
    return data[: dice.randrange(len(data) + 1)]


def without_a_line(data: bytes, dice: random.Random) -> bytes:
    lines = data.split(b"\n")
    del lines[dice.randrange(len(lines))]
    return b"\n".join(lines)


def shuffled(data: bytes, dice: random.Random) -> bytes:
    lines = data.split(b"\n")
    dice.shuffle(lines)
    return b"\n".join(lines)


def other_numbers(data: bytes, dice: random.Random) -> bytes:
    odd = [b"0", b"-1", b"9" * 40, b"1e999", b"nan", b"0x10", b"", b".", b"1.2.3", b"9223372036854775808"]
    pieces, at = [], 0
    while at < len(data):
        step = dice.randrange(1, 40)
        piece = data[at : at + step]
        pieces.append(piece + dice.choice(odd) if piece[-1:].isdigit() and dice.random() < 0.5 else piece)
        at += step
    return b"".join(pieces)


def flipped(data: bytes, dice: random.Random) -> bytes:
    changed = bytearray(data)
    for _ in range(max(1, len(data) // 50)):
        if changed:
            changed[dice.randrange(len(changed))] = dice.randrange(256)
    return bytes(changed)


def doubled(data: bytes, dice: random.Random) -> bytes:
    at = dice.randrange(len(data) + 1)
    return data[:at] + data + data[at:]


@pytest.mark.parametrize("tear", [cut, without_a_line, shuffled, other_numbers, flipped, doubled])
def test_torn_files_of_every_kind(tear: Callable[[bytes, random.Random], bytes]) -> None:
    for seed, case in enumerate(CASES):
        dice = random.Random(seed)
        answered({path.name: tear(path.read_bytes(), dice) for path in case.iterdir() if path.name != "expected.yaml"})


@QUICK
@given(st.dictionaries(st.sampled_from(sorted(FILES)), st.sampled_from([data for many in FILES.values() for data in many]), max_size=5))
def test_a_file_under_the_name_of_another(files: dict[str, bytes]) -> None:
    answered(files)


@pytest.mark.parametrize("name", sorted(FILES))
@pytest.mark.parametrize("deep", [b"[" * 200_000, b'{"a":' * 100_000, b"[" * 100_000 + b"]" * 100_000, b"(" * 200_000, b"- " * 100_000])
def test_deep_nesting_in_every_file(name: str, deep: bytes) -> None:
    answered({name: deep})
