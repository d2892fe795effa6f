"""Which server a workload runs, and that server's option for one of the engine's: so that no server is given an option that it does not have.

The names are data (`playbooks/servers`). What may be written stays bounded by `engine_options`: a file can narrow a range and not widen it.
"""

import functools
from pathlib import Path
from typing import Any

import yaml

from bot import servers
from bot.model import Text
from bot.remediation.arguments import words
from bot.remediation.change import Elsewhere
from bot.remediation.engine_options import Option, option
from bot.remediation.workload import Workload
from bot.servers import Server


@functools.cache
def known() -> tuple[Server, ...]:
    """Every server under `playbooks/servers`, whose shapes the start has checked."""
    folder = Path(__file__).resolve().parents[2] / "playbooks" / "servers"
    return tuple(servers.made(yaml.safe_load(path.read_text(encoding="utf-8")), path.stem) for path in sorted(folder.glob("*.yaml")))


def of(workload: Workload) -> Server | None:
    """The server that the workload's container starts; None when nothing tells."""
    container = workload.container
    image = " ".join(str(part) for part in (container.get("image", ""), container.get("runtime", ""), (container.get("modelFormat") or {}).get("name", "")) if part)
    return servers.of_container([word.text for word in words(container)], image, known())


def option_for(workload: Workload, argument: str, computed_for: str = "") -> Option | Elsewhere:
    """The option to write for `argument` ("gpu-memory-utilization"), or why none is written.

    `computed_for`: the option that the value was computed for ("--mem-fraction-static"), "" where there is no such value. Raises BadInput for an unknown argument.
    """
    wanted, everyone = option(argument), known()
    meant = servers.assumed(everyone)
    knob = next((knob for knob, one in (meant.options if meant else {}).items() if one.option == f"--{argument}"), "")
    running = of(workload) or next((one for one in everyone if computed_for and one.option_for(knob) == computed_for), None)
    if running is None or running.assumed:
        return wanted if computed_for in ("", f"--{argument}") else _other(workload, running or meant, computed_for)
    if knob not in running.options:
        return _none(workload, running, argument)
    if computed_for not in ("", running.options[knob].option):
        return _other(workload, running, computed_for)
    return _narrowed(wanted, running, knob)


def _narrowed(wanted: Option, running: Server, knob: str) -> Option:
    one = running.options[knob]
    low, high = (max(wanted.low, one.low), min(wanted.high, one.high)) if wanted.kind == one.kind else (one.low, one.high)
    return Option(one.option.removeprefix("--"), one.kind, low, high, (one.to,) if one.to else (), one.names, running)


def ignored(workload: Workload, variable: str) -> Elsewhere | None:
    """Why a variable that only the engine reads ("VLLM_...") is not set where another server runs."""
    running, meant = of(workload), servers.assumed(known())
    if running is None or meant is None or running.assumed or not variable.startswith(f"{meant.name.upper()}_"):
        return None
    return Elsewhere(
        Text(
            f"{workload.ref} runs {running.name}, which does not read {variable}; nothing is written.",
            f"{workload.ref} 运行的是 {running.name}，不读取 {variable}；不做修改。",
        ),
        "",
    )


def value_for(wanted: Option, value: Any) -> Any:
    """The recipe's literal in the words of the option's server: "fp8" is "fp8_e5m2" where that is what it is called."""
    return wanted.words[0] if wanted.server is not None and wanted.kind == "word" else value


def _none(workload: Workload, running: Server, argument: str) -> Elsewhere:
    return Elsewhere(
        Text(
            f"{workload.ref} runs {running.name}, which has no option like --{argument}; nothing is written.",
            f"{workload.ref} 运行的是 {running.name}，没有与 --{argument} 相当的选项；不做修改。",
        ),
        "",
    )


def _other(workload: Workload, running: Server | None, computed_for: str) -> Elsewhere:
    name = running.name if running else "another server"
    return Elsewhere(
        Text(
            f"The value was computed for {computed_for}, and {workload.ref} runs {name}, which reads it otherwise; nothing is written.",
            f"数值是按 {computed_for} 计算的，而 {workload.ref} 运行的是 {name}，含义不同；不做修改。",
        ),
        "",
    )
