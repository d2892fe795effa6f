"""A diagnosis as a note for people, as a colleague would write it: mechanism and how sure in the first line, then what to change, the sum, proof.

Plain text for a terminal; every piece that came from a log is made harmless first. Knows no evidence and decides nothing.
"""

from bot import gap_words, knobs
from bot.model import Certainty, Diagnosis, Gap, Ledger, Quote, Recommendation, Text, WillNotHelp
from bot.redact import redact
from bot.terminal.columns import columns, wrapped
from bot.units import in_gib
from handlers import messages, remedy_names

_QUOTE = 230  # letters of a quoted line that are shown
_USELESS, _DECIDING, _SURER, _RIVALS = 6, 4, 2, 3  # lines of each part
_WORDS = {
    "certain": Text("Certain.", "确定。"),
    "likely": Text("Likely.", "很可能。"),
    "possible": Text("Possible, not proved.", "可能，尚未证实。"),
    "unknown": Text("Cannot tell.", "无法判断。"),
    "proof": Text("Proof", "依据"),
    "fix": Text("Fix", "修改"),
    "or": Text("Or", "或"),
    "nothing": Text("Nothing to change.", "无需更改。"),
    "not_yet": Text("Nothing to change yet.", "暂无可改。"),
    "no_help": Text("Will not help", "无济于事"),
    "gaps": Text("Not readable", "未能读取"),
    "decides": Text("What decides it", "可作判断的资料"),
    "surer": Text("To be sure, read", "要确定，还需读取"),
    "rivals": Text("Also open", "其他可能"),
    "against": Text("Against", "反面证据"),
    "no_matter": Text("It would not change this answer.", "不影响此结论。"),
    "ledger": Text("of {total} GiB on the card", "显存共 {total} GiB，单位 GiB"),
    "ledger_alone": Text("memory of the card, GiB", "显存，单位 GiB"),
    "rank": Text("rank {rank} of {seen}, the one with the least room", "rank {rank}（共 {seen} 个），空间最小的一个"),
    "budget": Text("budget (utilisation {utilization})", "预算（利用率 {utilization}）"),
    "budget_alone": Text("budget", "预算"),
    "free": Text("free at the start", "启动时空闲"),
    "weights": Text("weights", "权重"),
    "activation": Text("activations at the peak", "激活峰值"),
    "other": Text("other (driver context, NCCL)", "其他（驱动上下文、NCCL）"),
    "estimate": Text("CUDA graphs (estimate)", "CUDA graph（估计）"),
    "graphs": Text("CUDA graphs", "CUDA graph 显存"),
    "left": Text("left for the cache", "留给 KV 缓存"),
    "needed": Text("needed for one request of {length} tokens", "一个 {length} token 的请求所需"),
    "needed_alone": Text("needed for one request", "一个请求所需"),
    "derived": Text("computed", "计算得出"),
    "tokens": Text("tokens", "个 token"),
}
_SUMS = frozenset({"device_memory", "communication"})  # families whose answer the memory ledger of the card explains


def note(where: str, diagnosis: Diagnosis, language: str = "en") -> str:
    """The whole note. `where` names the pod or the path."""
    unknown = diagnosis.cause == "unknown"
    parts = [_headline(where, diagnosis, language)]
    parts += [_deciding(diagnosis, language), _advice(diagnosis, language)] if unknown else [_advice(diagnosis, language)]
    parts += [
        _ledger(diagnosis.ledger, language) if diagnosis.family in _SUMS else "",
        _useless(diagnosis.will_not_help, language),
        _proof(diagnosis.evidence, "proof", language),
        _proof(diagnosis.against, "against", language),
        _rivals(diagnosis, language),
        "" if unknown else _deciding(diagnosis, language),
        _unread(diagnosis, language),
    ]
    return "\n".join(harmless(part) for part in parts if part)


def harmless(text: str) -> str:
    """Without secrets and without characters that a terminal obeys."""
    redacted = redact(text.encode(errors="replace")).decode(errors="replace")
    return "".join(letter if letter.isprintable() or letter == "\n" else "?" for letter in redacted)


def _word(key: str, language: str) -> str:
    return _WORDS[key].say(language)


