"""`args.txt`: the command line of a vLLM server (or one like it) as a person, a pod or a manifest has it. Words in, `args.<name>` out.

Understands what vLLM's own parser does: `_` for `-` in names, `=` or a blank, unambiguous abbreviations, the last one wins,
sizes like 32k (decimal) and 32K (binary), `--no-x`; besides, command lines inside a shell string, JSON lists and YAML `args:`
and `env:` blocks. Expands no variables and runs nothing.
"""

import re
import shlex
from dataclasses import dataclass

from bot.evidence import run_flags
from bot.evidence.document import shorten
from bot.evidence.reading import Reading
from bot.model import Fact, Gap, Place, Value

MAX_BYTES = 256 * 2**10
MAX_WORDS = 5_000

_FLOAT = ("gpu_memory_utilization", "cpu_offload_gb", "swap_space", "kv_offloading_size")
_HUMAN = ("max_model_len", "max_num_batched_tokens", "kv_cache_memory_bytes", "long_prefill_token_threshold")
_INTEGER = (
    "tensor_parallel_size", "pipeline_parallel_size", "data_parallel_size", "data_parallel_size_local", "max_num_seqs", "block_size", "max_logprobs", "max_loras",
    "max_lora_rank", "max_cpu_loras", "num_gpu_blocks_override", "num_speculative_tokens", "port", "max_parallel_loading_workers", "context_length", "max_total_tokens",
    "max_running_requests", "chunked_prefill_size", "nnodes", "node_rank", "decode_context_parallel_size", "max_seq_len_to_capture", "num_scheduler_steps",
    "api_server_count", "mm_processor_cache_gb", "speculative_draft_tensor_parallel_size", "shutdown_timeout",
)  # fmt: skip
_WORD = (
    "model", "dtype", "quantization", "kv_cache_dtype", "load_format", "safetensors_load_strategy", "distributed_executor_backend", "attention_backend", "limit_mm_per_prompt",
    "speculative_config", "speculative_model", "compilation_config", "kv_transfer_config", "cudagraph_capture_sizes", "tokenizer", "served_model_name", "host", "download_dir",
    "task", "runner", "convert", "hf_overrides", "rope_scaling", "cuda_graph_sizes", "model_loader_extra_config", "lora_modules", "optimization_level", "config", "device",
    "mm_encoder_tp_mode", "all2all_backend", "moe_backend", "mem_fraction_static", "tokenizer_mode", "revision", "mamba_cache_dtype", "kv_offloading_backend",
    "data_parallel_address", "data_parallel_backend",
)  # fmt: skip
_SWITCH = (
    "enforce_eager", "enable_prefix_caching", "enable_chunked_prefill", "enable_sleep_mode", "enable_lora", "disable_custom_all_reduce", "trust_remote_code", "headless",
    "enable_expert_parallel", "disable_log_requests", "language_model_only", "enable_auto_tool_choice", "async_scheduling", "disable_log_stats", "fully_sharded_loras",
    "enable_dbo", "enable_eplb", "skip_mm_profiling", "use_v2_block_manager", "calculate_kv_scales", "enable_multimodal", "data_parallel_hybrid_lb",
)  # fmt: skip
_ELSEWHERE = (  # options of other servers, known by their whole names only
    "cache_max_entry_count", "session_len", "max_batch_size", "max_prefill_token_num", "kv_cache_free_gpu_memory_fraction", "free_gpu_memory_fraction", "max_num_tokens",
    "cuda_memory_fraction", "max_batch_prefill_tokens", "max_concurrent_requests", "num_shard", "ctx_size", "parallel", "ubatch_size", "quant_policy",
)  # fmt: skip
_SUBCOMMANDS = ("serve", "api_server")
_ELSEWHERE_SWITCH = ("disable_cuda_graph", "disable_radix_cache")
_KNOWN = (*_FLOAT, *_HUMAN, *_INTEGER, *_WORD, *_SWITCH)
_SAME = {"tp": "tensor_parallel_size", "tp_size": "tensor_parallel_size", "pp": "pipeline_parallel_size", "pp_size": "pipeline_parallel_size", "dp": "data_parallel_size",
         "dp_size": "data_parallel_size", "q": "quantization", "O": "optimization_level", "cc": "compilation_config", "tensor_parallel": "tensor_parallel_size",
         "model_path": "model", "vllm_gpu_memory_utilization": "gpu_memory_utilization", "mem_fraction": "mem_fraction_static", "max_seq_len": "max_model_len",
         "kv_cache_memory": "kv_cache_memory_bytes", "asc": "async_scheduling", "ep": "enable_expert_parallel", "c": "ctx_size", "np": "parallel", "ub": "ubatch_size", "n": "nnodes", "r": "node_rank", "vllm_enable_sleep": "enable_sleep_mode"}  # fmt: skip
