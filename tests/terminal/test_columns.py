"""Lines end before the edge of the terminal, and columns stand under each other in both languages."""

import fcntl
import os
import pty
import struct
import subprocess
import sys
import termios
from pathlib import Path

import pytest

from bot.terminal.columns import columns

CASE = str(Path(__file__).parent.parent / "cases" / "gpu-035")


def printed(width: int, *words: str) -> list[str]:
    """What a command prints on a terminal of that many columns."""
    ours, its = pty.openpty()
    fcntl.ioctl(its, termios.TIOCSWINSZ, struct.pack("HHHH", 50, width, 0, 0))
    process = subprocess.Popen([sys.executable, "-m", "bot", *words], stdout=its, stderr=subprocess.STDOUT)
    os.close(its)
    pieces = []
    while piece := _piece(ours):
        pieces.append(piece)
    os.close(ours)
    assert process.wait() == 0
    return b"".join(pieces).decode().replace("\r\n", "\n").splitlines()


def _piece(terminal: int) -> bytes:
    try:
        return os.read(terminal, 65536)
    except OSError:  # so ends a terminal that nobody holds any more
        return b""


@pytest.mark.parametrize("words", [("diagnose", CASE), ("explain", "gpu_oom")], ids=str)
def test_no_line_is_broken_by_a_narrow_terminal(words: tuple[str, ...]) -> None:
    lines = printed(80, *words)
    assert [line for line in lines if len(line) >= 80 and len(line.split()) > 2] == []
    assert max(map(len, printed(300, *words))) > 90


def test_a_chinese_letter_counts_for_two() -> None:
    assert [columns("显卡", 8), columns("card", 8), columns("之后", -8), columns("a very long one", 4)] == ["显卡    ", "card    ", "    之后", "a very long one"]
