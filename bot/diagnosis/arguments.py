"""The options of a server as its own log prints them, as facts `engine.*`: the arguments that differ from the defaults, the whole namespace of older
releases, and the engine's configuration line. Values are read one by one, since the set changes with nearly every release.
"""

import re

from bot.logs.events import Event
from bot.model import Fact, Value

# printed name -> (fact, type)
OPTIONS: dict[str, tuple[str, str]] = {
    "gpu_memory_utilization": ("gpu_memory_utilization", "float"),
    "max_model_len": ("max_model_len", "int"),
    "max_num_seqs": ("max_num_seqs", "int"),
    "max_num_batched_tokens": ("max_num_batched_tokens", "int"),
    "kv_cache_memory_bytes": ("kv_cache_memory_bytes", "int"),
    "kv_cache_dtype": ("kv_cache_dtype", "text"),
    "dtype": ("dtype", "text"),
    "quantization": ("quantization", "text"),
    "tensor_parallel_size": ("tensor_parallel_size", "int"),
    "pipeline_parallel_size": ("pipeline_parallel_size", "int"),
    "data_parallel_size": ("data_parallel_size", "int"),
    "block_size": ("block_size", "int"),
    "enforce_eager": ("enforce_eager", "bool"),
    "enable_chunked_prefill": ("chunked_prefill", "bool"),
    "cpu_offload_gb": ("cpu_offload_gb", "float"),
    "swap_space": ("swap_space", "float"),
    "enable_lora": ("enable_lora", "bool"),
    "limit_mm_per_prompt": ("limit_mm_per_prompt", "text"),
    "speculative_config": ("speculative_config", "text"),
    "speculative_model": ("speculative_config", "text"),
    "enable_sleep_mode": ("enable_sleep_mode", "bool"),
    "enable_prefix_caching": ("prefix_caching", "bool"),
    "distributed_executor_backend": ("distributed_executor_backend", "text"),
    "model": ("model", "text"),
    "max_seq_len": ("max_model_len", "int"),
    "mem_fraction_static": ("gpu_memory_utilization", "float"),  # SGLang's words
    "tp_size": ("tensor_parallel_size", "int"),
    "context_length": ("max_model_len", "int"),
    "max_running_requests": ("max_num_seqs", "int"),
    "chunked_prefill_size": ("max_num_batched_tokens", "int"),
    "speculative_algorithm": ("speculative_config", "text"),
    "disable_cuda_graph": ("enforce_eager", "bool"),
}
_PAIR = re.compile(
    r"""['"]?\b([a-z_]{3,40})['"]?\s{0,2}[=:]\s{0,2}(?:'([^']{0,200})'|"([^"]{0,200})"|(\{[^{}]{0,300}\}|[\w./+-]{1,120}(?![\w./+-]|=)))"""
)  # "config: model='m'" is no option named config
_WHOLE = "args: {"


def _value(kind: str, text: str) -> Value | None:
    if text in ("None", "none", "", "null"):
        return None
    if kind == "bool":
        return {"true": True, "false": False}.get(text.lower())
    if kind == "text":
        return text.removeprefix("torch.")
    try:
        return float(text) if kind == "float" else int(text) if len(text) < 19 else None
    except ValueError:
        return None


def facts_of(event: Event) -> list[Fact]:
    """The facts of one printed line of arguments or configuration."""
    found: dict[str, Fact] = {}
    text = event.text[:8192]
    begin = text.find(_WHOLE) + len(_WHOLE) if _WHOLE in text else 0  # else the whole dictionary would be read as the value of an option "args"
    for match in _PAIR.finditer(text, begin):
        name, value_text = match[1], match[2] or match[3] or match[4] or ""
        if name not in OPTIONS:
            continue
        fact, kind = OPTIONS[name]
        value = _value(kind, value_text)
        if value is not None and f"engine.{fact}" not in found:
            found[f"engine.{fact}"] = Fact(f"engine.{fact}", value, event.place)
    return list(found.values())
