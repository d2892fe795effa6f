"""Bytes a token: from the lines of the log itself, and only where every layer keeps the whole context.

For hybrid models (sliding window, state space, compressed attention) bytes a token change with the length: the answer is None.
"""

import math
from collections.abc import Mapping

from bot.diagnosis.ledger_engine import EngineFacts
from bot.units import GIB

_SWAP = 4 * GIB  # V0 reserves 4 GiB of host memory a card for swapped blocks, unless told otherwise
_HALF = 0.005 * GIB  # printed with two decimals
_COARSE = 0.5  # requests at once; below it two decimals tell less than one percent
_LARGE_BLOCK = 256  # tokens in the largest block that keeps the whole context on some platform


def is_v0(values: Mapping[str, int | float], engine: EngineFacts) -> bool:
    """Whether the V0 engine printed this: only it counts host blocks."""
    return "cpu_blocks" in values or engine.v0 is True


def plain_attention(values: Mapping[str, int | float], engine: EngineFacts) -> bool | None:
    """True when the lines prove that need grows linearly with the length, False when they or the model's family prove that it does not, else None."""
    if engine.known_hybrid:
        return False
    linear = _linear(values)
    if linear is not None:
        return linear
    if is_v0(values, engine):
        return True
    tokens, length, concurrency = values.get("kv_tokens"), values.get("max_model_len"), values.get("max_concurrency")
    if tokens and length and length > 0 and concurrency is not None:
        if abs(tokens / length - concurrency) > 0.011 + 0.003 * concurrency:
            return False
        if engine.before(20) or engine.hybrid is False:  # later versions print the tokens as concurrency x length: equality proves nothing
            return True
    return True if engine.hybrid is False else None


def _linear(values: Mapping[str, int | float]) -> bool | None:
    """Whether the printed longest length is the one that a linear need gives. Small fixed parts (under 1 %) pass, and so do the tokens that
    whole blocks leave over, of which some platforms have large ones: the printed length is a multiple of the block."""
    needed, available, length, longest = (values.get(name) for name in ("needed", "available", "max_model_len", "estimated_max_len"))
    if not (needed and length and longest and available) or min(needed, length, available) <= 0:
        return None
    expected = available / needed * length
    if expected < 1:  # no length at all
        return None
    slack = (_HALF / available + _HALF / needed + 0.003) * expected
    left_over = min(max(int(longest) & -int(longest), 16), _LARGE_BLOCK)
    return -slack - 16 <= expected - longest <= slack + left_over


def bytes_per_token(values: Mapping[str, int | float], engine: EngineFacts) -> float | None:
    """Bytes of cache a token takes on the ruling rank, from the line with the most digits; None for hybrids and when nothing tells it."""
    if plain_attention(values, engine) is not True:
        return None
    needed, length = values.get("needed"), values.get("max_model_len")
    available, tokens = values.get("available"), values.get("kv_tokens")
    found: list[tuple[float, float]] = []  # relative error, bytes a token
    if needed and length and length > 0:
        found.append((_HALF / needed, needed / _blocks(length, block_size(values, engine))))
    if available and tokens and available > 0 and not values.get("tokens_of_other_rank"):
        found.append((_HALF / available + 8 / tokens, available / tokens))
    if values.get("cpu_blocks", 0) > 0:
        found.append((1 / values["cpu_blocks"], _SWAP / (values["cpu_blocks"] * block_size(values, engine))))
    return min(found)[1] if found else None


def of_one_request(values: Mapping[str, int | float], engine: EngineFacts) -> float | None:
    """Bytes of cache that a request of the present length takes, of any kind of model: the server divides the cache by them and prints how often they go.
    None where the cache it divided is not the one that was measured, or too few digits tell it."""
    available, concurrency = values.get("available"), values.get("max_concurrency")
    if not available or available <= 0 or not concurrency or concurrency < _COARSE or not values.get("max_model_len"):
        return None
    if engine.kv_cache_memory_bytes or values.keys() & {"kv_fixed", "blocks_override", "tokens_of_other_rank"}:
        return None
    return available / concurrency


def block_size(values: Mapping[str, int | float], engine: EngineFacts) -> int:
    """Tokens in a block: as set or printed, else as blocks and concurrency tell it (platforms have defaults of their own), else 16."""
    size = int(engine.block_size or values.get("block_size") or _told_block(values) or 16)
    return size if 0 < size <= 65536 else 16


def _told_block(values: Mapping[str, int | float]) -> int | None:
    """V0 prints concurrency = blocks x block / length with two decimals; None where no power of two gives it."""
    blocks, length, concurrency = values.get("blocks"), values.get("max_model_len"), values.get("max_concurrency")
    if not blocks or not length or not concurrency or min(blocks, length, concurrency) <= 0:
        return None
    told = concurrency * length / blocks
    size = 2 ** round(math.log2(told)) if 1 <= told <= 65536 else 0
    return size if size and abs(told - size) <= size * (0.0051 / concurrency + 0.001) else None


def _blocks(length: float, block: int) -> int:
    return math.ceil(length / block) * block
