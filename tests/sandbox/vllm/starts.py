"""Starts a simulated server and gives what it printed; for tests."""

from bot.sandbox.kubelet.play import Card, Place, Play, rendered
from bot.sandbox.vllm import MODELS, server
from bot.units import GIB

L40S, L4 = 44.40, 22.05
STRAY = ((48112, 9 * GIB),)


def start(
    model: str, *args: str, version: str = "0.11.0", card_gib: float = L40S, cards: int = 1, others: tuple[tuple[int, int], ...] = (), limit_gib: int | None = None,
    environment: dict[str, str] | None = None,
) -> Play:  # fmt: skip
    container = {"name": "server", "image": f"vllm/vllm-openai:v{version}", "args": [f"--model=/models/{model}", *args]}
    found = tuple(Card("NVIDIA L40S", round(card_gib * GIB), others) for _ in range(cards))
    return server(MODELS)(container, Place(found, limit_gib * GIB if limit_gib else None, environment=environment or {}))


def log(play: Play) -> str:
    return "".join(f"{rendered(line.text, 1_780_000_000 + line.at)}\n" for line in play.lines)


def starts(play: Play) -> bool:
    return play.ready_at is not None and play.end is None
