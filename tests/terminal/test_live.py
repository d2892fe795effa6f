"""Progress on a terminal, and words of others on it."""

import io

import pytest

from bot.errors import BadInput
from bot.model import ProgressLine
from bot.settings import ClusterSettings, Settings
from bot.terminal.live import ProgressLines, printable, readers


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_finished_parts_are_shown_on_a_terminal_without_its_control_codes() -> None:
    out = Terminal()
    lines = ProgressLines(out)
    lines.report(ProgressLine("events", "running"))
    lines.report(ProgressLine("events", "done", "3\x1b[2J"))
    lines.report(ProgressLine("kernel log", "failed", "SSH refused"))
    assert out.getvalue() == "  ok  events      3 [2J\n  no  kernel log  SSH refused\n"


def test_nothing_is_shown_where_no_terminal_is() -> None:
    out = io.StringIO()
    ProgressLines(out).report(ProgressLine("events", "done"))
    assert out.getvalue() == ""


def test_words_of_others_hold_no_control_characters() -> None:
    assert printable("a\x1b]0;title\x07b\r\nc\u202ed 日本") == "a ]0;title b  c d 日本"


def test_named_cluster_must_be_one_of_the_settings() -> None:
    settings = Settings(clusters=(ClusterSettings(name="eu"), ClusterSettings(name="us")))
    with pytest.raises(BadInput, match="no cluster 'mars'; there are: eu, us"):
        readers(settings, "mars")
