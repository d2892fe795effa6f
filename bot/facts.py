"""Facts: the vocabulary of what can be known of an incident, and three-valued access to what is known of this one.

A fact is *known* (it has a value), *absent* (we looked and there was none) or *unknown* (we did not look, or what we
looked at was cut short). Readers give Facts and say which groups of names they looked at; whatever stands in a group
that nobody looked at is unknown.
"""

from collections.abc import Iterable, Iterator
from enum import Enum

from bot.model import Fact, Value

# name -> (type, meaning). Sizes are bytes (names end in _bytes), times seconds (_s). Besides these, the id of every log message is a fact (how often it
# was printed in the incident), and `<message id>.<field>` its typed field (`<field>_bytes` where that is a size). `pod.container.<n>.` and the like are read by Python only.
VOCABULARY: dict[str, tuple[str, str]] = {
    # -- the run of the server that is the incident (bot/diagnosis/log_facts.py)
    "log.looked": ("bool", "a log of the server was read"),
    "log.source": ("text", "the file of the incident"),
    "log.server": ("text", "which server wrote it: vllm, sglang, other"),
    "log.attempts": ("int", "how many starts of the server the file holds"),
    "log.stopped_in": ("text", "the log just stops, without error, shutdown or readiness, in this phase"),
    "log.ended": ("text", "how the run ended by its own log: ready, shutdown, error, stopped"),
    "log.ready": ("bool", "the server answered requests in this run"),
    "log.shutdown": ("bool", "somebody asked the server to stop before anything failed"),
    "log.neighbours": ("int", "other servers that write into the same file"),
    "failure.kind": ("text", "what the root says, by the `kind` of its message"),
    "failure.message": ("text", "id of the root message"),
    "failure.phase": ("text", "phase in which it failed"),
    "failure.basis": ("text", "what the phase rests on: message, stack, follower, marker"),
    "failure.purpose": ("text", "what was being done: weights_creation, repacking, multimodal_encoder, sampler, ..."),
    "failure.after_phase": ("text", "last phase that the run entered before"),
    "failure.rank": ("int", "rank of the first failing process, where it is said"),
    "failure.earlier_kind": ("text", "kind of the root of the attempt before"),
    "failure.detail": ("text", "the exception's own words, for failures that no message describes"),
    "engine.died_silently": ("bool", "processes of the engine are gone, and none of them printed an error"),
    "engine.exit_code": ("int", "exit code of a process of the engine, negative for signals"),
    "engine.version": ("text", "version of the server"),
    "engine.version_minor": ("int", "8 for 0.8.x"),
    "engine.is_v1": ("bool", "the V1 engine"),
    "engine.model": ("text", "the model"),
    "engine.gpu_memory_utilization": ("float", "in force; set, or printed"),
    "engine.utilization_is_set": ("bool", "somebody chose the utilisation"),
    "engine.max_model_len": ("int", "tokens"),
    "engine.max_num_seqs": ("int", "requests at once"),
    "engine.max_num_batched_tokens": ("int", "tokens in one step"),
    "engine.kv_cache_memory_bytes": ("int", "bytes of cache, fixed"),
    "engine.kv_cache_dtype": ("text", "type of the cache's values"),
    "engine.dtype": ("text", "type of the weights"),
    "engine.quantization": ("text", "method"),
    "engine.tensor_parallel_size": ("int", "ranks that share each layer"),
    "engine.pipeline_parallel_size": ("int", "ranks that share the layers"),
    "engine.data_parallel_size": ("int", "copies of the engine"),
    "engine.block_size": ("int", "tokens in a block"),
    "engine.enforce_eager": ("bool", "no CUDA graphs"),
    "engine.chunked_prefill": ("bool", "prefill is cut into chunks"),
    "engine.estimate_cudagraphs": ("bool", "graphs are part of the sum"),
    "engine.cpu_offload_gb": ("float", "GiB of weights in host memory, for each rank"),
    "engine.swap_space": ("float", "GiB of host memory for swapped cache, for each rank"),
    "engine.enable_lora": ("bool", "adapters are in use"),
    "engine.limit_mm_per_prompt": ("text", "limits of media in one request"),
    "engine.speculative": ("bool", "a draft model or method is in use"),
    "engine.enable_sleep_mode": ("bool", "the engine may sleep"),
    "engine.prefix_caching": ("bool", "prefix caching was asked for"),
    "engine.distributed_executor_backend": ("text", "ray, mp, uni"),
    "engine.multimodal": ("bool", "images, video or sound are part of it, as far as is shown"),
    "engine.moe": ("bool", "a mixture of experts, as far as is shown"),
    "engine.ranks": ("int", "cards that one engine uses"),
    "engine.server": ("text", "the program of the command line: vllm, sglang, other"),
    "limits.already_minimal": ("bool", "max_num_seqs, max_num_batched_tokens and max_model_len are as small as they can be"),
    "limits.seqs_minimal": ("bool", "max_num_seqs is 1"),
    # -- the failed allocation (bot/diagnosis/allocation.py)
    "alloc.requested_bytes": ("int", "what was asked for"),
    "alloc.total_bytes": ("int", "the card"),
    "alloc.free_bytes": ("int", "what was free on the card"),
    "alloc.own_bytes": ("int", "what the process held"),
    "alloc.allocated_bytes": ("int", "what PyTorch had given out"),
    "alloc.unallocated_bytes": ("int", "what PyTorch held and had not given out"),
    "alloc.pools_bytes": ("int", "what stood in private pools (graphs, sleep mode)"),
    "alloc.outside_torch_bytes": ("int", "what the process held outside PyTorch"),
    "alloc.others_bytes": ("int", "what other processes held on the card"),
    "alloc.gpu": ("int", "index of the card as the process sees it"),
    "alloc.requested_over_total": ("float", "request over the card's size"),
    "alloc.allocated_share": ("float", "given out over the card's size"),
    "alloc.free_share": ("float", "free over the card's size"),
    "alloc.slack_covers_request": ("bool", "PyTorch held more unused memory than was asked for"),
    "alloc.others_share": ("float", "held by others over the card's size"),
    "alloc.reserved_unallocated_share": ("float", "held and not given out, over the card's size"),
    "alloc.unallocated_over_requested": ("float", "held and not given out, over the request"),
    "alloc.free_exceeds_requested": ("bool", "more was free than was asked for"),
    "alloc.platform": ("text", "CUDA, HIP, XPU, NPU"),
    # -- the cards (nvidia-smi, node readings, log)
    "gpus.count": ("int", "cards listed"),
    "gpus.names": ("text", "names of the cards, one after another"),
    "gpus.differ": ("bool", "names or sizes of the cards differ"),
    "gpus.failing_is_smallest": ("bool", "the failing card is smaller than another one of this server"),
    "gpus.idle_count": ("int", "cards that the server does not use"),
    "device.unified_memory": ("bool", "the card's memory is the host's (GB10, Grace, Jetson, APU)"),
    "device.total_bytes": ("int", "size of the card"),
    # -- the requests near the failure
    "requests.prompt_logprobs": ("bool", "a request near the failure asked for log-probabilities of its prompt"),
    "requests.waiting": ("int", "requests that waited at the last look"),
    "requests.running": ("int", "requests that ran at the last look"),
    "requests.cache_usage": ("float", "percent of the cache in use at the last look"),
    "requests.failed": ("bool", "a request was answered with an internal error"),
    "sleep.freed_bytes": ("int", "what sleep gave back"),
    "sleep.host_bytes": ("int", "what sleep moved into host memory"),
    # -- the budget (bot/diagnosis/budget_facts.py)
    "budget.free_share": ("float", "free at the start over the card's size"),
    "budget.missing_share": ("float", "what the refused request lacks, over the card's size"),
    "budget.weights_share": ("float", "weights over the budget"),
    "budget.estimate_share": ("float", "graph estimate over the card's size"),
    "budget.uncharged_bytes": ("int", "what was charged that neither weights, peak nor estimate explain"),
    "budget.unexplained": ("bool", "weights are small against the budget, yet nothing is left"),
    "budget.utilization_at_end": ("bool", "utilisation is 0.95 or more already"),
    "budget.available_negative": ("bool", "what is left for the cache is below zero"),
}


class Missing(Enum):
    """Why a fact has no value."""

    ABSENT = "absent"
    UNKNOWN = "unknown"


ABSENT, UNKNOWN = Missing.ABSENT, Missing.UNKNOWN


class Facts:
    """The facts of one incident. `looked` holds prefixes of names ("kernel.", "pod.") that were really looked at."""

    def __init__(self, facts: Iterable[Fact] = (), looked: Iterable[str] = ()) -> None:
        self._facts = {fact.name: fact for fact in facts}
        self.looked = frozenset(looked)

    def get(self, name: str) -> Value | Missing:
        fact = self._facts.get(name)
        if fact is not None:
            return fact.value
        return ABSENT if any(name.startswith(prefix) for prefix in self.looked) else UNKNOWN

    def fact(self, name: str) -> Fact | None:
        return self._facts.get(name)

    def __iter__(self) -> Iterator[Fact]:
        return iter(self._facts.values())

    def __contains__(self, name: str) -> bool:
        return name in self._facts

    def with_facts(self, facts: Iterable[Fact], looked: Iterable[str] = ()) -> "Facts":
        """A copy with more; a name that is there already is replaced."""
        return Facts([*self, *facts], self.looked | set(looked))
