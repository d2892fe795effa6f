"""Parameters of the use-cases as Slack shows them: ids as mentions, times in each reader's own zone, everything else as escaped text."""

import pytest

from bot.model import Words
from handlers.slack import wording


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (Words("not_approver", {"who": "S01ONCALL, U02JO"}), "Refused: you may not approve or reject this. Who may: <!subteam^S01ONCALL>, <@U02JO>."),
        (Words("rejected", {"who": "U03WEI", "reason": "not <!channel> now"}), "Rejected by <@U03WEI>: not &lt;!channel&gt; now"),
        (Words("expired", {"at": "2026-11-30T10:42:00+00:00"}), "Too late: the approval expired at <!date^1796035320^{time}|10:42 UTC>. Nothing was done."),
        (Words("wrong_channel", {"channel": "C01ONCALL"}), "Refused: this button belongs to a message in <#C01ONCALL>."),
        (Words("not_now", {"state": "watching", "wanted": "approve"}), "Refused: Approve is not possible now (state: rolling out)."),
        (Words("target_ambiguous", {"target": "chat", "candidates": "a/chat\nb/chat"}), "Several match `chat`, none was picked: a/chat, b/chat. Name one of them."),
        (Words("handed_out", {"remedy": "kv_cache_dtype:fp8"}), "Keep the KV cache in fp8: the bot does not make this change itself; what to paste stands in the thread."),
    ],
)
def test_a_refusal_reads_well(words: Words, text: str) -> None:
    assert wording.say(words, "en") == text


@pytest.mark.parametrize("who", ["<!channel>", "U1|<!here>", "!channel", "Ana"])
def test_a_who_that_is_no_id_is_text(who: str) -> None:
    text = wording.say(Words("rejected", {"who": who, "reason": ""}), "en")
    assert "<" not in text
    assert "Rejected by " in text


@pytest.mark.parametrize("at", ["soon", "2026-11-30", "2026-11-30T10:42:00", "<!channel>"])
def test_a_time_that_is_none_is_text(at: str) -> None:
    assert "<" not in wording.say(Words("expired", {"at": at}), "en")


def test_the_command_is_called_as_the_settings_call_it() -> None:
    frozen = Words("frozen", {"who": "U01ANA", "at": "2026-11-30T10:00:00+00:00"})
    assert "with `/oom-staging unfreeze`." in wording.say(frozen, "en", "/oom-staging")
    assert "可用 `/oom unfreeze` 解除" in wording.say(frozen, "zh")
