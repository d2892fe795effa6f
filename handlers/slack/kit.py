"""Building bricks of a Slack message: escaped, clipped, within Slack's limits. Pure; it knows no Case.

What comes from outside is shown in one of two ways: `escape`d inside mrkdwn, or as it is inside rich text, which Slack does not parse.
Source of the limits: docs.slack.dev; the total over all blocks is not documented (users measured about 13,200 characters), so we stay well below.
"""

import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from handlers.messages import Trusted

Block = dict[str, Any]

SECTION, BUTTON_TEXT, FALLBACK_TEXT, CONTEXT = 2900, 75, 3000, 1500
MOST_BLOCKS, MOST_CHARACTERS = 48, 11_000

# Invisible characters that turn text around or hide it; line feeds and tabs are handled apart.
_SPACES = re.compile(r"\s+")


def clean(text: str) -> str:
    """One line without control, direction and other invisible characters."""
    kept = "".join(letter for letter in text if letter in "\n\t " or unicodedata.category(letter) not in ("Cc", "Cf", "Cs", "Co", "Cn"))
    return _SPACES.sub(" ", kept).strip()


def escape(text: str) -> str:
    """Untrusted text for mrkdwn: cannot ping, link, or leave the code span that it stands in."""
    return clean(text).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;").replace("`", "'")


def clip(text: str, most: int) -> str:
    """At most `most` characters; a cut never leaves half of an escape or of a mention behind."""
    if len(text) <= most:
        return text
    cut = text[: most - 4]
    cut = re.sub(r"&[a-z]{0,4}$|<[^>]*$", "", cut)
    if cut.count("`") % 2:
        cut += "`"
    return cut + " ..."


def moment(at: datetime) -> Trusted:
    """A time that Slack shows in each reader's own time zone."""
    return Trusted(f"<!date^{int(at.timestamp())}^{{time}}|{at:%H:%M} UTC>")


def day_and_time(at: datetime) -> Trusted:
    """The same with its day."""
    return Trusted(f"<!date^{int(at.timestamp())}^{{date_short_pretty}} {{time}}|{at.astimezone(UTC):%Y-%m-%d %H:%M} UTC>")


def mention(identifier: str) -> Trusted:
    """A person or a user group, by the platform's own id; anything that is not one is shown as text."""
    if re.fullmatch(r"S[A-Z0-9]{2,20}", identifier):
        return Trusted(f"<!subteam^{identifier}>")
    if re.fullmatch(r"[UW][A-Z0-9]{2,20}", identifier):
        return Trusted(f"<@{identifier}>")
    return Trusted(escape(identifier))


def link(url: str, text: str) -> Trusted:
    """A link, when the address is plainly one; else its text alone."""
    if re.fullmatch(r"https?://[A-Za-z0-9._~:/?#@!$&'()*+,;=%\[\]-]{1,500}", url):
        return Trusted(f"<{url.replace('&', '&amp;')}|{escape(text).replace('|', ' ')}>")
    return Trusted(escape(text))


def section(mrkdwn: str, accessory: Block | None = None) -> Block:
    block: Block = {"type": "section", "text": {"type": "mrkdwn", "text": clip(mrkdwn, SECTION) or " ", "verbatim": True}}
    return block | ({"accessory": accessory} if accessory else {})


def context(mrkdwn: str) -> Block:
    return {"type": "context", "elements": [{"type": "mrkdwn", "text": clip(mrkdwn, CONTEXT) or " ", "verbatim": True}]}


def actions(buttons: Sequence[Block]) -> list[Block]:
    return [{"type": "actions", "elements": list(buttons[:25])}] if buttons else []


def button(text: str, action_id: str, value: str, *, style: str = "", confirm: Block | None = None) -> Block:
    block: Block = {"type": "button", "text": {"type": "plain_text", "text": clip(text, BUTTON_TEXT)}, "action_id": action_id, "value": value}
    if style:
        block["style"] = style
    if confirm:
        block["confirm"] = confirm
    return block


def confirm(title: str, mrkdwn: str, yes: str, no: str) -> Block:
    return {
        "title": {"type": "plain_text", "text": clip(title, 100)},
        "text": {"type": "mrkdwn", "text": clip(mrkdwn, 290)},
        "confirm": {"type": "plain_text", "text": clip(yes, 30)},
        "deny": {"type": "plain_text", "text": clip(no, 30)},
    }


def rich(elements: Iterable[Block]) -> list[Block]:
    """One rich text block of what `line` and `preformatted` give; nothing when there is nothing."""
    there = [element for element in elements if element["elements"]]
    return [{"type": "rich_text", "elements": there}] if there else []


def line(text: str) -> Block:
    """A line of text that is not parsed."""
    return {"type": "rich_text_section", "elements": [{"type": "text", "text": clean(text) or " "}]}


def preformatted(text: str, most: int = 2000) -> Block:
    """Text as it is (a log line, a diff), not parsed. Keeps its line breaks."""
    lines = [_visible(each) for each in text.splitlines()]
    whole = "\n".join(lines)
    if len(whole) > most:
        whole = whole[: most - 4] + " ..."
    return {"type": "rich_text_preformatted", "elements": [{"type": "text", "text": whole or " "}]}


def _visible(text: str) -> str:
    return "".join(letter if letter == "\t" or unicodedata.category(letter) not in ("Cc", "Cf", "Cs", "Co", "Cn") else "?" for letter in text)


def table(rows: Sequence[Sequence[str]]) -> list[Block]:
    """A table; Slack takes one a message."""
    return [{"type": "table", "rows": [[{"type": "raw_text", "text": clip(clean(cell), 300) or " "} for cell in row] for row in rows[:100]]}] if rows else []


def without_tables(blocks: Sequence[Block]) -> list[Block]:
    """The same with each table as preformatted text, for a workspace that does not take tables yet."""
    made: list[Block] = []
    for block in blocks:
        if block["type"] == "table":
            rows = [" | ".join(cell["text"] for cell in row) for row in block["rows"]]
            made += rich([preformatted("\n".join(rows))])
        else:
            made.append(block)
    return made


def fit(blocks: Sequence[Block], note: str) -> list[Block]:
    """The blocks within Slack's totals. What does not fit is left out from the end, but never buttons; `note` says that something is missing."""
    kept = list(blocks)
    if len(kept) <= MOST_BLOCKS and sum(map(_size, kept)) <= MOST_CHARACTERS:
        return kept
    while len(kept) >= MOST_BLOCKS or sum(map(_size, kept)) > MOST_CHARACTERS - len(note):
        droppable = [number for number, block in enumerate(kept) if block["type"] != "actions" and "accessory" not in block]
        if not droppable:
            break
        del kept[droppable[-1]]
    place = next((number for number, block in enumerate(kept) if block["type"] == "actions"), len(kept))
    return [*kept[:place], context(note), *kept[place:]]


def _size(tree: object) -> int:
    if isinstance(tree, Mapping):
        own = len(tree["text"]) if isinstance(tree.get("text"), str) else 0
        return own + sum(_size(value) for value in tree.values())
    if isinstance(tree, list):
        return sum(map(_size, tree))
    return 0
