"""Reads a container's command, arguments and image as vLLM would: both spellings, abbreviations, the last one wins, human numbers."""

import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from bot.ports import Json

DEFAULT_VERSION = "0.11.0"

_FLAGS = ("enforce-eager", "enable-prefix-caching", "no-enable-prefix-caching", "trust-remote-code", "disable-custom-all-reduce", "enable-lora",
          "disable-log-requests", "disable-log-stats", "enable-chunked-prefill")  # fmt: skip
_VALUES = ("model", "served-model-name", "host", "port", "dtype", "quantization", "kv-cache-dtype", "gpu-memory-utilization", "max-model-len", "max-num-seqs",
           "max-num-batched-tokens", "tensor-parallel-size", "pipeline-parallel-size", "kv-cache-memory-bytes", "cpu-offload-gb", "swap-space",
           "max-cudagraph-capture-size", "block-size", "seed", "limit-mm-per-prompt", "api-key", "download-dir", "load-format", "max-lora-rank",
           "compilation-config", "tokenizer", "chat-template", "uvicorn-log-level", "num-gpu-blocks-override")  # fmt: skip
_SHORT = {"-tp": "tensor-parallel-size", "-pp": "pipeline-parallel-size", "-q": "quantization"}
_HUMAN = re.compile(r"^(\d+(?:\.\d+)?)([kKmMgG]?)$")
_FACTOR = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "K": 2**10, "M": 2**20, "G": 2**30}


class Usage(Exception):
    """The command line is wrong; the message is what argparse prints."""


@dataclass(frozen=True, slots=True)
class Arguments:
    """What is set; None where the server decides. `given` holds what was written, by name with underscores, for the log."""

    model: str = ""
    version: str = DEFAULT_VERSION
    utilization: float | None = None
    max_model_len: int | None = None
    max_num_seqs: int | None = None
    max_num_batched_tokens: int | None = None
    tensor_parallel: int = 1
    kv_cache_bytes: int | None = None
    kv_cache_dtype: str = "auto"
    quantization: str = ""
    capture_size: int | None = None
    cpu_offload_gib: float = 0.0
    eager: bool = False
    estimate_graphs: bool | None = None
    port: int = 8000
    given: Mapping[str, object] = field(default_factory=dict)


def read(container: Json, environment: Mapping[str, str]) -> Arguments:
    """The arguments of a container. Raises Usage for what argparse would refuse."""
    words = [_expand(word, environment) for word in [*(container.get("command") or []), *(container.get("args") or [])]]
    if len(words) >= 2 and words[-2] in ("-c", "-lc", "-ec"):
        words = _shell(words[-1], environment)
    given = _given(words)
    version = _version(str(container.get("image", "")))
    estimate = environment.get("VLLM_MEMORY_PROFILER_ESTIMATE_CUDAGRAPHS")
    return Arguments(
        model=str(given.get("model", "")),
        version=version,
        utilization=_decimal(given, "gpu_memory_utilization"),
        max_model_len=_human(given, "max_model_len"),
        max_num_seqs=_whole(given, "max_num_seqs"),
        max_num_batched_tokens=_human(given, "max_num_batched_tokens"),
        tensor_parallel=_whole(given, "tensor_parallel_size") or 1,
        kv_cache_bytes=_human(given, "kv_cache_memory_bytes"),
        kv_cache_dtype=str(given.get("kv_cache_dtype", "auto")),
        quantization=str(given.get("quantization", "")),
        capture_size=_whole(given, "max_cudagraph_capture_size"),
        cpu_offload_gib=_decimal(given, "cpu_offload_gb") or 0.0,
        eager=bool(given.get("enforce_eager", False)),
        estimate_graphs=None if estimate is None else estimate == "1",
        port=_whole(given, "port") or 8000,
        given=_typed(given),
    )


def _expand(word: str, environment: Mapping[str, str]) -> str:
    """$(NAME), as the kubelet replaces it."""
    return re.sub(r"\$\((\w+)\)", lambda found: environment.get(found[1], found[0]), word)


def _shell(line: str, environment: Mapping[str, str]) -> list[str]:
    line = re.sub(r"\$\{?(\w+)\}?", lambda found: environment.get(found[1], ""), line.replace("\\\n", " "))
    last = re.split(r"&&|;|\n", line.strip())[-1]
    try:
        return shlex.split(last)
    except ValueError as wrong:
        raise Usage(f"sh: 1: Syntax error: {wrong}") from wrong


def _given(words: Sequence[str]) -> dict[str, str | bool]:
    found: dict[str, str | bool] = {}
    rest = list(words)
    if "serve" in rest and (at := rest.index("serve")) + 1 < len(rest) and not rest[at + 1].startswith("-"):
        found["model"] = rest[at + 1]
    while rest:
        word = rest.pop(0)
        if word in _SHORT:
            word = f"--{_SHORT[word]}"
        if not word.startswith("--"):
            continue
        head, equals, value = word[2:].partition("=")
        name = _full(head.replace("_", "-"))
        if name in _FLAGS:
            found[name.replace("-", "_")] = True
        elif equals:
            found[name.replace("-", "_")] = value
        elif not rest or rest[0].startswith("--"):
            raise Usage(f"vllm serve: error: argument --{name}: expected one argument")
        else:
            found[name.replace("-", "_")] = rest.pop(0)
    return found


def _full(name: str) -> str:
    """Argparse takes a unique beginning for the whole."""
    known = (*_FLAGS, *_VALUES)
    if name in known:
        return name
    begun = [each for each in known if each.startswith(name)]
    if len(begun) == 1:
        return begun[0]
    raise Usage(
        f"vllm: error: unrecognized arguments: --{name}"
        if not begun
        else f"vllm serve: error: ambiguous option: --{name} could match {', '.join('--' + each for each in begun)}"
    )


def _whole(given: Mapping[str, str | bool], name: str) -> int | None:
    value = given.get(name)
    try:
        return None if value is None else int(value)
    except ValueError as wrong:
        raise _refused(name, "int", value) from wrong


def _decimal(given: Mapping[str, str | bool], name: str) -> float | None:
    value = given.get(name)
    try:
        return None if value is None else float(value)
    except ValueError as wrong:
        raise _refused(name, "float", value) from wrong


def _refused(name: str, kind: str, value: object) -> Usage:
    return Usage(f"vllm serve: error: argument --{name.replace('_', '-')}: invalid {kind} value: {value!r}")


def _human(given: Mapping[str, str | bool], name: str) -> int | None:
    """`32k` is 32000 and `32K` is 32768."""
    value = given.get(name)
    if value is None:
        return None
    found = _HUMAN.match(str(value))
    if not found:
        raise _refused(name, "human_readable_int", value)
    return int(float(found[1]) * _FACTOR[found[2]])


def _typed(given: Mapping[str, str | bool]) -> dict[str, object]:
    """As vLLM prints them in `non-default args`: numbers as numbers."""
    shown: dict[str, object] = {}
    for name, value in given.items():
        if isinstance(value, str) and re.fullmatch(r"-?\d+", value):
            shown[name] = int(value)
        elif isinstance(value, str) and re.fullmatch(r"-?\d*\.\d+", value):
            shown[name] = float(value)
        else:
            shown[name] = value
    return shown


def _version(image: str) -> str:
    found = re.search(r":v?(\d+\.\d+\.\d+)", image)
    return found[1] if found else DEFAULT_VERSION