def _title(key: str, language: str) -> str:
    return _word(key, language) + ("：" if language == "zh" else ": ")


def _wrap(text: str, language: str, indent: str = "  ") -> str:
    """Chinese has no spaces to break at, so that the terminal breaks it."""
    if language == "zh":
        return indent + text
    return wrapped(text, indent)


def _sentences(parts: list[str], language: str) -> str:
    """Sentences one after another, each once."""
    said: list[str] = []
    for part in (part.strip() for part in parts):
        if part and part not in " ".join(said):
            said.append(part)
    return ("" if language == "zh" else " ").join(said)


def _ended(text: str, language: str) -> str:
    return text if text.endswith((".", "。")) else text + ("。" if language == "zh" else ".")


def _headline(where: str, diagnosis: Diagnosis, language: str) -> str:
    version = f" (vLLM {diagnosis.engine_version})" if diagnosis.engine_version else ""
    sure = _word("unknown" if diagnosis.cause == "unknown" else diagnosis.certainty.value, language)
    gap = "" if language == "zh" else " "
    return _wrap(f"{where}{version}: {diagnosis.summary.say(language)}{gap}{sure} [{diagnosis.cause}]", language, "")


def _proof(quotes: tuple[Quote, ...], title: str, language: str) -> str:
    if not quotes:
        return ""
    rows = [_title(title, language).rstrip()]
    for quote in quotes:
        place = quote.source if quote.line is None else f"{quote.source}:{quote.line}"
        line = quote.quote.splitlines()[0] if quote.quote else ""
        rows.append(_wrap(f"{place}  {line if len(line) <= _QUOTE else line[:_QUOTE].rstrip() + '...'}", language))
        rows.append(_wrap(quote.says.say(language), language, "      "))
    return "\n".join(rows)


def _ledger(ledger: Ledger | None, language: str) -> str:
    if ledger is None or (ledger.available_kv_bytes is None and ledger.requested_bytes is None):
        return ""
    budget = _word("budget", language).format(utilization=f"{ledger.utilization:.2f}") if ledger.utilization is not None else _word("budget_alone", language)
    needed = _word("needed", language).format(length=f"{ledger.max_model_len:,}") if ledger.max_model_len else _word("needed_alone", language)
    rows = [
        (_word("free", language), ledger.free_at_start_bytes, "free_at_start_bytes"),
        (budget, ledger.requested_bytes, "requested_bytes"),
        (_word("weights", language), ledger.weights_bytes, "weights_bytes"),
        (_word("activation", language), ledger.activation_peak_bytes, "activation_peak_bytes"),
        (_word("other", language), ledger.non_torch_bytes, "non_torch_bytes"),
        (_word("estimate", language), ledger.cudagraph_estimate_bytes, "cudagraph_estimate_bytes"),
        (_word("graphs", language), ledger.cudagraph_bytes, "cudagraph_bytes"),
        (_word("left", language), ledger.available_kv_bytes, "available_kv_bytes"),
        (needed, ledger.needed_kv_bytes, "needed_kv_bytes"),
    ]
    known = [(name, size, field) for name, size, field in rows if size is not None]
    if len(known) < 2:
        return ""
    lines = [_ledger_title(ledger, language)]
    for name, size, field in known:
        tokens = f" = {ledger.kv_tokens:,} {_word('tokens', language)}" if field == "available_kv_bytes" and ledger.kv_tokens else ""
        star = f"  ({_word('derived', language)})" if field in ledger.derived else ""
        lines.append(f"  {columns(name, 45)} {in_gib(size):>9.2f}{tokens}{star}")
    return "\n".join(lines + [_wrap(text.say(language), language) for text in ledger.notes])


def _ledger_title(ledger: Ledger, language: str) -> str:
    title = _word("ledger", language).format(total=f"{in_gib(ledger.total_bytes):.2f}") if ledger.total_bytes else _word("ledger_alone", language)
    if ledger.rank is not None and ledger.ranks_seen > 1:
        title += f" ({_word('rank', language).format(rank=ledger.rank, seen=ledger.ranks_seen)})"
    return title


