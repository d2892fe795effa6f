"""What Slack refuses in blocks, texts and views: the limits of its documentation, checked strictly and all at once. Pure.

Sources: docs.slack.dev, slack_sdk 3.48 models; the total over all blocks of a message is not documented, users measured about 13,200 characters.
Kinds of blocks that the bot does not use are refused here too: extend this table when it begins to use one.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

Json = Mapping[str, Any]

MESSAGE_TEXT = 40_000
MESSAGE_BLOCKS, VIEW_BLOCKS = 50, 100
MESSAGE_TOTAL = 13_100
PRIVATE_METADATA = 3000

_ID = 255
_PING = re.compile(r"<(!channel|!here|!everyone|!subteam\^\w+|@\w+)(?:\|[^>]*)?>")


def message_mistakes(text: object, blocks: object) -> list[str]:
    """Why Slack would answer `invalid_blocks` (or `msg_blocks_too_long`, then the only line is that word)."""
    if blocks is None:
        return []
    if not isinstance(blocks, list):
        return ["must be an array [json-pointer:/blocks]"]
    mistakes = list(_all(blocks, MESSAGE_BLOCKS, _MESSAGE_BLOCKS, "/blocks"))
    if not mistakes and _characters(blocks) > MESSAGE_TOTAL:
        return ["msg_blocks_too_long"]
    return mistakes


def view_mistakes(view: object) -> list[str]:
    """Why Slack would answer `invalid_arguments` to a modal."""
    if not isinstance(view, Mapping) or view.get("type") != "modal":
        return ["must be a modal [json-pointer:/view]"]
    mistakes = [*_text(view.get("title"), 24, "/view/title", plain=True)]
    for name in ("submit", "close"):
        if name in view:
            mistakes += _text(view[name], 24, f"/view/{name}", plain=True)
    mistakes += _at_most(view.get("callback_id", ""), _ID, "/view/callback_id")
    mistakes += _at_most(view.get("private_metadata", ""), PRIVATE_METADATA, "/view/private_metadata")
    blocks = view.get("blocks")
    if not isinstance(blocks, list) or not blocks:
        return [*mistakes, "must have blocks [json-pointer:/view/blocks]"]
    mistakes += _all(blocks, VIEW_BLOCKS, _VIEW_BLOCKS, "/view/blocks")
    if any(block.get("type") == "input" for block in blocks if isinstance(block, Mapping)) and "submit" not in view:
        mistakes.append("a view with inputs must have submit [json-pointer:/view/submit]")
    return mistakes


def pings(text: str, blocks: Sequence[Json]) -> tuple[str, ...]:
    """Who would be notified: broadcasts, groups and people in texts that Slack parses (the fallback text too), and in elements that mean it."""
    found = [match[1] for piece in [text, *_parsed(blocks)] for match in _PING.finditer(piece)]
    found += [str(node.get("user_id") or node.get("usergroup_id") or node.get("range")) for node in _nodes(blocks) if node.get("type") in ("user", "usergroup", "broadcast")]
    return tuple(found)


def shown(blocks: Sequence[Json]) -> str:
    """All that a reader sees of the blocks, one line a text, with Slack's escapes undone."""
    lines: list[str] = []
    for block in blocks:
        if block.get("type") == "rich_text":
            lines += [_rich(element) for element in block.get("elements", [])]
        elif block.get("type") == "table":
            lines += [" | ".join(_rich(cell) for cell in row) for row in block.get("rows", [])]
        else:
            faces = {name: value for name, value in block.items() if name not in ("elements", "accessory")} if block.get("type") != "context" else block
            lines += [_unescaped(str(node["text"])) for node in _nodes(faces) if node.get("type") in ("mrkdwn", "plain_text") and "text" in node]
            there = " ".join(f"[{button['text']['text']}]" for button in buttons([block])) if block.get("type") in ("actions", "section") else ""
            lines += [there] if there else []
    return "\n".join(lines)


def buttons(blocks: Sequence[Json]) -> list[Json]:
    """Every button with the block_id it stands in under `block_id`."""
    return [
        {**element, "block_id": block.get("block_id", "")}
        for block in blocks
        for element in [*block.get("elements", ()), *([block["accessory"]] if "accessory" in block else [])]
        if element.get("type") == "button"
    ]


# ---------------------------------------------------------------- one block of each kind

Check = Callable[[Json, str], Iterator[str]]


