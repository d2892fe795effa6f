"""The sentence for what somebody else changed after the bot did."""

from collections.abc import Sequence

from bot.model import Difference, Text


def changed_words(changed: Sequence[Difference]) -> Text:
    """That what was applied does not stand any more, and by whom."""
    first = changed[0]
    by, by_zh = (f" by {first.who}", f"被 {first.who} ") if first.who else ("", "被")
    return Text(f"What was applied was changed{by} afterwards ({first.path}).", f"所做的改动之后{by_zh}改掉了（{first.path}）。")
