"""`oombot serve`, killed with -9 while it works against the whole sandbox: real clients, real Slack app, rollouts with one GPU. For a test and for the bench."""

import os
import random
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import yaml

from bot.audit import AuditTrail, load_key
from bot.clients.sqlite import Database
from bot.clock import SystemClock
from bot.lifecycle import RESTING
from bot.model import Case, State
from bot.sandbox.demo.incidents import NAMESPACE
from bot.sandbox.demo.world import CHANNEL, World
from bot.store.sqlite import SqliteStore
from tests.walk.killing import Tally

ROOT = Path(__file__).parents[2]
ASKS, APPLIES, APPROVES = "U01ANA", "U02JO", "U03WEI"
WITHIN_S = 120
AFTERCARE_S = 4


class Outside:
    """The sandbox, and a bot in a process of its own that is killed `kills` times. `prometheus`: the address of the cluster's metrics server."""

    def __init__(self, seed: int, kills: int, *, longest_s: float = 2.0, prometheus: str = "") -> None:
        self.world, self._prometheus = World(), prometheus
        self._random, self._left, self._longest_s = random.Random(seed), kills, longest_s
        self.tally = Tally()
        self._bot: subprocess.Popen[str] | None = None
        self._until = 0.0

    def start(self) -> None:
        world = self.world
        for part in (world.slack, world.pagerduty, world.cluster, world.nodes):
            part.start()
        incident = world.incident("chat")
        world.cluster.apply(incident.manifest, history=incident.history)
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        settings = world.settings()
        values: dict[str, Any] = settings.model_dump(mode="json", exclude={"audit_key": True, "pagerduty": True})
        values["http"]["port"] = port
        values["timings"]["aftercare_s"] = AFTERCARE_S
        values["clusters"][0]["prometheus"] = {"url": self._prometheus} if self._prometheus else None
        values["slack"] |= {"bot_token": world.slack.bot_token, "signing_secret": world.slack.signing_secret, "app_token": ""}
        (world.folder / "oombot.yaml").write_text(yaml.safe_dump(values))
        world.slack.connect(f"http://127.0.0.1:{port}/slack/events")
        self.store = SqliteStore(Database(settings.data_dir / "oombot.db"))
        self.data = settings.data_dir

    def keep_it_running(self) -> None:
        if self._bot is None:
            environ = {name: value for name, value in os.environ.items() if not name.startswith("OOMBOT_")} | {"PYTHONPATH": str(ROOT)}
            self._bot = subprocess.Popen([sys.executable, "-m", "bot", "serve"], cwd=self.world.folder, env=environ, stderr=subprocess.PIPE, text=True)
            assert self._bot.stderr is not None
            said = self._bot.stderr.readline()
            assert "oombot: ready" in said, said + self._bot.communicate(timeout=30)[1]
            self._until = time.monotonic() + self._random.uniform(0.2, self._longest_s)
        elif self._left and time.monotonic() >= self._until:
            self._left -= 1
            self.kill()
            self.tally.kills += 1
            case = self.case()
            self.tally.at[case.state.value if case else "nothing"] += 1

    def spare(self, kills: int) -> None:
        """Only so many more of its own accord."""
        self._left = kills

    def kill(self) -> None:
        if self._bot is not None:
            self._bot.send_signal(signal.SIGKILL)
            self._bot.wait()
            assert self._bot.stderr is not None
            self._bot.stderr.close()
            self._bot = None

    def end(self) -> None:
        self.kill()
        for part in (self.world.nodes, self.world.cluster, self.world.pagerduty, self.world.slack):
            part.stop()

    # -------------------------------------------------------- what people do

    def case(self) -> Case | None:
        found = self.store.recent(1)
        return found[0] if found else None

    def until(self, look: Callable[[], bool], act: Callable[[], object] = lambda: None) -> None:
        """Goes on (acting now and then, as people do whose click did not get through) until `look` is content."""
        end, again = time.monotonic() + WITHIN_S, 0.0
        while not look():
            assert time.monotonic() < end, self.case()
            self.keep_it_running()
            if time.monotonic() >= again:
                act()
                again = time.monotonic() + 1
            time.sleep(0.02)

    def click(self, person: str, verb: str) -> None:
        for message in reversed(self.world.slack.messages(CHANNEL)):
            for block in message.blocks:
                for element in block.get("elements", ()):
                    if element.get("action_id", "").startswith(f"oom.press.{verb}"):
                        self.world.slack.click(person, CHANNEL, message.ts, element["action_id"])
                        return

    def deployment(self) -> dict[str, Any]:
        return next(one for one in self.world.cluster.objects("apps/v1", "Deployment", NAMESPACE) if one["metadata"]["name"] == "chat")

    # -------------------------------------------------------- the round

    def go(self) -> Tally:
        """Check, apply, verified, watched until that ends, undo, undone, while it is killed; then what must hold."""
        before = self.deployment()
        if self.carried("apply", State.VERIFIED):
            self.kill()  # in each round once while it watches what was verified
            self.tally.kills += 1
            self.tally.at[State.VERIFIED.value] += 1
            self.until(lambda: self.says("No new kill or restart."))
            if self.carried("undo", State.UNDONE):
                self.until(lambda: self.says("Undone"))
                self._look(before)
        return self.tally

    def carried(self, verb: str, end: State) -> bool:
        """People see a change (or its undo) through. False when it came to another end."""
        self.until(lambda: self.case() is not None and not self.in_state(State.RECEIVED, State.CHECKING)(), self._ask)
        self.until(self.in_state(State.AWAITING_APPROVAL), lambda: self.click(APPLIES, verb))
        elsewhere = [state for state in RESTING if state is not State.VERIFIED or verb == "undo"]
        self.until(self.in_state(end, *elsewhere), lambda: self.in_state(State.AWAITING_APPROVAL)() and self.click(APPROVES, "approve"))
        case = self.case()
        if case is None or case.state is not end:
            self.tally.wrong.append(f"{verb} ended {case.state.value if case else 'nowhere'}: {case.trouble if case else ''}")
        return not self.tally.wrong

    def says(self, words: str) -> bool:
        """Whether the channel shows it."""
        return any(words in message.shown for message in self.world.slack.messages(CHANNEL))

    def in_state(self, *states: State) -> Callable[[], bool]:
        def look() -> bool:
            case = self.case()
            return case is not None and case.state in states

        return look

    def _ask(self) -> None:
        if self.case() is None:
            self.world.slack.command(ASKS, CHANNEL, f"check deploy/chat -n {NAMESPACE}")

    def _look(self, before: dict[str, Any]) -> None:
        """Each write is counted at the API server: a patch of the specification counts its generation up by one."""
        after = self.deployment()
        self.tally.writes = after["metadata"]["generation"] - before["metadata"]["generation"]
        case = self.case()
        done = [*case.operations, case.operation] if case is not None and case.operation is not None else []
        patches = sum(len([step for step in one.remediation.steps if step.patch]) for one in done if one is not None and one.started_at is not None)
        posted = [str(message.metadata) for message in self.world.slack.messages(CHANNEL) if message.metadata]
        trail = AuditTrail(self.data / "audit.jsonl", load_key(self.data / "audit.key"), SystemClock(), self.store)
        for what, found, wanted in (
            ("writes", self.tally.writes, patches),
            ("specification", after["spec"], before["spec"]),
            ("messages that stand twice", [one for one in posted if posted.count(one) > 1], []),
            ("audit trail", [str(one) for one in trail.verify()], []),
        ):
            if found != wanted:
                self.tally.wrong.append(f"{what}: {found} instead of {wanted}")
