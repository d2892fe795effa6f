"""Three ways to find anchors, one answer; what a file prints all the time is learned from the file itself."""

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bot.logs import search
from bot.logs.search import EACH_END, LARGE, SAMPLE, SMALL, Anchors, Search, _grams, pieces_of

TEXTS = [b"out of memory", b"memory", b"Killed", b"EngineDeadError", b"aaaa", b"200 OK"]
LINE = b'INFO:     10.1.2.3:51022 - "POST /v1/chat/completions HTTP/1.1" 200 OK of the usual kind\n'


def plainly(data: bytes, index: int) -> set[int]:
    text, at, ends = TEXTS[index], data.find(TEXTS[index]), set()
    while at >= 0:
        ends.add(at + len(text))
        at = data.find(text, at + 1)
    return ends


def found(hunt: Search, data: bytes) -> set[tuple[int, int]]:
    buffer = bytearray(data)
    here = hunt.look.find(buffer, len(data))
    hunt.learn(here, buffer, len(data))
    return set(here.hits)


def learned() -> Search:
    """A search that has read so much of one usual line that it knows it."""
    hunt, block = Search(Anchors(TEXTS, ())), LINE * (4 * SAMPLE // len(LINE))
    for _ in range(LARGE // len(block) + 2):
        found(hunt, block)
    return hunt


LEARNED = learned()
SCRAPS = st.lists(st.one_of(st.sampled_from([*TEXTS, LINE, b"mem", b"ory", b"aaa", b"\n", b"E", b"Kill"]), st.binary(max_size=9)), max_size=60).map(b"".join)


@settings(max_examples=150, deadline=None)
@given(SCRAPS, st.integers(0, 3))
def test_small_blocks_large_blocks_and_learned_files_give_the_same_hits(scraps: bytes, where: int) -> None:
    wanted = {(index, end) for index in range(len(TEXTS)) for end in plainly(scraps, index)}
    assert found(Search(Anchors(TEXTS, ())), scraps) == wanted
    padding = b"-" * (SMALL + 1)
    shifted = {(index, end + len(padding)) for index, end in wanted}
    assert found(Search(Anchors(TEXTS, ())), padding + scraps) == shifted
    rare = set(range(5))  # "200 OK" is usual in the learned file
    assert {hit for hit in found(LEARNED, padding + scraps) if hit[0] in rare} == {hit for hit in shifted if hit[0] in rare}


def test_what_is_usual_in_the_file_is_given_from_both_ends_only() -> None:
    data = LINE * 5000
    hits = [end for index, end in found(LEARNED, data) if TEXTS[index] == b"200 OK"]
    assert len(hits) == 2 * EACH_END
    assert {min(hits), max(hits)} == {min(plainly(data, 5)), max(plainly(data, 5))}


def test_the_last_hits_of_a_frequent_text_can_be_had_when_the_end_is_known() -> None:
    data = bytearray(LINE * 5000)
    assert sorted(end for _, end in LEARNED.look.last(data, len(data), 400)) == sorted(plainly(bytes(data), 5))[-400:]


def test_a_text_that_turns_frequent_late_costs_no_more_than_its_ends_and_is_found_again_when_rare() -> None:
    hunt = learned()
    many = b"Killed\n" * (3 * SAMPLE // 7)
    for _ in range(3):
        found(hunt, many)
    assert len([hit for hit in found(hunt, many) if hit[0] == 2]) == 2 * EACH_END
    calm = LINE * (2 * SAMPLE // len(LINE))
    found(hunt, calm)
    dice = random.Random(1)
    at = dice.randrange(len(calm))
    assert len([hit for hit in found(hunt, calm[:at] + b"Killed" * 20 + calm[at:]) if hit[0] == 2]) == 20


def test_an_only_first_hit_is_wanted_of_counted_texts() -> None:
    assert found(Search(Anchors(TEXTS, {2})), b"Killed Killed") == {(2, 6)}


def test_few_pieces_stand_for_all_texts_and_none_is_usual() -> None:
    pieces = pieces_of([b"in load_model", b"in load_weights", b"/fsdp", b"200 OK"], _grams(LINE))
    assert all(any(piece in text for piece in pieces) for text in (b"in load_model", b"in load_weights", b"/fsdp", b"200 OK"))
    assert not any(piece in LINE for piece in pieces if piece != b"200 OK")
    assert len(pieces) == 3


@pytest.mark.parametrize("texts", [[], [b"abcd"]])
def test_no_text_and_one_text_can_be_searched(texts: list[bytes]) -> None:
    hits = Search(Anchors(texts, ())).look.find(b"abcd" * SMALL, 4 * SMALL).hits
    assert len(hits) == (SMALL if texts else 0)
    assert search.PIECE == 4


def test_pieces_that_turn_out_to_be_usual_are_given_up() -> None:
    hunt = learned()
    pieces = hunt.look.pieces
    strays = (LINE * 20 + b"memo " * 20) * 100  # no anchor, but what an anchor is looked for by
    found(hunt, strays)
    assert hunt.look.pieces is not pieces
    assert hunt.look.find(strays, len(strays)).strays == []
    assert {index for index, _ in found(hunt, strays + b" out of memory ")} == {0, 1, 5}


def test_a_few_strays_in_each_block_are_given_up_soon_since_each_holds_two_threads_up() -> None:
    hunt = learned()
    block = LINE * (4 * SAMPLE // len(LINE)) + b"memo " * 10
    strays = 0
    while strays < 1000 and (ends := hunt.look.find(bytearray(block), len(block)).strays):
        strays += len(ends)
        found(hunt, block)
    assert strays == pytest.approx(search.STRAY, abs=20)
