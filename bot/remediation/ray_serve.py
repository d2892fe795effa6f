"""Engine options in a RayService: `engine_kwargs` of the LLM configs inside the YAML text `spec.serveConfigV2`.

One value of the text changes and not a character besides. Several models in one service are told apart by nothing that a pod shows, so they are left to people.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from bot.model import Text
from bot.remediation import yaml_text
from bot.remediation.already import pointless
from bot.remediation.bound import is_clean
from bot.remediation.change import Change, Edit, Elsewhere
from bot.remediation.engine_options import Option
from bot.remediation.workload import Workload

POINTER = "/spec/serveConfigV2"
Path = tuple[str | int, ...]


def change(workload: Workload, option: Option, written: str, direction: str) -> Change | Elsewhere | None:
    """The edit of serveConfigV2; None when it has no engine_kwargs, so that the containers decide."""
    text = workload.spec.get("serveConfigV2")
    places = list(_kwargs(yaml_text.load(text), ())) if isinstance(text, str) else []
    if not places or not isinstance(text, str):
        return None
    key, value = _as_kwarg(option, written)
    by_hand = f"# spec.serveConfigV2, under engine_kwargs\n{key}: {value}\n"
    if len(places) > 1:
        reason = Text(
            f"{workload.ref} serves {len(places)} models; which one's engine_kwargs are meant cannot be told from a pod.",
            f"{workload.ref} 有 {len(places)} 个模型，无法从 Pod 判断该改哪个的 engine_kwargs。",
        )
        return Elsewhere(reason, by_hand)
    path, found = places[0]
    names = [name for name in found if str(name).replace("-", "_") == key]
    if names and (against := pointless(str(names[0]), _spelled(found[names[0]]), value, direction)):
        return against
    new = yaml_text.with_value(text, path, str(names[0]) if names else key, value)
    if new is None or not is_clean(text):
        return Elsewhere(
            Text("The text of serveConfigV2 cannot be changed safely, or holds a secret.", "serveConfigV2 的内容无法安全修改，或含有密钥。"), by_hand
        )
    note = Text(
        "Ray Serve takes the new engine_kwargs up in the running cluster: the model's replicas restart, the cluster's pods stay.",
        "Ray Serve 会在运行中的集群里应用新的 engine_kwargs：模型副本会重启，集群的 Pod 不变。",
    )
    return Change((Edit(POINTER, text, new),), (note,))


def _as_kwarg(option: Option, written: str) -> tuple[str, str]:
    """The keyword of the engine for an option: `--no-enable-prefix-caching` -> enable_prefix_caching: false."""
    if option.kind != "switch":
        return option.name.replace("-", "_"), written
    name = option.name.removeprefix("no-")
    return name.replace("-", "_"), "false" if option.name.startswith("no-") else "true"


def _spelled(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _kwargs(value: Any, path: Path) -> Iterator[tuple[Path, Mapping[str, Any]]]:
    """Every mapping called engine_kwargs, with the path to it."""
    if isinstance(value, Mapping):
        for key, inner in value.items():
            if key == "engine_kwargs" and isinstance(inner, Mapping) and inner:
                yield (*path, key), inner
            else:
                yield from _kwargs(inner, (*path, str(key)))
    elif isinstance(value, list):
        for at, inner in enumerate(value):
            yield from _kwargs(inner, (*path, at))
