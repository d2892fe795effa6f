"""Follows an engine option to where its value really stands: a variable with a literal value, a ConfigMap's key, a mounted `--config` file.

What cannot be followed with certainty (a variable that is used twice, a Secret, a file of the image) stays what it was: handed out.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from bot.model import Text
from bot.ports import ClusterReader, Json
from bot.remediation import config_map, yaml_text
from bot.remediation.already import pointless
from bot.remediation.arguments import Obstacle
from bot.remediation.change import Change, Edit, Elsewhere
from bot.remediation.engine_options import Option, means
from bot.remediation.pointer import join
from bot.remediation.workload import Workload


@dataclass(frozen=True, slots=True)
class Wish:
    """What is to be written: "" for a switch."""

    option: Option
    written: str
    direction: str


def change(workload: Workload, wish: Wish, obstacle: Obstacle, by_hand: Elsewhere, reader: ClusterReader | None) -> Change | Elsewhere:
    """The edits at the place where the value stands, else `by_hand`."""
    if obstacle.kind == "reference" and obstacle.whole and obstacle.word is not None and _expands(obstacle.word.text, obstacle.name):
        return _variable(workload, wish, obstacle.name, by_hand, reader)
    if obstacle.kind == "config_file" and reader is not None:
        return _file(workload, wish, obstacle.name, by_hand, reader)
    return by_hand


def _expands(text: str, name: str) -> bool:
    """Kubernetes fills in `$(NAME)` only; the other forms need a shell, that is a text of several words."""
    return f"$({name})" in text or any(blank in text for blank in " \t\n")


def _variable(workload: Workload, wish: Wish, name: str, by_hand: Elsewhere, reader: ClusterReader | None) -> Change | Elsewhere:
    container = workload.container
    if _uses(container, name) != 1:
        return by_hand
    entries = container.get("env") or []
    at = next((at for at in reversed(range(len(entries))) if entries[at].get("name") == name), None)
    if at is None:
        return by_hand if reader is None else _env_from(workload, wish, name, by_hand, reader)
    entry = entries[at]
    key_ref = (entry.get("valueFrom") or {}).get("configMapKeyRef")
    if key_ref and reader is not None:
        return _key(workload, wish, (str(key_ref.get("name", "")), str(key_ref.get("key", ""))), by_hand, reader)
    now = entry.get("value")
    if not isinstance(now, str) or "$(" in now:
        return by_hand
    path = workload.container_pointer + join("env", at)
    note = Text(
        f"--{wish.option.name} takes its value from the variable {name}, which nothing else in this container refers to.",
        f"--{wish.option.name} 的值来自变量 {name}，容器里没有别处引用它。",
    )
    edit = Edit(f"{path}/value", now, wish.written, ((f"{path}/name", name),))
    return pointless(wish.option.name, now, wish.written, wish.direction) or Change((edit,), (note,))


def _uses(container: Mapping[str, Any], name: str) -> int:
    texts = [*(container.get("command") or []), *(container.get("args") or []), *(str(one.get("value", "")) for one in container.get("env") or [])]
    pattern = re.compile(rf"\$\({name}\)|\$\{{{name}\b|\${name}\b")
    return sum(len(pattern.findall(str(text))) for text in texts)


def _env_from(workload: Workload, wish: Wish, name: str, by_hand: Elsewhere, reader: ClusterReader) -> Change | Elsewhere:
    """The last source that has the variable wins; a Secret is not read, so one that comes later leaves it open."""
    for source in reversed(workload.container.get("envFrom") or []):
        prefix, ref = str(source.get("prefix") or ""), source.get("configMapRef")
        if not name.startswith(prefix):
            continue
        if ref is None:
            return by_hand
        body = config_map.read(workload, str(ref.get("name", "")), reader)
        if isinstance(body, Text):
            return Elsewhere(_more(by_hand.reason, body), by_hand.paste, by_hand.language)
        if config_map.value(body, name.removeprefix(prefix)) is not None:
            return _in_map(workload, wish, body, name.removeprefix(prefix), by_hand, reader)
    return by_hand


def _key(workload: Workload, wish: Wish, place: tuple[str, str], by_hand: Elsewhere, reader: ClusterReader) -> Change | Elsewhere:
    body = config_map.read(workload, place[0], reader)
    if isinstance(body, Text):
        return Elsewhere(_more(by_hand.reason, body), by_hand.paste, by_hand.language)
    return _in_map(workload, wish, body, place[1], by_hand, reader)


def _in_map(workload: Workload, wish: Wish, body: Json, key: str, by_hand: Elsewhere, reader: ClusterReader) -> Change | Elsewhere:
    now = config_map.value(body, key)
    if now is None:
        return by_hand
    return pointless(wish.option.name, now.strip(), wish.written, wish.direction) or config_map.change(workload, body, key, wish.written, reader, by_hand)


def _file(workload: Workload, wish: Wish, path: str, by_hand: Elsewhere, reader: ClusterReader) -> Change | Elsewhere:
    found = next(iter(mounted_key(workload, path)), None)
    if found is None:
        return by_hand
    body = config_map.read(workload, found[0], reader)
    if isinstance(body, Text):
        return Elsewhere(_more(by_hand.reason, body), by_hand.paste, by_hand.language)
    text = config_map.value(body, found[1])
    document = yaml_text.load(text) if text is not None else None
    if text is None or not isinstance(document, dict):
        return by_hand
    names = [str(key) for key in document if means(str(key), wish.option)]
    if len(names) > 1:
        return by_hand
    key, written = names[0] if names else wish.option.name, wish.written or "true"
    if names and (against := pointless(key, _spelled(document[key]), written, wish.direction)):
        return against
    new = yaml_text.with_value(text, (), key, written)
    return by_hand if new is None else config_map.change(workload, body, found[1], new, reader, by_hand)


def _spelled(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def mounted_key(workload: Workload, path: str) -> Iterator[tuple[str, str]]:
    """The ConfigMap and its key that are mounted at a path of the container; nothing when the file comes from elsewhere."""
    mounts: list[Mapping[str, Any]] = sorted(workload.container.get("volumeMounts") or [], key=lambda one: len(str(one.get("mountPath", ""))), reverse=True)
    for mount in mounts:
        at, part = str(mount.get("mountPath", "")).rstrip("/"), str(mount.get("subPath") or "")
        if at and (path == at or path.startswith(at + "/")):
            inner = "/".join(piece for piece in (part, path[len(at) + 1 :]) if piece)
            volume: Mapping[str, Any] = next((one for one in workload.pod_spec.get("volumes") or [] if one.get("name") == mount.get("name")), {})
            sources = [volume.get("configMap"), *(one.get("configMap") for one in (volume.get("projected") or {}).get("sources") or [])]
            yield from (key for source in sources if source for key in _keys(source, inner))
            return


def _keys(source: Mapping[str, Any], inner: str) -> Iterator[tuple[str, str]]:
    name, items = str(source.get("name", "")), source.get("items")
    if not items:
        yield name, inner
    for item in items or []:
        if item.get("path") == inner:
            yield name, str(item.get("key", ""))


def _more(one: Text, other: Text) -> Text:
    return Text(f"{one.en} {other.en}", f"{one.zh}{other.zh}")
