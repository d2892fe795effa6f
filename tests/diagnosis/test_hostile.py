"""Any bytes as any file give an answer; a hostile log stays bounded in time."""

import time
from functools import partial
from io import BytesIO

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bot.evidence.bundle import NAMES
from bot.incident import examine, to_json
from bot.model import Bundle, BundleFile
from bot.playbooks import load
from bot.terminal.text import note

KNOWLEDGE = load()
ANCHORS = sorted({anchor for message in KNOWLEDGE.messages for anchor in message.anchors})
SCRAPS = st.one_of(
    st.binary(max_size=80),
    st.sampled_from(ANCHORS),
    st.sampled_from(
        [
            b"\n",
            b"\r",
            b"\x1b[1;36m",
            b"(EngineCore_DP0 pid=12) ",
            b"INFO 11-30 09:00:00 [a.py:1] ",
            b"9" * 60,
            b"-",
            b"GiB",
            b"(",
            b"}",
            b'{"log":"',
            b"nan",
            b"1e999",
        ]
    ),
)
BYTES = st.lists(SCRAPS, max_size=40).map(b"".join)


def answer(files: dict[str, bytes]) -> None:
    bundle = Bundle("hostile", {name: BundleFile(name, partial(BytesIO, data)) for name, data in files.items()})
    found = examine(bundle, KNOWLEDGE)
    to_json("hostile", found)
    for language in ("en", "zh"):
        printed = note("hostile", found, language)
        assert all(letter.isprintable() or letter == "\n" for letter in printed)


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.dictionaries(st.sampled_from(NAMES), BYTES, max_size=4))
def test_any_bytes_in_any_file_give_an_answer(files: dict[str, bytes]) -> None:
    answer(files)


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.data())
def test_real_lines_with_their_numbers_torn_give_an_answer(data: st.DataObject) -> None:
    message = data.draw(st.sampled_from(KNOWLEDGE.messages))
    anchor = data.draw(st.sampled_from(message.anchors))
    around = data.draw(st.tuples(BYTES, BYTES))
    answer({"container.log": around[0] + anchor + around[1]})


LINE = 20 * 2**20


@pytest.mark.parametrize(
    ("name", "log"),
    [
        ("one endless line", b"x" * LINE),
        ("an endless line of one anchor", b"CUDA out of memory. Tried to allocate " * (LINE // 38)),
        ("a million fatal lines", b"RuntimeError: CUDA error: out of memory\n" * 500_000),
        ("digits", b"Available KV cache memory: " + b"9" * LINE + b" GiB\n"),
        ("nothing but line feeds", b"\n" * LINE),
        ("nothing but carriage returns", b"Capturing CUDA graphs (x" + b"\r" * LINE),
        ("brackets", b"(EngineCore_DP0 pid=" * (LINE // 20)),
        ("json of docker", b'{"log":"' + b"[" * LINE),
        ("prefix upon prefix", (b"[rank0]: " * 2000 + b"RuntimeError: CUDA error: out of memory\n") * 500),
        ("starts without end", b"INFO 11-30 09:00:00 [api_server.py:1] vLLM API server version 0.11.0\n" * 200_000),
    ],
)
def test_a_hostile_log_stays_bounded(name: str, log: bytes) -> None:
    begin = time.process_time()
    answer({"container.log": log})
    assert time.process_time() - begin < 12, name
