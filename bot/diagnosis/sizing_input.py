"""What a person typed after `--set`: names of settings as vLLM, its command line and its environment write them, and their values. Raises BadInput."""

import re
from collections.abc import Callable, Iterable

from bot.diagnosis.names import Names
from bot.diagnosis.sizing_whatif import KNOBS, KnobValue
from bot.errors import BadInput
from bot.units import GIB, size_of

ALIASES = {
    "device_memory_utilization": "gpu_memory_utilization",
    "kv_cache_memory": "kv_cache_memory_bytes",
    "vllm_memory_profiler_estimate_cudagraphs": "cudagraph_estimate",
    "cpu_offload": "cpu_offload_gb",
    "tp": "tensor_parallel_size",
    "tp_size": "tensor_parallel_size",
    "max_seq_len": "max_model_len",
}
_DECIMAL = {"k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12}
_BINARY = {"K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}
_HUMAN = re.compile(r"(\d{1,15})(\.\d{1,9})?([kmgtKMGT])?$")
_SIZE = re.compile(r"(\d{1,12}(?:\.\d{1,6})?) ?([KMGT]i?B)$", re.IGNORECASE)


def changes(words: Iterable[str]) -> dict[str, KnobValue]:
    """`KNOB=VALUE` words as knobs and typed values, in order; the last of one knob counts."""
    found: dict[str, KnobValue] = {}
    for word in words:
        name, sign, text = word.partition("=")
        if not sign or not name or not text.strip():
            raise BadInput(f"--set takes KNOB=VALUE, like max_model_len=32768, not {word[:80]!r}")
        knob = knob_of(name)
        found[knob] = _VALUES[knob](knob, text.strip()[:60])
    if not found:
        raise BadInput("nothing to change: --set KNOB=VALUE, like --set max_model_len=32768")
    return found


def knob_of(name: str) -> str:
    """The name of a setting in any of its spellings."""
    plain = name.strip().lstrip("-").replace("-", "_").lower()
    knob = ALIASES.get(plain, plain)
    if knob not in KNOBS:
        raise BadInput(f"no setting {name.strip()[:60]!r} that can be computed; one of: {', '.join(KNOBS)}")
    return knob


def human_number(knob: str, text: str) -> int:
    """A whole number as vLLM takes it: 32768, 32k (32,000), 32K (32,768), 25.6k."""
    found = _HUMAN.match(text.replace("_", ""))
    if not found:
        raise BadInput(f"{knob} must be a whole number like 32768, 32k (32,000) or 32K (32,768), not {text!r}")
    whole, part, unit = found.groups()
    if part and unit not in _DECIMAL:
        raise BadInput(f"{knob} must be a whole number; a fraction goes with k, m, g or t only (25.6k), not {text!r}")
    return round(float(whole + (part or "")) * _DECIMAL[unit]) if part else int(whole) * (_DECIMAL | _BINARY).get(unit or "", 1)


def number_of_bytes(knob: str, text: str) -> int:
    """A size: 15032385536, 14G (binary), 14GiB, 15GB."""
    found = _SIZE.match(text)
    return size_of(found[1], found[2]) if found else human_number(knob, text)


def card_bytes(text: str, names: Names) -> int:
    """The size of one card, as a size with its unit or as the name of a card that comes in one size: 79.2GiB, H200, "A100 80GB"."""
    found = _SIZE.match(text.strip())
    size = size_of(found[1], found[2]) if found else names.size_of_card(text)
    if size is None or not GIB <= size <= 2**20 * GIB:
        raise BadInput(f"--card must be what one card has, with its unit, like 79.2GiB, or its full name, like H200 or 'A100 80GB', not {text[:60]!r}")
    return size


def _share(knob: str, text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise BadInput(f"{knob} must be a number like 0.9, not {text!r}") from None


def _flag(knob: str, text: str) -> bool:
    plain = text.lower()
    if plain in ("true", "1", "on", "yes", "enable"):
        return True
    if plain in ("false", "0", "off", "no", "disable"):
        return False
    raise BadInput(f"{knob} must be true or false, not {text!r}")


def _word(knob: str, text: str) -> str:
    return text.lower()


_VALUES: dict[str, Callable[[str, str], KnobValue]] = {
    "gpu_memory_utilization": _share,
    "max_model_len": human_number,
    "kv_cache_memory_bytes": number_of_bytes,
    "kv_cache_dtype": _word,
    "enforce_eager": _flag,
    "cudagraph_estimate": _flag,
    "tensor_parallel_size": human_number,
    "cpu_offload_gb": _share,
    "max_num_seqs": human_number,
    "max_num_batched_tokens": human_number,
}
