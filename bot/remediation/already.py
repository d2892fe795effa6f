"""Why a value is not written: it stands there already, or it would move the option the other way than was recommended. Pure."""

from bot.model import Text
from bot.remediation.change import Elsewhere
from bot.remediation.engine_options import number

SAID = Text("The pod template already says so; the pods only have to be started anew.", "模板里已经是这个值了；只需要重启 Pod。")


def pointless(key: str, now: str, written: str, direction: str) -> Elsewhere | None:
    """`key` as it is written, `now` its value, `written` the wanted one; None when the change makes sense."""
    if now == written or (number(written) is not None and number(now) == number(written)):
        return Elsewhere(SAID, "")
    old, new = number(now), number(written)
    if old is None or new is None or direction not in ("lower", "raise") or (new < old) == (direction == "lower"):
        return None
    reason = Text(
        f"The template now says --{key}={now}: setting it to {written} would not {direction} it. It was changed after the pod started; check again.",
        f"模板现在是 --{key}={now}：改成 {written} 与建议方向不符。它在 Pod 启动后被改过，请重新检查。",
    )
    return Elsewhere(reason, "")
