"""Action set_engine_argument: sets one option of the engine where it stands in `args` or `command`, or appends it there.

What must hold afterwards: the new process gets past the phase where the old one died. Undo puts the old item back, or takes the appended one away.
Inside a shell string, a variable, a file or an image it writes nothing and says what to paste.
"""

from typing import Any

from bot.model import Text
from bot.remediation import elsewhere
from bot.remediation.arguments import End, Obstacle, Spot, locate
from bot.remediation.change import Change, Edit, Elsewhere
from bot.remediation.engine_options import Option, number, opposite, option
from bot.remediation.paste import masked
from bot.remediation.pointer import MISSING, join
from bot.remediation.workload import Workload

NAME = "set_engine_argument"


def change(workload: Workload, argument: str, value: Any, direction: str = "") -> Change | Elsewhere:
    """The edit that sets `--argument` to the value. Raises BadInput for a value outside the option's range."""
    wanted = option(argument)
    written = wanted.written(value)
    found = locate(workload.container, wanted)
    if isinstance(found, Obstacle):
        return elsewhere.engine_argument(workload, wanted, written, found)
    if isinstance(found, End):
        return _append(workload, wanted, written, found)
    return _pointless(wanted, written, found, direction) or _rewrite(workload, wanted, written, found)


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


def _append(workload: Workload, wanted: Option, written: str, end: End) -> Change:
    new = f"--{wanted.name}={written}" if written else f"--{wanted.name}"
    path = join("spec", "template", "spec", "containers", workload.index, end.list)
    shown = masked(end.items)
    proof = tuple((f"{path}/{at}", item) for at, item in enumerate(end.items) if shown[at] == item)  # secrets are not kept with a plan
    return Change((Edit(f"{path}/{len(end.items)}", MISSING, new, proof),), _overruled(workload, wanted))


def _rewrite(workload: Workload, wanted: Option, written: str, spot: Spot) -> Change:
    path = join("spec", "template", "spec", "containers", workload.index, spot.word.list, spot.word.at)
    if wanted.kind == "switch":
        return Change((Edit(path, spot.word.text, f"--{wanted.name}"),))
    if spot.joined:
        return Change((Edit(path, spot.word.text, f"--{spot.key}={written}"),), _overruled(workload, wanted))
    # the option's own item is bound too: otherwise the value could land behind another option
    before = join("spec", "template", "spec", "containers", workload.index, spot.word.list, spot.word.at - 1)
    proof = ((before, f"--{spot.key}"),) if spot.word.at else ()
    return Change((Edit(path, spot.word.text, written, proof),), _overruled(workload, wanted))


def _pointless(wanted: Option, written: str, spot: Spot, direction: str) -> Elsewhere | None:
    """The option has that value already, or the change would go the other way."""
    if wanted.kind == "switch":
        already = spot.key.replace("_", "-") != opposite(wanted)
    else:
        already = spot.value == written or (number(written) is not None and number(spot.value) == number(written))
    if already:
        return Elsewhere(
            Text(
                f"The pod template already says so (`{spot.word.list}`); the pods only have to be started anew.",
                "模板里已经是这个值了；只需要重启 Pod。",
            ),
            "",
        )
    now, new = number(spot.value), number(written)
    if now is None or new is None or direction not in ("lower", "raise") or (new < now) == (direction == "lower"):
        return None
    reason = Text(
        f"The template now says --{spot.key}={spot.value}: setting it to {written} would not {direction} it. It was changed after the pod started; check again.",
        f"模板现在是 --{spot.key}={spot.value}：改成 {written} 与建议方向不符。它在 Pod 启动后被改过，请重新检查。",
    )
    return Elsewhere(reason, "")