_DECIMAL = {"k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12}
_BINARY = {"K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}
_ENV = re.compile(r"^(?:export\s+|-e\s+|-\s*)?([A-Z][A-Z0-9_]{3,60})=(\S{0,400})$")
_YAML_ENV = re.compile(r"^\s*-?\s*name:\s*[\"']?([A-Z][A-Z0-9_]{2,60})[\"']?\s*$")
_YAML_VALUE = re.compile(r"^\s*value:\s*[\"']?(.{0,400}?)[\"']?\s*$")
_AS_VARIABLE = (
    "gpu_memory_utilization", "max_model_len", "max_num_seqs", "max_num_batched_tokens", "tensor_parallel_size", "pipeline_parallel_size", "data_parallel_size",
    "kv_cache_dtype", "kv_cache_memory_bytes", "dtype", "quantization", "enforce_eager", "enable_prefix_caching", "cpu_offload_gb", "swap_space", "block_size",
)  # fmt: skip
_ENVIRONMENT = re.compile(
    rf"^(?:VLLM|PYTORCH|NCCL|CUDA|RAY|HF|TORCH|GLOO|OMP|LMCACHE|SGLANG|TRITON|HIP|ROCR|MAX_JOBS|(?:{'|'.join(_AS_VARIABLE).upper()})$)"
)


@dataclass(frozen=True, slots=True)
class _Word:
    text: str
    line: int


def read(data: bytes, source: str) -> Reading:
    """Facts of the last server command in the file: `args.<name>`, `env.<NAME>`, `args.command`: all its words."""
    text = data[:MAX_BYTES].decode("utf-8", errors="replace")
    lines = text.split("\n")
    facts: dict[str, Fact] = {}
    words = _words(lines)
    for word, name, value in _options(words):
        fact = _typed(name, value)
        if fact is not None:
            place = Place(source, word.line, shorten(lines[word.line - 1]))
            facts[f"args.{name}"] = Fact(f"args.{name}", fact, place)
    for name, value, line in _environment(lines, words):
        variable, *option = _of_variable(name, value, Place(source, line, shorten(lines[line - 1])))
        facts[variable.name] = variable
        for asked in option:
            facts.setdefault(asked.name, asked)
    if not text.strip():
        return Reading(gaps=(Gap(source, "empty", "the server's arguments"),))
    facts |= {fact.name: fact for fact in run_flags.facts(lines, source)}
    command = _command(words)
    if command:
        facts["args.command"] = Fact("args.command", command, Place(source, words[0].line, shorten(lines[words[0].line - 1])))
    return Reading(tuple(facts.values()), ("args.", "env."))


def _command(words: list[_Word]) -> str:
    """The words of the command line, without variables that are set in front of it."""
    return " ".join(word.text[:400] for word in words[:200] if not _ENV.match(word.text))[:4000]


def from_words(words: str, source: str, place: Place) -> tuple[Fact, ...]:
    """The same facts from the words of a container in a pod, all with the pod's place."""
    return tuple(Fact(fact.name, fact.value, place) for fact in read(words.encode(), source).facts)


def from_environment(pairs: tuple[str, ...], place: Place) -> tuple[Fact, ...]:
    """`env.<NAME>` of a container's environment ("NAME=value"), as far as it concerns the server."""
    split = (pair.partition("=") for pair in pairs)
    return tuple(fact for name, _, value in split if value and _ENVIRONMENT.match(name) for fact in _of_variable(name, value, place))


def _of_variable(name: str, value: str, place: Place) -> list[Fact]:
    """`env.<NAME>`, and the option that a variable of the option's own name sets (images that start the server by themselves read such; what stands on the
    command line is stronger)."""
    found = [Fact(f"env.{name}", value, place)]
    option = name.removeprefix("VLLM_").lower()
    if option in _AS_VARIABLE:
        typed = value.strip().lower() in ("1", "true", "yes") if option in _SWITCH else _typed(option, value)
        found += [Fact(f"args.{option}", typed, place)] if typed is not None else []
    return found


def _words(lines: list[str]) -> list[_Word]:
    """The words of all lines; quotes kept together where they close, JSON and YAML list marks taken off, shell strings opened."""
    found: list[_Word] = []
    for number, line in enumerate(lines, 1):
        if line.lstrip().startswith("#"):
            continue
        bare = re.sub(r"^\s*-\s+(?=[\"'-]|\S+$)", "", line.rstrip("\\ \r"))
        for part in _split(bare):
            inner = part.strip(",")
            if re.search(r"\s--?\w", inner) and not inner.lstrip().startswith(("{", "[")):
                found += [_Word(word, number) for word in _split(inner)]
            else:
                found.append(_Word(inner, number))
            if len(found) > MAX_WORDS:
                return found
    return found


def _split(line: str) -> list[str]:
    line = line[:20_000].strip()
    if re.match(r'(?:(?:-\s*)?(?:args|command)\s*:\s*)?\[\s*"', line):  # a JSON list of words
        return re.findall(r'"((?:[^"\\]|\\.)*)"', line)
    try:
        return shlex.split(line, comments=False)
    except ValueError:  # a quote that does not close: a shell string over several lines
        return line.replace('"', " ").replace("'", " ").split()


def _options(words: list[_Word]) -> list[tuple[_Word, str, str | None]]:
    """(word, name of the vocabulary, value) of each known option, in order; None for a switch without a value."""
    found: list[tuple[_Word, str, str | None]] = []
    model = _positional(words)
    if model is not None:
        found.append((model, "model", model.text))
    for index, word in enumerate(words):
        option = re.match(r"^--?([A-Za-z][\w.-]{0,80}\+?)(?:=(.*))?$", word.text, re.DOTALL)
        if not option:
            continue
        key, value = option[1].replace("-", "_"), option[2]
        negative = key.startswith("no_")
        name = _name(key.removeprefix("no_") if negative else key, word.text.startswith("--"))
        if not name:
            continue
        if name in _SWITCH or name in _ELSEWHERE_SWITCH:
            found.append((word, name, "false" if negative or (value or "").lower() == "false" else "true"))
        elif value is not None:
            found.append((word, name, value))
        elif index + 1 < len(words) and not re.match(r"--?[A-Za-z]", words[index + 1].text):
            found.append((word, name, words[index + 1].text))
    return found


def _positional(words: list[_Word]) -> _Word | None:
    """The model that stands without an option: behind `serve` (vLLM), `serve api_server` (LMDeploy), `trtllm-serve` (TensorRT-LLM)."""
    serve = next((i for i, word in enumerate(words) if word.text == "serve" or word.text.endswith("trtllm-serve")), None)
    behind = [word for word in words[serve + 1 : serve + 3] if word.text not in _SUBCOMMANDS][:1] if serve is not None else []
    return behind[0] if behind and not behind[0].text.startswith("-") else None


def _name(key: str, long: bool) -> str:
    """The option that a name or an abbreviation means; "" for none or several. Dotted names mean what stands before the dot."""
    key = key.split(".")[0].rstrip("+")
    if key in _SAME:
        return _SAME[key]
    if not long:
        return "optimization_level" if re.fullmatch(r"O\d?", key) else ""
    if key in _KNOWN or key in _ELSEWHERE or key in _ELSEWHERE_SWITCH:
        return key
    candidates = [name for name in _KNOWN if name.startswith(key)] if len(key) >= 5 else []
    return candidates[0] if len(candidates) == 1 else ""


def human(text: str) -> int | None:
    """A size as vLLM reads it: 32k is 32000, 32K is 32768, 25.6k is 25600; a binary suffix takes whole numbers only."""
    found = re.fullmatch(r"(\d{1,18})(\.\d{1,9})?([kKmMgGtT])?", text.strip())
    if not found:
        return None
    factor = _DECIMAL.get(found[3] or "") or _BINARY.get(found[3] or "") or 1
    if found[2] and (found[3] or "").isupper():
        return None
    return round(float(found[1] + found[2]) * factor) if found[2] else int(found[1]) * factor


def _typed(name: str, value: str | None) -> Value | None:
    if value is None:
        return None
    value = value.strip().strip("'\"")
    if name in _SWITCH or name in _ELSEWHERE_SWITCH:
        return value == "true"
    if name in _FLOAT:
        return float(value) if re.fullmatch(r"\d{0,6}\.?\d{1,12}", value) else None
    if name in _HUMAN:
        return human(value)
    if name in _INTEGER or (name in _ELSEWHERE and "." not in value):
        return int(value) if re.fullmatch(r"-?\d{1,12}", value) else None
    return value[:400] or None


def _environment(lines: list[str], words: list[_Word]) -> list[tuple[str, str, int]]:
    """(name, value, line) of the variables that matter to a server, from `NAME=value` words and YAML `env:` entries."""
    found = []
    for word in words:
        pair = _ENV.match(word.text)
        if pair and _ENVIRONMENT.match(pair[1]):
            found.append((pair[1], pair[2].strip("'\""), word.line))
    for number, line in enumerate(lines[:-1], 1):
        name = _YAML_ENV.match(line[:500])
        value = _YAML_VALUE.match(lines[number][:500]) if name else None
        if name and value and _ENVIRONMENT.match(name[1]):
            found.append((name[1], value[1], number + 1))
    return found