def change(advice: Recommendation, language: str) -> str:
    """What to change, from what to what, and what that leads to; one paragraph."""
    typed, step = knobs.typed(advice), knobs.change(advice)
    why, effect = advice.why.say(language), advice.effect.say(language)
    if typed:
        return _sentences([_ended(typed, "en"), "" if advice.general else why, effect], language) if language != "zh" else f"{typed}。{_sentences(['' if advice.general else why, effect], language)}"
    if step:
        name = f"{remedy_names.named(advice.remedy, advice.direction, language)}{'：' if language == 'zh' else ': '}{step}"
        return _sentences([_ended(name, language), "" if advice.general else why, effect], language)
    if advice.general or advice.remedy == "application":  # its reason names what to repair: "Correct the application" says less
        return _sentences([why, effect], language)
    named = remedy_names.named(advice.remedy, advice.direction, language)
    if advice.option:
        named = f"{named}（{advice.option}）" if language == "zh" else f"{named} ({advice.option})"
    return _sentences([_ended(named, language), why, effect], language)


def _advice(diagnosis: Diagnosis, language: str) -> str:
    given = diagnosis.recommendations
    if not given:
        return _word("not_yet", language)
    return "\n".join(_advised(advice, number, language) for number, advice in enumerate(given))


def _advised(advice: Recommendation, number: int, language: str) -> str:
    if advice.remedy == "none":  # it may say why, and what to do another time
        nothing, why = _word("nothing", language), advice.why.say(language)
        return nothing if why == nothing else _wrap(_sentences([nothing, why], language), language, "")
    return _wrap(_title("or" if number else "fix", language) + change(advice, language), language, "")


def _useless(items: tuple[WillNotHelp, ...], language: str) -> str:
    if not items:
        return ""
    colon = "：" if language == "zh" else ": "
    rows = [_wrap(f"{names}{colon}{why}", language) for names, why in remedy_names.useless(items, language)[:_USELESS]]
    return "\n".join([_title("no_help", language).rstrip(), *rows])


def _rivals(diagnosis: Diagnosis, language: str) -> str:
    if not diagnosis.runners_up:
        return ""
    called = messages.of_the_bot(str)
    names = [f"{called.cause(rival.cause, language)} [{rival.cause}]" for rival in diagnosis.runners_up[:_RIVALS] if rival.cause != diagnosis.cause]
    return _wrap(_title("rivals", language) + ("；" if language == "zh" else "; ").join(names), language, "") if names else ""


def _deciding(diagnosis: Diagnosis, language: str) -> str:
    """Readings that could change the answer. What nobody asked for by name comes last, and only where nothing better is known."""
    open_gaps = [gap for gap in diagnosis.gaps if gap.matters]
    named = [gap for gap in open_gaps if gap.reason != "absent"] or open_gaps
    if not named:
        return ""
    title = "decides" if diagnosis.cause == "unknown" else "surer"
    most = _DECIDING if diagnosis.cause == "unknown" else _SURER
    rows = [_wrap(f"{gap.source}{'：' if language == 'zh' else ': '}{_told(gap, language)}", language) for gap in named[:most]]
    return "\n".join([_title(title, language).rstrip(), *rows])


def _told(gap: Gap, language: str) -> str:
    """What it would tell, and why it is missing."""
    why = gap_words.reason(gap, language)
    tells = gap_words.tells(gap, language)
    if not tells:
        return why
    return f"{tells}（{why}）" if language == "zh" else f"{tells} ({why})"


def _unread(diagnosis: Diagnosis, language: str) -> str:
    """What somebody tried to read in vain and what would not change the answer. What was never asked for is left out."""
    rest = [gap for gap in diagnosis.gaps if not gap.matters and gap_words.given(gap)]
    if not rest:
        return ""
    rows = [_wrap(f"{gap.source}{'：' if language == 'zh' else ': '}{_told(gap, language)}", language) for gap in rest]
    if diagnosis.certainty is Certainty.CERTAIN and diagnosis.cause != "unknown":
        rows[-1] += ("" if language == "zh" else ". ") + _word("no_matter", language)
    return "\n".join([_title("gaps", language).rstrip(), *rows])
