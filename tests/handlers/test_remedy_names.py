"""Names of remedies as a sentence uses them."""

import pytest

from bot.model import Text, WillNotHelp
from handlers.remedy_names import gerund, useless

SAME = Text("No memory ran out.", "没有内存耗尽。")


@pytest.mark.parametrize(
    ("verb", "doing"), [("lower", "lowering"), ("use", "using"), ("stop", "stopping"), ("set", "setting"), ("keep", "keeping"), ("restart", "restarting"), ("change", "changing")]
)
def test_a_verb_becomes_what_somebody_does(verb: str, doing: str) -> None:
    assert gerund(verb) == doing


def test_what_shares_a_reason_stands_in_one_row() -> None:
    items = [WillNotHelp("memory_limit", "raise", SAME), WillNotHelp("restart", "", Text("It fails again.")), WillNotHelp("bigger_gpu", "", SAME)]
    assert useless(items, "en") == [("raising the memory limit, using a bigger GPU", "No memory ran out."), ("restarting", "It fails again.")]


def test_both_directions_of_a_knob_are_named_once() -> None:
    items = [WillNotHelp("gpu_memory_utilization", direction, SAME) for direction in ("lower", "raise")]
    assert useless(items, "en") == [("lowering or raising GPU memory utilisation", "No memory ran out.")]
    assert useless(items, "zh") == [("降低 GPU 显存利用率、提高 GPU 显存利用率", "没有内存耗尽。")]

