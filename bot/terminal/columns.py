"""Texts in columns of a terminal, where a Chinese letter is as wide as two others."""


def columns(text: str, width: int) -> str:
    """The text filled up with blanks to a width, at its left where the width is negative; longer ones get none."""
    blanks = " " * (abs(width) - len(text) - sum(ord(letter) > 0x2E80 for letter in text))
    return text + blanks if width > 0 else blanks + text
