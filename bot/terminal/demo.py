"""`oombot demo`: the bot against a sandbox on this machine, with a page to act in as anybody; `--once` plays one whole incident and exits."""

import argparse
import signal
import sys
import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from bot.sandbox.demo.world import World


def main(argv: list[str]) -> int:
    """0; with --once 1 when any step did not happen."""
    parser = argparse.ArgumentParser(
        prog="oombot demo",
        description="Start the bot against a sandbox on this machine: Slack with a page, PagerDuty, a cluster, a node. Needs no network and no key.",
    )
    parser.add_argument("--once", action="store_true", help="play one incident from the alert to the undo, print what happened, and exit")
    parser.add_argument("--port", type=_port, default=8765, help="port of the page (default 8765; with --once any free one)")
    arguments = parser.parse_args(argv)
    from bot.errors import BadInput
    from bot.sandbox.demo.world import World

    print("starting: a Slack workspace, PagerDuty, a cluster with nine GPU nodes, and the bot ...", flush=True)
    try:
        world = World(0 if arguments.once else arguments.port)
        page = world.start()
    except OSError as taken:
        raise BadInput(f"the sandbox could not start: {taken}; another --port may help") from taken
    try:
        return _once(world) if arguments.once else _stay(world, page)
    finally:
        world.stop()


def _port(text: str) -> int:
    """A port that can be listened at; 0 takes any free one."""
    if not text.isdecimal() or int(text) > 65535:
        raise argparse.ArgumentTypeError(f"a port is a number from 0 to 65535, not {text[:20]!r}")
    return int(text)


def _once(world: "World") -> int:
    from bot.sandbox.demo.round import Round

    try:
        Round(world, _say).play()
    except (TimeoutError, RuntimeError) as missing:
        print(f"did not happen: {missing}", file=sys.stderr)
        return 1
    return 0


def _stay(world: "World", page: str) -> int:
    from bot.sandbox.demo.round import Round

    try:
        Round(world, _say).begin()
    except (TimeoutError, RuntimeError) as missing:
        print(f"did not happen: {missing}", file=sys.stderr)
        return 1
    print(f"\nThe page: {page}\nThere you are whoever you choose at the top left: press Apply as one person and Approve as another of @gpu-oncall.")
    print("These stand ready (type /oom and what stands here):")
    for each in world.incidents:
        print(f"  {each.command:34}{each.says}")
    print("Ctrl-C ends it.", flush=True)
    ended = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: ended.set())
    try:
        ended.wait()
    except KeyboardInterrupt:
        print()
    return 0


def _say(line: str) -> None:
    print(line, flush=True)
