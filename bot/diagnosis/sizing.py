"""The one change that makes a failed inequality hold: how far to turn each knob, what that leads to, or why it cannot work here.

Remedies that are no sizes (restart, another card, a probe) get no answer (None). It decides no order of remedies but that of their cost, and never
proposes a step that the card cannot give.
"""

from collections.abc import Callable, Sequence

from bot.diagnosis.ledger_engine import EngineFacts
from bot.diagnosis.sizing_cache import fp8, lower_length, set_bytes
from bot.diagnosis.sizing_engine import eager, estimate_off, lower_batch, lower_sequences, more_offload, more_ranks
from bot.diagnosis.sizing_utilization import lower_it, raise_it
from bot.diagnosis.sizing_words import Impossible, Sized
from bot.model import Ledger

__all__ = ["Impossible", "Sized", "candidates", "size_for"]

_Sizer = Callable[[Ledger | None, EngineFacts], Sized | Impossible | None]

_SIZERS: dict[tuple[str, str], _Sizer] = {
    ("gpu_memory_utilization", "raise"): raise_it,
    ("gpu_memory_utilization", "lower"): lower_it,
    ("kv_cache_memory_bytes", "set"): set_bytes,
    ("max_model_len", "lower"): lower_length,
    ("kv_cache_dtype", "fp8"): fp8,
    ("max_num_seqs", "lower"): lower_sequences,
    ("max_num_batched_tokens", "lower"): lower_batch,
    ("enforce_eager", "enable"): eager,
    ("cudagraph_estimate", "disable"): estimate_off,
    ("tensor_parallel_size", "raise"): more_ranks,
    ("cpu_offload", "raise"): more_offload,
}


def size_for(remedy: str, direction: str, ledger: Ledger | None, engine: EngineFacts) -> Sized | Impossible | None:
    """The size of one remedy of the vocabulary ("gpu_memory_utilization", "raise"). None: it has no size; recommend it as it is."""
    sizer = _SIZERS.get((remedy, direction))
    return None if sizer is None else sizer(ledger, engine)


def candidates(ledger: Ledger | None, engine: EngineFacts, remedies: Sequence[tuple[str, str]] = tuple(_SIZERS)) -> tuple[Sized, ...]:
    """Every remedy of `remedies` that works alone by the numbers, cheapest for the user first; steps that were not computed come last."""
    found = [sized for remedy, direction in remedies if isinstance(sized := size_for(remedy, direction, ledger, engine), Sized)]
    return tuple(sorted(found, key=lambda sized: (sized.predicted is None, sized.cost)))
