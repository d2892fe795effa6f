"""A diagnosis as a note for people, as a colleague would write it: mechanism and how sure in the first line, then proof, sum, what to change, what not.

Plain text for a terminal; every piece that came from a log is made harmless first. Knows no evidence and decides nothing.
"""

import textwrap

from bot.model import Certainty, Diagnosis, Gap, Ledger, Quote, Recommendation, Text
from bot.redact import redact
from bot.units import in_gib, show

WIDTH = 118
_WORDS = {
    "certain": Text("Certain.", "确定。"),
    "likely": Text("Likely.", "很可能。"),
    "possible": Text("Possible, not proved.", "可能，尚未证实。"),
    "unknown": Text("Cannot tell.", "无法判断。"),
    "proof": Text("Proof", "依据"),
    "fix": Text("Change", "修改"),
    "or": Text("Or", "或"),
    "nothing": Text("Nothing to change.", "无需更改。"),
    "no_help": Text("Will not help", "无济于事"),
    "gaps": Text("Not readable", "未能读取"),
    "decides": Text("Would decide", "可以判断的资料"),
    "rivals": Text("Also open", "其他可能"),
    "against": Text("Against it", "反面证据"),
    "no_matter": Text("it would not change this answer", "不影响此结论"),
    "line": Text("line", "行"),
    "ledger": Text("of {total} on the card, GiB", "显存共 {total}，单位 GiB"),
    "rank": Text("rank {rank} of {seen}, the one with the least room", "rank {rank}（共 {seen} 个），空间最小的一个"),
    "budget": Text("budget (utilisation {utilization})", "预算（利用率 {utilization}）"),
    "free": Text("free at the start", "启动时空闲"),
    "weights": Text("weights", "权重"),
    "activation": Text("activations at the peak", "激活峰值"),
    "other": Text("other (driver context, NCCL)", "其他（驱动上下文、NCCL）"),
    "estimate": Text("CUDA graphs (estimate)", "CUDA graph（估计）"),
    "graphs": Text("CUDA graphs", "CUDA graph"),
    "left": Text("left for the cache", "留给缓存"),
    "needed": Text("needed for one request of {length} tokens", "一个 {length} token 的请求所需"),
    "derived": Text("computed, not printed", "由其他数字算出"),
}


def note(where: str, diagnosis: Diagnosis, language: str = "en") -> str:
    """The whole note. `where` names the pod or the path."""
    parts = [_headline(where, diagnosis, language), _proof(diagnosis.evidence, "proof", language), _ledger(diagnosis.ledger, language)]
    parts += [
        _advice(diagnosis, language),
        _useless(diagnosis, language),
        _proof(diagnosis.against, "against", language),
        _rivals(diagnosis, language),
        _gaps(diagnosis, language),
    ]
    return "\n".join(harmless(part) for part in parts if part)


def harmless(text: str) -> str:
    """Without secrets and without characters that a terminal obeys."""
    redacted = redact(text.encode(errors="replace")).decode(errors="replace")
    return "".join(letter if letter.isprintable() or letter == "\n" else "?" for letter in redacted)


def _word(key: str, language: str) -> str:
    return _WORDS[key].say(language)


def _wrap(text: str, indent: str = "  ") -> str:
    return textwrap.fill(text, WIDTH, initial_indent=indent, subsequent_indent=indent + "  ", break_long_words=False, break_on_hyphens=False)


def _headline(where: str, diagnosis: Diagnosis, language: str) -> str:
    version = f" (vLLM {diagnosis.engine_version})" if diagnosis.engine_version else ""
    sure = _word("unknown" if diagnosis.cause == "unknown" else diagnosis.certainty.value, language)
    return _wrap(f"{where}{version}: {diagnosis.cause}. {diagnosis.summary.say(language)} {sure}", "")


def _proof(quotes: tuple[Quote, ...], title: str, language: str) -> str:
    if not quotes:
        return ""
    rows = [f"{_word(title, language)}:"]
    for quote in quotes:
        place = quote.source if quote.line is None else f"{quote.source}:{quote.line}"
        rows.append(_wrap(f"{place}  {quote.quote.splitlines()[0] if quote.quote else ''}"))
        rows.append(_wrap(quote.says.say(language), "      "))
    return "\n".join(rows)


