"""Engine options of an LLMInferenceService whose command comes from a preset: they stand in the variable VLLM_ADDITIONAL_ARGS, behind the preset's own.

The variable is read like a shell string that is one simple command; one that holds more is left to people.
"""

from bot.model import Text
from bot.remediation.already import pointless
from bot.remediation.arguments import End, Spot, locate
from bot.remediation.bound import is_clean
from bot.remediation.change import Change, Edit, Elsewhere
from bot.remediation.engine_options import Option
from bot.remediation.pointer import MISSING, get, join
from bot.remediation.shell_words import simple_command
from bot.remediation.workload import Workload

VARIABLE = "VLLM_ADDITIONAL_ARGS"
_ENGINE = "vllm serve model "  # in front of the value, so that it reads as what the preset runs


def change(workload: Workload, option: Option, written: str, direction: str) -> Change | Elsewhere | None:
    """The edit of the variable; None when the value cannot be read, so that it is handed out."""
    entries = workload.container.get("env") or []
    path = workload.container_pointer + join("env")
    at = next((at for at in reversed(range(len(entries))) if entries[at].get("name") == VARIABLE), None)
    if at is None:
        entry = {"name": VARIABLE, "value": _argument(option, written)}
        proof = tuple((f"{path}/{number}/name", one["name"]) for number, one in enumerate(entries))
        edit = Edit(f"{path}/{len(entries)}", MISSING, entry, proof) if entries else Edit(path, get(workload.body, path), [entry])
        return Change((edit,), (_note(),))
    now = entries[at].get("value")
    new = _with(now, option, written, direction) if isinstance(now, str) and is_clean(now) else None
    if new is None or isinstance(new, Elsewhere):
        return new
    return Change((Edit(f"{path}/{at}/value", now, new, ((f"{path}/{at}/name", VARIABLE),)),), (_note(),))


def _with(now: str, option: Option, written: str, direction: str) -> str | Elsewhere | None:
    words = simple_command(_ENGINE + now)
    if words is None:
        return None
    found = locate({"command": [word.text for word in words]}, option)
    if isinstance(found, End):
        return f"{now.rstrip()} {_argument(option, written)}".lstrip()
    if not isinstance(found, Spot):
        return None
    against = pointless(found.key, found.value, written, direction) if option.kind != "switch" else None
    place = words[found.word.at]
    new = f"--{option.name}" if option.kind == "switch" else f"--{found.key}={written}" if found.joined else written
    return against or now[: place.start - len(_ENGINE)] + new + now[place.end - len(_ENGINE) :]


def _argument(option: Option, written: str) -> str:
    return f"--{option.name}={written}" if written else f"--{option.name}"


def _note() -> Text:
    return Text(
        f"The preset of the service puts {VARIABLE} behind its own arguments, and the last one counts.",
        f"预设会把 {VARIABLE} 放在自己的参数之后，以最后一个为准。",
    )
