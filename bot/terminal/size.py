"""`oombot size PATH --set KNOB=VALUE... [--json]`: the memory ledger of a start with other settings, and whether it would fit.

Computes from the incident's own numbers and refuses what they do not determine. Needs no network, no configuration, no key.
"""

import argparse
import json
from dataclasses import replace

from bot.diagnosis.sizing_whatif import WhatIf
from bot.errors import BadInput
from bot.model import Ledger, Text
from bot.terminal.columns import columns

_ROWS = (
    (Text("card", "显卡"), "total_bytes"),
    (Text("free at start", "启动时空闲"), "free_at_start_bytes"),
    (Text("budget", "预算"), "requested_bytes"),
    (Text("weights", "权重"), "weights_bytes"),
    (Text("activations at the peak", "激活峰值"), "activation_peak_bytes"),
    (Text("other (context, NCCL)", "其他（上下文、NCCL）"), "non_torch_bytes"),
    (Text("graphs, estimated", "CUDA graph（估计）"), "cudagraph_estimate_bytes"),
    (Text("graphs", "CUDA graph 显存"), "cudagraph_bytes"),
    (Text("left for cache", "留给 KV 缓存"), "available_kv_bytes"),
    (Text("needed by one request", "一个请求所需"), "needed_kv_bytes"),
    (Text("tokens in cache", "缓存可容 token 数"), "kv_tokens"),
    (Text("max_model_len", "max_model_len"), "max_model_len"),
    (Text("requests at once", "可同时处理的请求"), "max_concurrency"),
    (Text("utilisation", "利用率"), "utilization"),
)


def main(argv: list[str]) -> int:
    """0 when the answer could be computed, whether it fits or not; raises BadInput (exit 2) for what cannot be known."""
    parser = argparse.ArgumentParser(
        prog="oombot size",
        description="What if: the memory ledger of this start with other settings. PATH is a bundle (folder), a log file, or - for standard input; "
        "or a model's configuration (a .json file), with --card, to ask on how many cards it fits.",
        epilog="Example: oombot size bundle/ --set gpu_memory_utilization=0.94 max_model_len=32k",
    )
    parser.add_argument("path", metavar="PATH")
    parser.add_argument("--set", dest="changes", metavar="KNOB=VALUE", nargs="+", action="extend", default=[], help="a setting as the server names it; several may follow")
    parser.add_argument("--card", metavar="SIZE", help="memory of one card as a server sees it, like 79.2GiB, or the card's name, like H200: for a config.json, or for a log that does not say it")
    parser.add_argument("--json", action="store_true", help="one JSON object: before, after, fits, margin_bytes, notes")
    parser.add_argument("--language", choices=("en", "zh"), default="en")
    asked = parser.parse_args(argv)
    if asked.path.endswith(".json"):
        from bot.terminal.size_model import answer_for_model

        print(answer_for_model(asked.path, asked.card, asked.changes, as_json=asked.json, language=asked.language))
        return 0
    found = _answer(asked.path, asked.changes, asked.card)
    print(json.dumps(as_json(found, asked.language), ensure_ascii=False) if asked.json else as_text(found, asked.language))
    return 0


def _answer(path: str, words: list[str], card: str | None) -> WhatIf:
    from bot.diagnosis.sizing_input import card_bytes, changes
    from bot.diagnosis.sizing_whatif import what_if
    from bot.evidence.bundle import open_path
    from bot.incident import ledger_of
    from bot.playbooks import load

    wanted = changes(words)
    knowledge = load()
    ledger, engine = ledger_of(open_path(path), knowledge)
    if ledger is None:
        raise BadInput(f"{path}: no memory ledger in it: the server printed none before it ended, so that nothing can be computed")
    if card is not None:
        ledger = _with_card(ledger, card_bytes(card, knowledge.names))
    found = what_if(ledger, engine, wanted)
    if not found.checks:
        raise BadInput(f"{path}: its ledger has neither budget nor cache, so that whether it fits cannot be computed")
    return found


def _with_card(ledger: Ledger, size: int) -> Ledger:
    """The ledger with the card's size where the log did not say it; what the log said stands."""
    if ledger.total_bytes is not None and "total_bytes" not in ledger.derived:
        return ledger
    budget = ledger.requested_bytes if ledger.requested_bytes is not None and "requested_bytes" not in ledger.derived else None
    if budget is None and ledger.utilization is not None:
        budget = round(ledger.utilization * size)
    return replace(ledger, total_bytes=size, requested_bytes=budget, derived=tuple(sorted({*ledger.derived, "total_bytes", "requested_bytes"})))


def as_json(found: WhatIf, language: str = "en") -> dict[str, object]:
    """The public JSON: both ledgers in bytes, whether every check holds, what the tightest has to spare, and what should be known."""
    from bot.diagnosis.ledger import to_json

    return {
        "before": to_json(found.before),
        "after": to_json(found.after),
        "fits": found.fits,
        "margin_bytes": found.margin_bytes,
        "notes": [note.say(language) for note in found.notes],
    }


_BEFORE, _AFTER = Text("before", "之前"), Text("after", "之后")
_FITS, _FITS_NOT = Text("Fits.", "放得下。"), Text("Does not fit.", "放不下。")


def as_text(found: WhatIf, language: str = "en") -> str:
    """Both ledgers beside each other, then whether each check holds."""
    lines = [f"{'':26}{columns(_BEFORE.say(language), -14)}{columns(_AFTER.say(language), -14)}"]
    for label, name in _ROWS:
        before, after = _cell(found.before, name), _cell(found.after, name)
        if before or after:
            lines.append(f"{columns(label.say(language), 26)}{before:>14}{after:>14}{'  *' if before != after else ''}")
    lines.append((_FITS if found.fits else _FITS_NOT).say(language))
    lines += [f"- {note.say(language)}" for note in (*found.before.notes, *found.notes)]
    return "\n".join(lines)


def _cell(ledger: Ledger, name: str) -> str:
    from bot.units import show

    value = getattr(ledger, name)
    if value is None:
        return ""
    if name.endswith("_bytes"):
        return show(value)
    return f"{value:g}" if name == "utilization" else f"{value:,}"
