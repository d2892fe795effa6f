"""The sentences for what somebody else changed: before the bot did anything, or after it did."""

from collections.abc import Sequence

from bot.model import Difference, Text, Words


def changed_words(changed: Sequence[Difference]) -> Text:
    """That what was applied does not stand any more, and by whom."""
    first = changed[0]
    by, by_zh = (f" by {first.who}", f"被 {first.who} ") if first.who else ("", "被")
    return Text(f"What was applied was changed{by} afterwards ({first.path}).", f"所做的改动之后{by_zh}改掉了（{first.path}）。")


def voids(changed: Sequence[Difference], *, undo: bool = False) -> Words:
    """Why a plan is not carried out, or, with `undo`, why none is made: what stands is not what the bot left. `by` is a field manager's name: anybody's words, no person."""
    first = changed[0]
    return Words("changed_since" if undo else "changed", {"path": first.path, "by": first.who, "more": str(len(changed) - 1) if len(changed) > 1 else ""})
