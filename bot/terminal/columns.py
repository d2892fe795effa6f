"""Texts in columns of a terminal, where a Chinese letter is as wide as two others, and lines that end before its edge."""

import os
import sys
import textwrap
from functools import cache

WIDEST, NARROWEST = 118, 50  # letters of a line: longer ones are hard to read, in shorter ones nothing stands


@cache
def width() -> int:
    """Letters of a line: the terminal's, within reason; the most where the output is none."""
    try:
        return max(NARROWEST, min(WIDEST, os.get_terminal_size(sys.stdout.fileno()).columns - 1))
    except (OSError, ValueError, AttributeError):
        return WIDEST


def wrapped(text: str, indent: str = "  ") -> str:
    """English text in lines of that width, all but the first indented by two more. Words stay whole."""
    return textwrap.fill(text, width(), initial_indent=indent, subsequent_indent=indent + "  ", break_long_words=False, break_on_hyphens=False)


def columns(text: str, width: int) -> str:
    """The text filled up with blanks to a width, at its left where the width is negative; longer ones get none."""
    blanks = " " * (abs(width) - len(text) - sum(ord(letter) > 0x2E80 for letter in text))
    return text + blanks if width > 0 else blanks + text
