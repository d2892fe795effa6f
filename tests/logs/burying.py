"""Buries one log in what else stands in a file: earlier runs, serving, other ranks, followers, neighbours. Only where that is honest: `bury` gives None
when the addition would itself be evidence (serving after a start that failed, followers of nothing).
"""

import random
import re
from collections.abc import Iterator

from tests.logs import noise
from tests.logs.noise import Manner

WAYS = ("after a healthy run", "after other failures", "while serving", "between the lines", "followers and neighbours behind", "all at once")
_STARTS = re.compile(r"vLLM API server version|Initializing an? (?:V[01] )?LLM engine|server_args=ServerArgs|args: Namespace\(")
_SERVES = re.compile(r"Application startup complete|Avg prompt throughput|HTTP/1\.1\" 200|Received request |Decode batch")
_FAILS = re.compile(r"Error\b|Exception|Killed|died|EngineCore failed|SIGSEGV|NCCL WARN")
_STOPS = re.compile(r"shutdown triggered|Shutting down|SIGTERM|Application shutdown complete|KeyboardInterrupt")
_STACK = re.compile(r"^(?:\([^)]*\) )?(?:ERROR [^\]]*\] ?)?(?: |Traceback|\s*\^|$)")
_ANSI = re.compile(r"\x1b\[[0-9;]*m")


def bury(log: str, way: str, lines: int, seed: int, ends_healthy: bool = False) -> str | None:
    """`log` in about `lines` lines of other things, by one of WAYS; None where that way would change what the log says."""
    dice, manner = random.Random(seed), Manner.of(log)
    own = log.split("\n")
    if own and not own[-1]:
        own.pop()
    made = {
        WAYS[0]: _after_healthy,
        WAYS[1]: _after_failures,
        WAYS[2]: _while_serving,
        WAYS[3]: _between,
        WAYS[4]: _behind,
        WAYS[5]: _all,
    }[way](own, manner, lines, dice, ends_healthy)
    return None if made is None else "\n".join(made) + "\n"


def _begins(own: list[str], manner: Manner, dice: random.Random) -> list[str] | None:
    """What a log needs in front so that a run before it ends there: nothing, when it begins with a start; the start of a vLLM engine otherwise."""
    head = next((index for index, line in enumerate(own) if _STARTS.search(line)), None)
    if head is not None and not any(_SERVES.search(line) or _FAILS.search(line) for line in own[:head]):
        return []
    if not any(re.search(r"vllm|EngineCore|(?:INFO|ERROR) \d\d-\d\d", line) for line in own) or any("sglang" in line.lower() for line in own):
        return None  # not a log of vLLM: we do not know how its runs begin
    return [
        manner.info(
            "api_server.py:1351" if manner.v1 else "api_server.py:840", manner.first - 2, f"vLLM API server version {manner.version}", "APIServer pid=1"
        )
    ]


def _after_healthy(own: list[str], manner: Manner, lines: int, dice: random.Random, ends_healthy: bool) -> list[str] | None:
    begins = _begins(own, manner, dice)
    if begins is None:
        return None
    end = manner.first - 60
    begin = end - max(3600, lines // 4)
    found = [*noise.start(manner, begin - 300, dice.choice((270, 4111)))]
    found += noise.serving(manner, lines, begin, end - 20, dice)
    if dice.random() < 0.5:
        found += noise.stopped(manner, end - 10)
    return [*found, noise.restarted(end, dice), *begins, *own]


def _after_failures(own: list[str], manner: Manner, lines: int, dice: random.Random, ends_healthy: bool) -> list[str] | None:
    begins = _begins(own, manner, dice)
    if begins is None:
        return None
    found: list[str] = []
    each = 400
    runs = max(1, min(200, lines // each))
    for number in range(runs):
        at = manner.first - 300 * (runs - number)
        found += noise.failed(manner, dice.choice(noise.EARLIER), at, 300 + number)
        found += noise.neighbours(each, dice)
        found.append(noise.restarted(at + 90, dice))
    return [*found, *begins, *own]


def _while_serving(own: list[str], manner: Manner, lines: int, dice: random.Random, ends_healthy: bool) -> list[str] | None:
    """Serving where the log itself serves: behind its last sign of serving before anything fails or stops."""
    bad = next(
        (index for index, line in enumerate(own) if _FAILS.search(line) or _STOPS.search(line) or "Traceback" in line or line.startswith("  File ")), len(own)
    )
    serves = [index for index, line in enumerate(own[:bad]) if _SERVES.search(line)]
    if not serves or any("Decode batch" in line or "gunicorn" in line for line in own):
        return None
    at = serves[-1] + 1
    return [*own[:at], *noise.serving(manner, lines, manner.first, manner.last, dice), *own[at:]]


def _between(own: list[str], manner: Manner, lines: int, dice: random.Random, ends_healthy: bool) -> list[str] | None:
    """Little inside a traceback, much between messages, nothing behind the last line."""
    if len(own) < 2:
        return None
    inside = [bool(_STACK.match(_ANSI.sub("", own[index + 1]))) or bool(_STACK.match(_ANSI.sub("", own[index]))) for index in range(len(own) - 1)]
    wide = max(1, inside.count(False))
    found: list[str] = []
    for index, line in enumerate(own):
        found.append(line)
        if index < len(own) - 1:
            count = dice.randrange(3) if inside[index] else lines // wide
            found += noise.chatter(manner, count, manner.first, dice)
    return found


def _behind(own: list[str], manner: Manner, lines: int, dice: random.Random, ends_healthy: bool) -> list[str] | None:
    if ends_healthy:
        return [*own, *noise.neighbours(lines, dice)]
    failed = any(_FAILS.search(line) for line in own) and not any(_STOPS.search(line) for line in own)
    served = any(_SERVES.search(line) for line in own)
    mine = [*noise.followers(manner, manner.last, dice.choice((2, 8, 16)), 9000, dice, served)] if failed and manner.names else []
    return [*own, *mine, *noise.neighbours(lines, dice)]


def _all(own: list[str], manner: Manner, lines: int, dice: random.Random, ends_healthy: bool) -> list[str] | None:
    begins = _begins(own, manner, dice)
    if begins is None:
        return None
    share = lines // 5
    begin = manner.first - max(7200, lines // 4)
    found = [*noise.failed(manner, dice.choice(noise.EARLIER), begin - 600, 301), noise.restarted(begin - 500, dice)]
    found += [
        *noise.start(manner, begin - 400, 302),
        *noise.serving(manner, 2 * share, begin, manner.first - 400, dice),
        *noise.stopped(manner, manner.first - 390),
    ]
    found += [
        noise.restarted(manner.first - 380, dice),
        *noise.failed(manner, dice.choice(noise.EARLIER), manner.first - 370, 303),
        noise.restarted(manner.first - 300, dice),
    ]
    middle = _between(own, manner, share, dice, ends_healthy) or own
    behind = _behind([], manner, 2 * share, dice, ends_healthy) or []
    return [*found, *begins, *middle, *behind]


def draws(log: str, lines: int, seed: int, ends_healthy: bool = False) -> Iterator[tuple[str, str]]:
    """Every honest way with its text."""
    for number, way in enumerate(WAYS):
        made = bury(log, way, lines, seed * 100 + number, ends_healthy)
        if made is not None:
            yield way, made
