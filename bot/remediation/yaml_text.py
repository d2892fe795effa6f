"""Changes one scalar in a YAML text and leaves every other character as it is: comments, order and quotes of what people wrote stay.

The result is parsed again and must differ in nothing but that value; a text where that does not hold (anchors, tags, several documents) is left to people.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import yaml

Path = Sequence[str | int]


def load(text: str) -> Any:
    """The document, or None when it is no YAML that can be changed here."""
    try:
        return yaml.safe_load(text)
    except yaml.YAMLError:
        return None


def with_value(text: str, path: Path, key: str, written: str) -> str | None:
    """The text with `key` of the mapping at `path` set to `written` (YAML, as it stands there); None when it cannot be done safely."""
    try:
        node = yaml.compose(text, Loader=yaml.SafeLoader)
        before = yaml.safe_load(text)
    except yaml.YAMLError:
        return None
    mapping = _at(node, path)
    if not isinstance(mapping, yaml.MappingNode) or not mapping.value:
        return None
    found = [(name, value) for name, value in mapping.value if getattr(name, "value", None) == key]
    if len(found) > 1 or (found and not isinstance(found[0][1], yaml.ScalarNode)):
        return None
    new = _replaced(text, found[0][1], written) if found else _inserted(text, mapping, key, written)
    return new if _only_that(before, new, path, key, written) else None


def _at(node: Any, path: Path) -> Any:
    for step in path:
        if isinstance(node, yaml.SequenceNode) and isinstance(step, int) and step < len(node.value):
            node = node.value[step]
        elif isinstance(node, yaml.MappingNode):
            node = next((value for name, value in node.value if getattr(name, "value", None) == step), None)
        else:
            return None
    return node


def _replaced(text: str, value: yaml.ScalarNode, written: str) -> str:
    start, end = value.start_mark.index, value.end_mark.index
    return text[:start] + (written if end > start else f" {written}") + text[end:]


def _inserted(text: str, mapping: yaml.MappingNode, key: str, written: str) -> str:
    first = mapping.value[0][0].start_mark
    between = ", " if mapping.flow_style else "\n" + " " * first.column
    return f"{text[: first.index]}{key}: {written}{between}{text[first.index :]}"


def _only_that(before: Any, new: str, path: Path, key: str, written: str) -> bool:
    try:
        after = yaml.safe_load(new)
        return bool(after == _set(before, path, key, yaml.safe_load(written)))
    except yaml.YAMLError:
        return False


def _set(document: Any, path: Path, key: str, value: Any) -> Any:
    if path:
        if isinstance(document, list):
            return [_set(item, path[1:], key, value) if at == path[0] else item for at, item in enumerate(document)]
        return {name: _set(item, path[1:], key, value) if name == path[0] else item for name, item in _mapping(document).items()}
    return {**_mapping(document), key: value}


def _mapping(document: Any) -> Mapping[Any, Any]:
    return document if isinstance(document, Mapping) else {}
