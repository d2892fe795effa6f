"""Ready-to-paste YAML: only the fragment that changes, with the path that leads to it. Secrets in it are redacted, as in everything that people are shown."""

from collections.abc import Mapping, Sequence
from typing import Any

import yaml

from bot.redact import redact

COMMAND_LINE = ("command", "args")
REDACTED = "[redacted]"


class _Dumper(yaml.SafeDumper):
    """Lists are indented under their key and texts of several lines are literal blocks, as people write manifests."""

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:
        super().increase_indent(flow, False)


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else None)


_Dumper.add_representer(str, _text)


def dump(value: Any) -> str:
    """YAML for people; keys keep their order."""
    return clean(yaml.dump(_without_secrets(value), Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=160, default_flow_style=False))


def clean(text: str) -> str:
    return redact(text.encode()).decode(errors="replace")


def masked(items: Sequence[Any]) -> list[Any]:
    """Items of a command line with the secrets covered; one may stand in an item of its own, behind the option that it belongs to."""
    return [REDACTED if _is_secret(items, at) else item for at, item in enumerate(items)]


def _is_secret(items: Sequence[Any], at: int) -> bool:
    text = str(items[at])
    return clean(text) != text or (at > 0 and str(items[at - 1]).startswith("-") and not clean(f"{items[at - 1]} {text}").endswith(text))


def _without_secrets(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: masked(item) if key in COMMAND_LINE and isinstance(item, list) else _without_secrets(item) for key, item in value.items()}
    return [_without_secrets(item) for item in value] if isinstance(value, list) else value


def container_patch(name: str, fields: Mapping[str, Any], extra: Mapping[str, Any] | None = None) -> str:
    """The fragment of a workload that sets fields of one container; it can be merged strategically or copied into a manifest."""
    return dump({"spec": {**(extra or {}), "template": {"spec": {"containers": [{"name": name, **fields}]}}}})


def pod_patch(name: str, fields: Mapping[str, Any]) -> str:
    """The same for a bare pod's manifest."""
    return dump({"spec": {"containers": [{"name": name, **fields}]}})