def _all(blocks: Sequence[Any], most: int, kinds: Mapping[str, Check], at: str) -> Iterator[str]:
    if len(blocks) > most:
        yield f"no more than {most} items allowed [json-pointer:{at}]"
    if sum(isinstance(block, Mapping) and block.get("type") == "table" for block in blocks) > 1:
        yield f"only one table allowed [json-pointer:{at}]"
    ids: set[str] = set()
    for index, block in enumerate(blocks):
        here = f"{at}/{index}"
        if not isinstance(block, Mapping) or block.get("type") not in kinds:
            yield f"unsupported type: {block.get('type') if isinstance(block, Mapping) else block!r} [json-pointer:{here}/type]"
            continue
        yield from _at_most(block.get("block_id", ""), _ID, f"{here}/block_id")
        if block.get("block_id") and block["block_id"] in ids:
            yield f"block_id already exists [json-pointer:{here}/block_id]"
        ids.add(block.get("block_id", ""))
        yield from kinds[block["type"]](block, here)


def _section(block: Json, at: str) -> Iterator[str]:
    if "text" not in block and not block.get("fields"):
        yield f"missing required field: text [json-pointer:{at}]"
    if "text" in block:
        yield from _text(block["text"], 3000, f"{at}/text")
    fields = block.get("fields", [])
    if len(fields) > 10:
        yield f"no more than 10 items allowed [json-pointer:{at}/fields]"
    for index, field in enumerate(fields):
        yield from _text(field, 2000, f"{at}/fields/{index}")
    if "accessory" in block:
        yield from _button(block["accessory"], f"{at}/accessory")


def _header(block: Json, at: str) -> Iterator[str]:
    yield from _text(block.get("text"), 150, f"{at}/text", plain=True)


def _divider(block: Json, at: str) -> Iterator[str]:
    return iter(())


def _context(block: Json, at: str) -> Iterator[str]:
    elements = block.get("elements")
    if not elements or len(elements) > 10:
        yield f"must have 1 to 10 elements [json-pointer:{at}/elements]"
    for index, element in enumerate(elements or ()):
        yield from _text(element, 3000, f"{at}/elements/{index}")


def _actions(block: Json, at: str) -> Iterator[str]:
    elements = block.get("elements")
    if not elements or len(elements) > 25:
        yield f"must have 1 to 25 elements [json-pointer:{at}/elements]"
    ids = [element.get("action_id") for element in elements or ()]
    if len(set(ids)) != len(ids):
        yield f"action_id already exists [json-pointer:{at}/elements]"
    for index, element in enumerate(elements or ()):
        yield from _button(element, f"{at}/elements/{index}")


def _button(element: Json, at: str) -> Iterator[str]:
    if element.get("type") != "button":
        yield f"unsupported type: {element.get('type')} [json-pointer:{at}/type]"
        return
    yield from _text(element.get("text"), 75, f"{at}/text", plain=True)
    if not element.get("action_id"):
        yield f"missing required field: action_id [json-pointer:{at}]"
    yield from _at_most(element.get("action_id", ""), _ID, f"{at}/action_id")
    yield from _at_most(element.get("value", ""), 2000, f"{at}/value")
    yield from _at_most(element.get("url", ""), 3000, f"{at}/url")
    if element.get("style") not in (None, "primary", "danger"):
        yield f"style must be primary or danger [json-pointer:{at}/style]"
    if "confirm" in element:
        confirm = element["confirm"]
        yield from _text(confirm.get("title"), 100, f"{at}/confirm/title", plain=True)
        yield from _text(confirm.get("text"), 300, f"{at}/confirm/text")
        yield from _text(confirm.get("confirm"), 30, f"{at}/confirm/confirm", plain=True)
        yield from _text(confirm.get("deny"), 30, f"{at}/confirm/deny", plain=True)


def _rich_text(block: Json, at: str) -> Iterator[str]:
    elements = block.get("elements")
    if not elements:
        yield f"must have elements [json-pointer:{at}/elements]"
    for index, element in enumerate(elements or ()):
        yield from _rich_element(element, f"{at}/elements/{index}")


