"""Does the sum close? The rules of all versions, tried against what was printed, since one version may follow two of them.

    0.6.4                 total x utilisation - PyTorch at the peak (weights inside) - non-torch (of all processes)
    V0 and 0.9 to 0.19    budget - weights - activations - non-torch
    from 0.20             ... - the estimate of CUDA graphs (never what they really took); some builds leave it out
    from 0.27             budget - consumed (weights and non-torch together) - activations

Pure arithmetic on bytes; the words are for people.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from bot.diagnosis.ledger_engine import EngineFacts
from bot.model import Text
from bot.units import GIB, show

CLOSES = round(0.0225 * GIB)  # four terms of two decimals
_HUGE_ESTIMATE = 12 * GIB


@dataclass(frozen=True, slots=True)
class Closure:
    """`residual`: bytes of the computed less the printed cache; None when a term is missing. `estimate_in_sum`: by what closes, else by version."""

    residual: int | None
    estimate_in_sum: bool | None
    notes: tuple[Text, ...] = ()


def rest_before_estimate(values: Mapping[str, int | float]) -> int | None:
    """The budget less what is not cache, before any graph estimate; None when a term is missing."""
    used = values["consumed"] if "consumed" in values else _add(values, "weights", "non_torch")
    if used is None or "requested" not in values or "activation" not in values:
        return None
    return round(values["requested"] - used - values["activation"] - values.get("mm_reserve", 0))


def share_in_force(values: Mapping[str, int | float], engine: EngineFacts) -> float | None:
    """The utilisation that nobody stated: what the whole sum is of the card, else the default of the version; None where the sum refutes the default.

    A graph estimate that may hide in the sum makes it too small: then only a multiple of 0.05, as people set it, is believed.
    """
    default, total = engine.default_utilization, values.get("total")
    used = values["consumed"] if "consumed" in values else _add(values, "weights", "non_torch")
    if total is None or total < 15 * GIB:
        return default
    in_sum, estimate = expected_in_sum(values, engine), values.get("cudagraph_estimate")
    if used is not None and "activation" in values and "available" in values:
        spent = used + values["activation"] + values["available"] + values.get("mm_reserve", 0) + (estimate or 0 if in_sum else 0)
        grain = 0.01 if in_sum is False or estimate is not None else 0.05
        share = round(round(spent / total / grain) * grain, 2)
        if 0 < share <= 1 and abs(spent - share * total) <= CLOSES:
            return share
    return None if default is not None and refuted(default, least_share(total, values.get("weights"), values.get("available"))) else default


def least_share(total: float | None, weights: float | None, available: float | None) -> float | None:
    """What weights and cache alone are of the card: the budget held at least both. None where one of them was not printed or nothing was left."""
    return (weights + available) / total if total and weights and available and available > 0 else None


def refuted(share: float, least: float | None) -> bool:
    """Whether a budget of this share cannot have held what it did hold; roundings of the printed terms do not count."""
    return least is not None and least > share + 0.005


def _add(values: Mapping[str, int | float], *names: str) -> int | float | None:
    return sum(values[name] for name in names) if all(name in values for name in names) else None


def expected_in_sum(values: Mapping[str, int | float], engine: EngineFacts) -> bool | None:
    """Whether this version takes the estimate off the budget, by its own line, the variable or the version; None when none of them is known."""
    if "utilization_without_estimate" in values:
        return True
    if "utilization_to_keep" in values:
        return False
    if engine.enforce_eager:
        return False
    if engine.estimate_cudagraphs is not None:
        return engine.estimate_cudagraphs and engine.at_least(18) is not False
    return engine.at_least(20)


def close(values: Mapping[str, int | float], engine: EngineFacts) -> Closure:
    """Tries the sums that can hold and says which does, or by how much none does."""
    expected = expected_in_sum(values, engine)
    before, available, estimate = rest_before_estimate(values), values.get("available"), values.get("cudagraph_estimate")
    if before is None or available is None:
        return Closure(None, expected)
    plain = round(before - available)
    if estimate is None:
        return Closure(plain, expected if abs(plain) > CLOSES else (expected if expected is False else None), _odd(plain, values, expected))
    taken = round(plain - estimate)
    in_sum = abs(taken) < abs(plain) if abs(abs(taken) - abs(plain)) > CLOSES else bool(expected)
    residual = taken if in_sum else plain
    notes = list(_odd(residual, values, False))
    if expected is not None and in_sum != expected and abs(residual) <= CLOSES and estimate > CLOSES:
        notes.append(_other_rule(in_sum, estimate))
    return Closure(residual, in_sum, tuple(notes))


def _other_rule(in_sum: bool, estimate: float) -> Text:
    size = show(estimate)
    if in_sum:
        return Text(f"The sum closes only with the estimate of CUDA graphs ({size}) taken off.", f"只有扣除 CUDA graph 预估（{size}）后，账目才能对上。")
    return Text(
        f"The sum closes without the estimate of CUDA graphs ({size}): this build does not take it off, so graphs need room beyond the budget.",
        f"不扣除 CUDA graph 预估（{size}）时账目才对上：此版本没有扣除它，因此 graph 需要预算之外的显存。",
    )


def _odd(residual: int, values: Mapping[str, int | float], estimate_expected: bool | None) -> tuple[Text, ...]:
    """What a residual means: another utilisation than stated, an estimate that was not printed, or simply that the terms do not add up."""
    if abs(residual) <= CLOSES:
        return ()
    real = utilization_in_force(residual, values) if residual < 0 or estimate_expected is False else None
    if real is not None:
        stated = values["utilization"]
        return (
            Text(
                f"The sum is off by {show(residual)}, which is the difference between utilisation {stated:g} and {real:g}: {real:g} was really in force.",
                f"账目相差 {show(residual)}，正好是利用率 {stated:g} 与 {real:g} 之差：实际生效的是 {real:g}。",
            ),
        )
    if estimate_expected is not False and 0 < residual < _HUGE_ESTIMATE:
        return (
            Text(
                f"{show(residual)} of the budget go to something that was not printed, as an estimate of CUDA graphs would.",
                f"预算中有 {show(residual)} 用于未打印的项目，很可能是 CUDA graph 预估。",
            ),
        )
    return (Text(f"The printed terms do not add up: {show(residual)} are unaccounted for.", f"打印的各项加不起来：有 {show(residual)} 去向不明。"),)


def utilization_in_force(residual: int, values: Mapping[str, int | float]) -> float | None:
    """A residual of k hundredths of the card tells the utilisation that was really in force. None when it is no such number,
    or the card is too small for the hundredths to be told apart from rounding."""
    total, stated = values.get("total"), values.get("utilization")
    if total is None or stated is None or total < 15 * GIB:
        return None
    step = total / 100
    count = round(-residual / step)
    real = round(stated + count / 100, 4)
    return real if count and abs(-residual - count * step) <= CLOSES + abs(count) * 0.0001 * GIB and 0 < real <= 1 else None