def _ledger(ledger: Ledger | None, language: str) -> str:
    if ledger is None or (ledger.available_kv_bytes is None and ledger.requested_bytes is None):
        return ""
    names = set(ledger.derived)
    utilization = f"{ledger.utilization:.2f}" if ledger.utilization is not None else "?"
    length = f"{ledger.max_model_len:,}" if ledger.max_model_len else "?"
    rows = [
        (_word("free", language), ledger.free_at_start_bytes, "free_at_start_bytes"),
        (_word("budget", language).format(utilization=utilization), ledger.requested_bytes, "requested_bytes"),
        (_word("weights", language), ledger.weights_bytes, "weights_bytes"),
        (_word("activation", language), ledger.activation_peak_bytes, "activation_peak_bytes"),
        (_word("other", language), ledger.non_torch_bytes, "non_torch_bytes"),
        (_word("estimate", language), ledger.cudagraph_estimate_bytes, "cudagraph_estimate_bytes"),
        (_word("graphs", language), ledger.cudagraph_bytes, "cudagraph_bytes"),
        (_word("left", language), ledger.available_kv_bytes, "available_kv_bytes"),
        (_word("needed", language).format(length=length), ledger.needed_kv_bytes, "needed_kv_bytes"),
    ]
    known = [(name, size, field) for name, size, field in rows if size is not None]
    if len(known) < 2:
        return ""
    title = _word("ledger", language).format(total=show(ledger.total_bytes) if ledger.total_bytes else "?")
    if ledger.rank is not None and ledger.ranks_seen > 1:
        title += f" ({_word('rank', language).format(rank=ledger.rank, seen=ledger.ranks_seen)})"
    lines = [title]
    for name, size, field in known:
        tokens = f" = {ledger.kv_tokens:,} tokens" if field == "available_kv_bytes" and ledger.kv_tokens else ""
        star = f"  ({_word('derived', language)})" if field in names else ""
        lines.append(f"  {name:46}{in_gib(size):>9.2f}{tokens}{star}")
    return "\n".join(lines + [_wrap(text.say(language)) for text in ledger.notes])


def _change(advice: Recommendation) -> str:
    name = advice.remedy if not advice.direction else f"{advice.remedy} ({advice.direction})"
    if advice.to_value is None:
        return name
    before = "-> " if advice.from_value is None else f"{_value(advice.from_value)} -> "
    return f"{name}: {before}{_value(advice.to_value)}"


def _value(value: str | int | float) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _advice(diagnosis: Diagnosis, language: str) -> str:
    given = diagnosis.recommendations
    if not given:
        return ""
    if given[0].remedy == "none":
        return _word("nothing", language)
    rows = []
    for number, advice in enumerate(given):
        rows.append(f"{_word('or' if number else 'fix', language)}: {_change(advice)}")
        rows.append(_wrap(" ".join(part for part in (advice.why.say(language), advice.effect.say(language)) if part)))
    return "\n".join(rows)


def _useless(diagnosis: Diagnosis, language: str) -> str:
    if not diagnosis.will_not_help:
        return ""
    rows = [f"{_word('no_help', language)}:"]
    grouped: dict[str, list[str]] = {}
    for item in diagnosis.will_not_help:
        grouped.setdefault(item.why.say(language), []).append(f"{item.remedy} ({item.direction})" if item.direction else item.remedy)
    return "\n".join(rows + [_wrap(f"{', '.join(names)}: {why}") for why, names in grouped.items()])


def _rivals(diagnosis: Diagnosis, language: str) -> str:
    if not diagnosis.runners_up:
        return ""
    return f"{_word('rivals', language)}: " + ", ".join(f"{rival.cause} ({rival.certainty.value})" for rival in diagnosis.runners_up)


def _gaps(diagnosis: Diagnosis, language: str) -> str:
    deciding = [gap for gap in diagnosis.gaps if gap.matters]
    rest = [gap for gap in diagnosis.gaps if not gap.matters]
    rows = []
    for title, gaps in (("decides", deciding), ("gaps", rest)):
        if gaps:
            rows.append(f"{_word(title, language)}:")
            rows += [_wrap(_gap(gap, diagnosis, language)) for gap in gaps]
    return "\n".join(rows)


def _gap(gap: Gap, diagnosis: Diagnosis, language: str) -> str:
    tells = f" - {gap.would_tell}" if gap.would_tell else ""
    idle = f"; {_word('no_matter', language)}" if gap.matters is False and diagnosis.certainty is Certainty.CERTAIN else ""
    return f"{gap.source} ({gap.reason}){tells}{idle}"