def _rich_element(element: Json, at: str) -> Iterator[str]:
    kind = element.get("type")
    if kind not in ("rich_text_section", "rich_text_preformatted", "rich_text_quote", "rich_text_list"):
        yield f"unsupported type: {kind} [json-pointer:{at}/type]"
        return
    if kind == "rich_text_list" and element.get("style") not in ("bullet", "ordered"):
        yield f"style must be bullet or ordered [json-pointer:{at}/style]"
    if not element.get("elements"):
        yield f"must have elements [json-pointer:{at}/elements]"
    for index, piece in enumerate(element.get("elements") or ()):
        here = f"{at}/elements/{index}"
        if kind == "rich_text_list":
            yield from _rich_element(piece, here)
        elif piece.get("type") == "text":
            if not isinstance(piece.get("text"), str) or not piece["text"]:
                yield f"must be more than 0 characters [json-pointer:{here}/text]"
        elif piece.get("type") not in ("link", "user", "usergroup", "broadcast", "channel", "emoji", "date"):
            yield f"unsupported type: {piece.get('type')} [json-pointer:{here}/type]"


def _table(block: Json, at: str) -> Iterator[str]:
    rows = block.get("rows")
    if not rows or len(rows) > 100:
        yield f"must have 1 to 100 rows [json-pointer:{at}/rows]"
    for index, row in enumerate(rows or ()):
        if not 1 <= len(row) <= 20:
            yield f"must have 1 to 20 cells [json-pointer:{at}/rows/{index}]"
        for column, cell in enumerate(row):
            here = f"{at}/rows/{index}/{column}"
            if cell.get("type") == "raw_text":
                if not cell.get("text"):
                    yield f"must be more than 0 characters [json-pointer:{here}/text]"
            elif cell.get("type") == "rich_text":
                yield from _rich_text(cell, here)
            else:
                yield f"unsupported type: {cell.get('type')} [json-pointer:{here}/type]"


def _input(block: Json, at: str) -> Iterator[str]:
    yield from _text(block.get("label"), 2000, f"{at}/label", plain=True)
    if "hint" in block:
        yield from _text(block["hint"], 2000, f"{at}/hint", plain=True)
    element = block.get("element", {})
    if element.get("type") != "plain_text_input":
        yield f"unsupported type: {element.get('type')} [json-pointer:{at}/element/type]"
    yield from _at_most(element.get("initial_value", ""), 3000, f"{at}/element/initial_value")
    if "placeholder" in element:
        yield from _text(element["placeholder"], 150, f"{at}/element/placeholder", plain=True)


_MESSAGE_BLOCKS: Mapping[str, Check] = {
    "section": _section, "header": _header, "divider": _divider, "context": _context, "actions": _actions, "rich_text": _rich_text, "table": _table,
}  # fmt: skip
_VIEW_BLOCKS: Mapping[str, Check] = {"section": _section, "header": _header, "divider": _divider, "context": _context, "input": _input, "rich_text": _rich_text}


# ---------------------------------------------------------------- pieces


def _text(value: object, most: int, at: str, *, plain: bool = False) -> Iterator[str]:
    if not isinstance(value, Mapping) or value.get("type") not in (("plain_text",) if plain else ("plain_text", "mrkdwn")):
        yield f"must be a {'plain_text' if plain else 'text'} object [json-pointer:{at}]"
        return
    text = value.get("text")
    if not isinstance(text, str) or not text:
        yield f"must be more than 0 characters [json-pointer:{at}/text]"
    elif len(text) > most:
        yield f"must be less than {most + 1} characters [json-pointer:{at}/text]"


def _at_most(value: object, most: int, at: str) -> Iterator[str]:
    if not isinstance(value, str) or len(value) > most:
        yield f"must be less than {most + 1} characters [json-pointer:{at}]"


def _nodes(tree: object) -> Iterator[Json]:
    if isinstance(tree, Mapping):
        yield tree
        for value in tree.values():
            yield from _nodes(value)
    elif isinstance(tree, (list, tuple)):
        for value in tree:
            yield from _nodes(value)


def _parsed(blocks: Sequence[Json]) -> Iterator[str]:
    return (str(node.get("text", "")) for node in _nodes(blocks) if node.get("type") == "mrkdwn")


def _characters(blocks: Sequence[Json]) -> int:
    return sum(len(node["text"]) for node in _nodes(blocks) if isinstance(node.get("text"), str))


def _rich(element: Json) -> str:
    if "elements" not in element:
        return str(element.get("text") or element.get("url") or element.get("user_id") or "")
    parts = [_rich(piece) for piece in element["elements"]]
    return ("\n" if element.get("type") in ("rich_text_list", "rich_text") else "").join(parts)


def _unescaped(text: str) -> str:
    return text.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&")
