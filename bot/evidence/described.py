"""Texts that describe objects (`kubectl describe`, `kubectl get`) as the objects themselves: a tree of values with the line that each stands on, written as
JSON for the readers of objects, and the facts put back at the lines of the text. Grammar of nothing.
"""

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

from bot.evidence.document import shorten
from bot.model import Fact


class Leaf(NamedTuple):
    """A value with the line that it stands on (from 1)."""

    value: str | int | bool
    line: int


Tree = dict[str, Any]  # of trees, lists and leaves


def written(tree: Tree) -> tuple[str, list[int]]:
    """The tree as JSON, one value a line, and the line of the text behind each of its lines."""
    out: list[tuple[str, int]] = []

    def write(node: Any, head: str, tail: str) -> int:
        if isinstance(node, Leaf):
            out.append((head + json.dumps(node.value) + tail, node.line))
            return node.line
        items = list(node.items()) if isinstance(node, dict) else [(None, each) for each in node]
        opening = len(out)
        out.append((head + ("{" if isinstance(node, dict) else "["), 0))
        first = 0
        for index, (key, each) in enumerate(items):
            line = write(each, f"{json.dumps(key)}: " if key is not None else "", "," if index + 1 < len(items) else "")
            first = first or line
        out.append((("}" if isinstance(node, dict) else "]") + tail, first or 1))
        out[opening] = (out[opening][0], first or 1)
        return first

    write(tree, "", "")
    return "\n".join(text for text, _ in out), [line for _, line in out]


def relocated(fact: Fact, origin: list[int], text_of: Callable[[int], str]) -> Fact:
    """A fact of the JSON at its line of the text; `text_of` gives that line."""
    place = fact.place
    if place is None or place.line is None:
        return fact
    line = origin[place.line - 1] if place.line <= len(origin) else 1
    return replace(fact, place=replace(place, line=line, quote=shorten(text_of(line).strip())))
