"""Which engine options the bot may write, and the range that a value must lie in before it reaches a patch.

The ranges are the last fence: whatever computed the value, nothing outside them is written. Options of vLLM 0.6 to 0.33.
"""

import re
from dataclasses import dataclass
from typing import Any

from bot.errors import BadInput
from bot.servers import Server

_HUMAN = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12, "K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}
_NUMBER = re.compile(r"(-?\d{1,15}(?:\.\d{1,15})?)([kmgtKMGT]?)$")


@dataclass(frozen=True, slots=True)
class Option:
    """`kind`: fraction | count | word | switch. `low` and `high` are inclusive. `also`: other spellings, where it is an option of another server."""

    name: str
    kind: str
    low: float = 0
    high: float = 0
    words: tuple[str, ...] = ()
    also: tuple[str, ...] = ()
    server: Server | None = None  # None: the engine that the ranges above are of

    def written(self, value: Any) -> str:
        """The value as it is written on a command line ("" for a switch). Raises BadInput outside the range."""
        if self.kind == "switch":
            return ""
        if self.kind == "word":
            if value not in self.words:
                raise BadInput(f"--{self.name} may be one of {', '.join(self.words)}")
            return str(value)
        if isinstance(value, bool) or not isinstance(value, int | float) or not self.low <= value <= self.high:
            raise BadInput(f"--{self.name} must be a number from {self.low:g} to {self.high:g}, not {str(value)[:40]!r}")
        if self.kind == "count":
            if value != int(value):
                raise BadInput(f"--{self.name} must be a whole number, not {value}")
            return str(int(value))
        return f"{value:.4f}".rstrip("0").rstrip(".")


OPTIONS = {  # of vLLM; those of other servers stand in playbooks/servers, and no range there reaches beyond these
    option.name: option
    for option in (
        Option("gpu-memory-utilization", "fraction", 0.05, 0.99),
        Option("kv-cache-memory-bytes", "count", 2**20, 2**41),
        Option("max-model-len", "count", 16, 20_000_000),
        Option("max-num-seqs", "count", 1, 8192),
        Option("max-num-batched-tokens", "count", 16, 4_194_304),
        Option("max-logprobs", "count", 0, 1000),
        Option("swap-space", "fraction", 0, 1024),
        Option("cpu-offload-gb", "fraction", 0, 2048),
        Option("kv-cache-dtype", "word", words=("auto", "fp8", "fp8_e4m3", "fp8_e5m2")),
        Option("enforce-eager", "switch"),
        Option("disable-custom-all-reduce", "switch"),
        Option("no-enable-prefix-caching", "switch"),
    )
}

# Other options whose names begin like one of ours: argparse refuses an abbreviation that fits two, so it must not be taken for ours.
NEIGHBOURS = (
    "max-num-partial-prefills", "max-long-partial-prefills", "max-loras", "max-lora-rank", "max-cpu-loras", "max-parallel-loading-workers",
    "max-seq-len-to-capture", "max-log-len", "max-num-scheduled-tokens", "kv-transfer-config", "kv-events-config", "kv-offloading-size", "kv-offloading-backend",
    "kv-sharing-fast-prefill", "kv-cache-metrics", "kv-cache-metrics-sample", "cpu-offload-params", "disable-log-requests", "disable-log-stats",
    "disable-sliding-window", "disable-cascade-attn", "disable-async-output-proc", "disable-fastapi-docs", "disable-frontend-multiprocessing",
    "disable-chunked-mm-input", "disable-hybrid-kv-cache-manager", "disable-uvicorn-access-log", "no-enable-chunked-prefill", "no-enable-expert-parallel",
    "no-enable-log-requests",
)  # fmt: skip


def option(name: str) -> Option:
    """The option of that name. Raises BadInput when the bot does not write it."""
    if name not in OPTIONS:
        raise BadInput(f"--{name} is not an option that is set by the bot; it sets {', '.join(sorted(OPTIONS))}")
    return OPTIONS[name]


def opposite(option: Option) -> str:
    """The name that switches a switch the other way."""
    return option.name.removeprefix("no-") if option.name.startswith("no-") else f"no-{option.name}"


def means(written: str, wanted: Option) -> bool | None:
    """Whether an option as written (without dashes in front and without value) is the wanted one: None when its abbreviation fits several."""
    key = written.replace("_", "-")
    if wanted.server is not None:  # its other options are not known: what could be an abbreviation is not taken for anything
        spelled = {name.replace("_", "-") for name in (wanted.name, *wanted.also)}
        return True if key in spelled else None if len(key) >= 3 and any(name.startswith(key) for name in spelled) else False
    names = {wanted.name, opposite(wanted)} if wanted.kind == "switch" else {wanted.name}
    if key in names:
        return True
    fitting = {name for name in (*OPTIONS, *NEIGHBOURS) if name.startswith(key)}
    if len(key) < 3 or wanted.name not in fitting or key in OPTIONS or key in NEIGHBOURS:
        return False
    return True if fitting == {wanted.name} else None


def number(text: str) -> float | None:
    """A number as the engine reads it ("0.9", "32k" = 32000, "32K" = 32768); None when it is none."""
    found = _NUMBER.match(text.strip())
    return float(found[1]) * _HUMAN[found[2]] if found else None
