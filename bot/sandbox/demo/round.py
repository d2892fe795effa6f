"""One whole incident by itself: the alert rings, the thread says what failed, a fix is asked for, refused to the wrong person, approved, verified, and taken back.

Every step is looked for in what people see (the fake Slack), in the cluster and in the audit trail, not in the bot's own records.
"""

from collections.abc import Callable
from typing import Any

from bot.sandbox.demo.incidents import NAMESPACE
from bot.sandbox.demo.world import CHANNEL, World, wait_for
from bot.sandbox.slack.workspace import BOT_USER, Message

ASKS, APPROVES, LOOKS_ON = "U02JO", "U03WEI", "U01ANA"


class Round:
    """`say` gets one line for each step that happened."""

    def __init__(self, world: World, say: Callable[[str], None], incident: str = "chat") -> None:
        self.world, self.say, self.incident = world, say, world.incident(incident)
        self.top = ""

    def play(self) -> None:
        """Raises TimeoutError or RuntimeError at the first step that did not happen."""
        before = self._spec()
        self.begin()
        self.approve()
        if self._spec() == before:
            raise RuntimeError("the workload was not changed")
        self.undo()
        if self._spec() != before:
            raise RuntimeError("undo did not put back what was there before")
        self.say("undone       the workload's spec is what it was before")
        self._audit()

    def begin(self) -> None:
        """The alert and the thread that it leads to. Raises TimeoutError or RuntimeError."""
        self._alert()
        self._diagnosis()

    # ------------------------------------------------------------ the steps

    def _alert(self) -> None:
        wait_for("the pod's crash loop", self._restarted, within_s=20)
        statuses = [
            self.world.ring(self.incident, webhook_id="demo-delivery-1")[1],
            self.world.pagerduty.deliver(self._paged(), webhook_id="demo-delivery-1").status_code,
        ]
        if any(status >= 300 for status in statuses):
            raise RuntimeError(f"the bot answered PagerDuty's webhook with {statuses}")
        self.say(f"alert        PagerDuty rang twice for {self.incident.alert}: the same delivery")

    def _diagnosis(self) -> None:
        self.top = wait_for("the thread", lambda: next((m.ts for m in self._own() if m.thread_ts in (None, m.ts)), None), within_s=20)
        wait_for("the diagnosis", lambda: self._button("apply"), within_s=45)
        threads = [m for m in self._own() if m.thread_ts in (None, m.ts)]
        if len(threads) != 1:
            raise RuntimeError(f"one delivery made {len(threads)} threads")
        self.say("diagnosis    " + threads[0].shown.splitlines()[0])
        for message in self._thread()[1:]:
            self.say("             | " + message.shown.replace("\n", "\n             | "))

    def approve(self) -> None:
        """Apply by one person, who may not approve it; approval by another; verified. Raises TimeoutError or RuntimeError."""
        self._press(ASKS, "apply")
        plan = wait_for("the plan with its approval button", lambda: self._button("approve"), within_s=30)
        self.say("plan         | " + plan.shown.replace("\n", "\n             | "))
        seen = len(self.world.slack.ephemerals(ASKS))
        self._press(ASKS, "approve")
        refusal = wait_for("the refusal of one's own plan", lambda: self.world.slack.ephemerals(ASKS)[seen:] or None, within_s=15)
        self.say("refused      to who pressed Apply: " + refusal[-1].replace("\n", " "))
        self._press(APPROVES, "approve")
        wait_for("the pod getting ready", self._ready, within_s=90)
        outcome = wait_for("the verification", lambda: self._says("Verified"), within_s=90)
        self.say("verified     " + outcome.replace("\n", "\n             | "))

    def undo(self) -> None:
        """Undo by one person, approved by another. Raises TimeoutError or RuntimeError."""
        self._press(ASKS, "undo")
        wait_for("the plan of the undo", lambda: self._button("approve"), within_s=30)
        self._press(APPROVES, "approve")
        outcome = wait_for("the undo", lambda: self._says("Undone"), within_s=120)
        self.say("undo         " + outcome.replace("\n", "\n             | "))

    def _audit(self) -> None:
        problems = self.world.audit_problems()
        if problems:
            raise RuntimeError("the audit trail is broken: " + "; ".join(problems))
        self.say("audit        the trail is whole")

    # ------------------------------------------------------------ looking

    def _own(self) -> list[Message]:
        return [m for m in self.world.slack.messages(CHANNEL) if m.user == BOT_USER]

    def _thread(self) -> list[Message]:
        return self.world.slack.thread(CHANNEL, self.top)

    def _button(self, verb: str) -> Message | None:
        """The newest message of the thread that has a button with this verb."""
        return next((m for m in reversed(self._thread()) if _action(m, verb)), None)

    def _press(self, person: str, verb: str) -> None:
        message = wait_for(f"the button {verb} in the thread", lambda: self._button(verb), within_s=20)
        ack = self.world.slack.click(person, CHANNEL, message.ts, _action(message, verb))
        if ack.status != 200:
            raise RuntimeError(f"pressing {verb} was answered with {ack.status} {ack.error}")

    def _says(self, word: str) -> str | None:
        return next((m.shown for m in reversed(self._thread()) if m.user == BOT_USER and word in m.shown and m.ts != self.top), None)

    def _paged(self) -> Any:
        return list(self.world.pagerduty.incidents.values())[-1]

    def _restarted(self) -> bool:
        return any(s.get("restartCount") for pod in self.world.pods(self.incident.name) for s in pod["status"].get("containerStatuses", []))

    def _ready(self) -> bool:
        return any(s.get("ready") for pod in self.world.pods(self.incident.name) for s in pod["status"].get("containerStatuses", []))

    def _spec(self) -> Any:
        kind, name = self.incident.manifest["kind"], self.incident.name
        found = next(w for w in self.world.cluster.objects("apps/v1", kind, NAMESPACE) if w["metadata"]["name"] == name)
        return found["spec"]


def _action(message: Message, verb: str) -> str:
    """The action_id of a message's first button with this verb."""
    for block in message.blocks:
        for element in [*block.get("elements", ()), *([block["accessory"]] if "accessory" in block else [])]:
            if element.get("type") == "button" and element["action_id"].startswith(f"oom.press.{verb}"):
                return str(element["action_id"])
    return ""
