"""Action set_engine_argument: sets one option of the engine where it stands in `args` or `command`, or appends it there.

What must hold afterwards: the new process gets past the phase where the old one died. Undo puts the old item back, or takes the appended one away.
Inside a shell string that is one simple command it rewrites that one word; a value that comes from a variable or a ConfigMap is changed there
(`sources.py`). In a script, an image or shell code it writes nothing and says what to paste.
"""

from typing import Any

from bot.model import Text
from bot.ports import ClusterReader
from bot.remediation import additional_arguments, elsewhere, ray_serve, serving, sources
from bot.remediation.already import SAID, pointless
from bot.remediation.arguments import End, Obstacle, Spot, Word, locate
from bot.remediation.bound import is_clean
from bot.remediation.change import Change, Edit, Elsewhere, put
from bot.remediation.engine_options import Option, opposite, option
from bot.remediation.paste import masked
from bot.remediation.pointer import MISSING, join
from bot.remediation.workload import Workload

NAME = "set_engine_argument"


def change(
    workload: Workload, argument: str, value: Any, direction: str = "", reader: ClusterReader | None = None, computed_for: str = ""
) -> Change | Elsewhere:
    """The edit that sets `--argument`, or what the workload's own server calls it, to the value. Raises BadInput for a value outside the option's range.

    Without a reader no ConfigMap is looked at. `computed_for`: the option that the value was computed for.
    """
    wanted = serving.option_for(workload, argument, computed_for)
    if isinstance(wanted, Elsewhere):
        return wanted
    written = wanted.written(serving.value_for(wanted, value))
    if wanted.server is not None:
        return _on_another_server(workload, wanted, written, direction)
    if workload.kind == "RayService" and (served := ray_serve.change(workload, wanted, written, direction)) is not None:
        return served
    found = _located(workload, wanted)
    if isinstance(found, Obstacle) and found.kind == "image" and workload.kind == "LLMInferenceService":
        return additional_arguments.change(workload, wanted, written, direction) or elsewhere.engine_argument(workload, wanted, written, found)
    if isinstance(found, Obstacle):
        by_hand = elsewhere.engine_argument(workload, wanted, written, found)
        return sources.change(workload, sources.Wish(wanted, written, direction), found, by_hand, reader)
    if isinstance(found, End):
        return _append(workload, wanted, written, found)
    return _pointless(wanted, written, found, direction) or _rewrite(workload, wanted, written, found)


def _on_another_server(workload: Workload, wanted: Option, written: str, direction: str) -> Change | Elsewhere:
    """Only what stands in `command` and `args`: how files and variables weigh against them differs from server to server."""
    found = locate(workload.container, wanted)
    if isinstance(found, Obstacle):
        return elsewhere.beside_file(wanted, written, found) if found.kind == "config_file" else elsewhere.engine_argument(workload, wanted, written, found)
    if isinstance(found, End):
        return _append(workload, wanted, written, found)
    if wanted.kind == "switch":
        return Elsewhere(SAID, "")
    return pointless(found.key, found.value, written, direction) or _rewrite(workload, wanted, written, found)


def _located(workload: Workload, wanted: Option) -> Spot | End | Obstacle:
    """KServe puts the arguments of a `model` behind those of its runtime, so one that is not there can be put there: the last one counts."""
    found = locate(workload.container, wanted)
    by_runtime = isinstance(found, Obstacle) and found.kind in ("image", "program") and workload.shape.container
    return End("args", tuple(workload.container.get("args") or [])) if by_runtime and _runs_vllm(workload) else found


def _runs_vllm(workload: Workload) -> bool:
    model = workload.container
    names = f"{(model.get('modelFormat') or {}).get('name', '')} {model.get('runtime', '')}".lower()
    return "vllm" in names or "huggingface" in names


def _overruled(workload: Workload, wanted: Option) -> tuple[Text, ...]:
    """The engine does not look at the utilisation when the size of the cache is given in bytes."""
    if wanted.name != "gpu-memory-utilization" or not isinstance(locate(workload.container, option("kv-cache-memory-bytes")), Spot):
        return ()
    return (
        Text(
            "--kv-cache-memory-bytes is set too: then the cache has that size, whatever the utilisation.",
            "同时设置了 --kv-cache-memory-bytes：缓存大小由它决定，与利用率无关。",
        ),
    )


def _append(workload: Workload, wanted: Option, written: str, end: End) -> Change | Elsewhere:
    new = f"--{wanted.name}={written}" if written else f"--{wanted.name}"
    path = workload.container_pointer + join(end.list)
    if end.inside is not None:
        return _in_string(workload, wanted, end.inside, f"{end.inside.text.rstrip()} {new}")
    if not end.items and not workload.container.get(end.list):
        return Change((put(workload.body, path, [new]),), _overruled(workload, wanted))
    shown = masked(end.items)
    proof = tuple((f"{path}/{at}", item) for at, item in enumerate(end.items) if shown[at] == item)  # secrets are not kept with a plan
    return Change((Edit(f"{path}/{len(end.items)}", MISSING, new, proof),), _overruled(workload, wanted))


def _rewrite(workload: Workload, wanted: Option, written: str, spot: Spot) -> Change | Elsewhere:
    path = workload.container_pointer + join(spot.word.list, spot.word.at)
    if spot.inside is not None:
        new = f"--{wanted.name}" if wanted.kind == "switch" else f"--{spot.key}={written}" if spot.joined else written
        text = spot.word.text
        return _in_string(workload, wanted, spot.word, text[: spot.inside[0]] + new + text[spot.inside[1] :])
    if wanted.kind == "switch":
        return Change((Edit(path, spot.word.text, f"--{wanted.name}"),))
    if spot.joined:
        return Change((Edit(path, spot.word.text, f"--{spot.key}={written}"),), _overruled(workload, wanted))
    # the option's own item is bound too: otherwise the value could land behind another option
    before = workload.container_pointer + join(spot.word.list, spot.word.at - 1)
    proof = ((before, f"--{spot.key}"),) if spot.word.at else ()
    return Change((Edit(path, spot.word.text, written, proof),), _overruled(workload, wanted))


def _in_string(workload: Workload, wanted: Option, word: Word, text: str) -> Change | Elsewhere:
    """The whole item is what is written and bound, so one with a secret in it is not kept with a plan."""
    if not is_clean(word.text):
        reason = Text(
            f"The shell string that starts the engine (`{word.list}`) holds a secret, so it is not kept in a plan; change --{wanted.name} in it by hand.",
            f"启动引擎的 shell 字符串（`{word.list}`）里有密钥，不能存进计划；请手工修改其中的 --{wanted.name}。",
        )
        return Elsewhere(reason, "")
    path = workload.container_pointer + join(word.list, word.at)
    return Change((Edit(path, word.text, text),), _overruled(workload, wanted))


def _pointless(wanted: Option, written: str, spot: Spot, direction: str) -> Elsewhere | None:
    """The option has that value already, or the change would go the other way."""
    if wanted.kind == "switch":
        return None if spot.key.replace("_", "-") == opposite(wanted) else Elsewhere(SAID, "")
    return pointless(spot.key, spot.value, written, direction)
