"""FakeSlack: a Slack workspace on loopback, and the people in it. The double in the tests, and the demo's backend.

It is strict: what Slack refuses is refused here (limits.py, web_api.py), so that a test which passes says something about Slack.
It refuses every token that it did not issue itself.
"""

import json
import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from starlette.routing import BaseRoute

from bot.sandbox.loopback import Served
from bot.sandbox.slack import limits
from bot.sandbox.slack.outgoing import Ack, Postman, command_fields, event_payload, interaction_payload
from bot.sandbox.slack.server import Faults, Interface, WebApi, application
from bot.sandbox.slack.workspace import BOT_ID, BOT_USER, Channel, Group, Member, Message, View, Workspace

Json = dict[str, Any]

PEOPLE = (
    Member("U01ANA", "Ana", email="ana@example.com"),
    Member("U02JO", "Jo", email="jo@example.com"),
    Member("U03WEI", "Wei", locale="zh-CN", email="wei@example.com"),
    Member("U04GIL", "Gil", guest=True),
    Member("U05STRANGER", "Stranger", team="T0ELSEWHERE"),
    Member("U06ROBOT", "Robot", bot=True),
)
CHANNELS = (Channel("C01ONCALL", "gpu-oncall"), Channel("C02RANDOM", "random"), Channel("C03ALONE", "no-bot-here", bot_is_in=False))
GROUPS = (Group("S01ONCALL", "gpu-oncall", ("U02JO", "U03WEI")),)


def typed(text: str) -> str:
    """What a person typed, as Slack hands it to an app: `&`, `<` and `>` escaped."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


class FakeSlack:
    """`start()` gives the URL; `bot_token`, `app_token` and `signing_secret` are what the app is configured with, `api_url` its base_url.
    `request_url` is where the app listens (or let the app connect by Socket Mode)."""

    def __init__(
        self, people: Sequence[Member] = PEOPLE, channels: Sequence[Channel] = CHANNELS, groups: Sequence[Group] = GROUPS, *,
        request_url: str = "", routes: Sequence[BaseRoute] = (), now: Callable[[], float] = time.time, trigger_seconds: float = 3.0, port: int = 0,
    ) -> None:  # fmt: skip
        self.bot_token, self.app_token = f"xoxb-sandbox-{secrets.token_hex(12)}", f"xapp-sandbox-{secrets.token_hex(12)}"
        self.signing_secret = secrets.token_hex(16)
        self.workspace = Workspace(people, channels, groups, now=now, trigger_seconds=trigger_seconds)
        self.postman = Postman(self.workspace, self.signing_secret)
        self.postman.request_url = request_url
        self.faults = Faults()
        self.api = WebApi(self.workspace, self.postman, self.faults, self.bot_token, self.app_token)
        self._app = application(self.api, Interface(self.workspace, self._act), routes)
        self._port = port
        self._served: Served | None = None
        self.url = ""

    # ------------------------------------------------------------ life

    def start(self) -> str:
        """Listens on loopback (any free port unless one was given) and gives the URL."""
        self._served = Served(self._app, port=self._port)
        self.url = self._served.start()
        return self.url

    def stop(self) -> None:
        if self._served is not None:
            self._served.stop()

    def __enter__(self) -> "FakeSlack":
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def api_url(self) -> str:
        return f"{self.url}/api/"

    def connect(self, request_url: str) -> None:
        """Where the app listens for commands, events and interactions."""
        self.postman.request_url = request_url

    # ------------------------------------------------------------ trouble

    def ratelimit(self, method: str, *, times: int = 1, retry_after: int = 1) -> None:
        """The next calls of a method get 429."""
        self.faults.plan(method, "ratelimited", times, retry_after)

    def break_after(self, method: str, *, times: int = 1) -> None:
        """The next calls do their work, and then the caller sees a server error: it cannot know."""
        self.faults.plan(method, "broken_after", times, 0)

    def break_before(self, method: str, *, times: int = 1) -> None:
        self.faults.plan(method, "broken_before", times, 0)

    def refuse_blocks(self, method: str, *, times: int = 1) -> None:
        """The next calls get `invalid_blocks`, as from a workspace that does not know a new kind of block yet."""
        self.faults.plan(method, "invalid_blocks", times, 0)

    def refuse(self, method: str, error: str, *, times: int = 1) -> None:
        """The next calls are refused with an error of Slack's."""
        self.faults.plan(method, f"refused:{error}", times, 0)

    def calls(self, method: str) -> list[Json]:
        """The arguments of every call of a method so far."""
        return [arguments for name, arguments in self.api.calls if name == method]

    # ------------------------------------------------------------ what is to be seen

    def messages(self, channel: str) -> list[Message]:
        """All messages of a channel in order, replies among them, ephemeral ones not."""
        return self.workspace.in_channel(self.workspace.channel(channel).id)

    def thread(self, channel: str, ts: str) -> list[Message]:
        return self.workspace.replies(self.workspace.channel(channel).id, ts)

    def ephemerals(self, user: str) -> list[str]:
        """What only this person saw, in order: answers to commands, and whispers."""
        person = self.workspace.person(user)
        with self.workspace.lock:
            return [each.shown for each in self.workspace.all_messages if each.only_for == person.id]

    def views(self, user: str) -> list[View]:
        person = self.workspace.person(user)
        with self.workspace.lock:
            return [view for view in self.workspace.views.values() if view.user == person.id]

    # ------------------------------------------------------------ what people do

    def say(self, user: str, channel: str, text: str, thread_ts: str | None = None) -> Message:
        """A person's own message; nothing is sent to the app."""
        person, place = self._in(user, channel)
        return self.workspace.add(Message(self.workspace.ts(), place.id, person.id, text, thread_ts=thread_ts, bot_id="B0OTHER" if person.bot else ""))

    def command(self, user: str, channel: str, text: str, command: str = "/oom") -> Ack:
        """Types a slash command. Works in channels where the bot is not a member, as on Slack."""
        person, place = self._in(user, channel)
        response_url = f"{self.url}/response/{self.workspace.response_url(place.id, person.id)}"
        ack = self.postman.form(command_fields(person, place.id, place.name, command, typed(text), self.workspace.trigger(person.id), response_url))
        return self._shown(ack, person, place)

    def mention(self, user: str, channel: str, thread_ts: str | None, text: str) -> Ack:
        """Writes `@oombot text` in a channel or thread. The app gets the event only where the bot is a member."""
        person, place = self._in(user, channel)
        message = self.say(user, channel, f"<@{BOT_USER}> {typed(text)}", thread_ts)
        if not place.bot_is_in:
            return Ack(0, 0.0, error="not_in_channel")
        event = {**message.wire(), "type": "app_mention", "channel": place.id, "event_ts": message.ts, "team": person.team, "user_team": person.team}
        return self.postman.event(event_payload(event, self.workspace.id("Ev"), self.workspace.now(), shared=place.shared))

    def again(self, ack: Ack, attempt: int = 1) -> Ack:
        """Slack's retry of an event that it thinks was not received: the same event, signed anew."""
        return self.postman.event(json.loads(ack.content), attempt)

    def click(self, user: str, channel: str, message_ts: str, button: str) -> Ack:
        """Presses a button, found by its text, action_id or value; a confirm dialog is answered with yes. Raises LookupError."""
        person, place = self._in(user, channel)
        message = self.workspace.find(place.id, message_ts)
        if message is None:
            raise LookupError(f"no message {message_ts} in {channel}")
        found = [each for each in limits.buttons(message.blocks) if button in (each["text"]["text"], each["action_id"], each.get("value"))]
        if not found:
            raise LookupError(f"no button {button!r}; there are {message.buttons}")
        return self.press(person, place, message, dict(found[0]))

    def press(self, person: Member, place: Channel, message: Message, button: Json) -> Ack:
        """Sends the click of one button as Slack would, whether the message still has it or not."""
        stamp = self.workspace.ts()
        response_url = f"{self.url}/response/{self.workspace.response_url(place.id, person.id, message.ts)}"
        container = {"type": "message", "message_ts": message.ts, "channel_id": place.id, "is_ephemeral": bool(message.only_for)}
        if message.thread_ts:
            container["thread_ts"] = message.thread_ts
        action = {name: button[name] for name in ("action_id", "block_id", "text", "value", "style") if button.get(name)} | {"type": "button", "action_ts": stamp}
        more = {"container": container, "channel": {"id": place.id, "name": place.name}, "message": message.wire(), "state": {"values": {}}, "response_url": response_url, "actions": [action]}
        return self.postman.interaction(interaction_payload("block_actions", person, self.workspace.trigger(person.id), more))

    def shortcut(self, user: str, channel: str, message_ts: str, callback_id: str) -> Ack:
        """Chooses a message shortcut on a message."""
        person, place = self._in(user, channel)
        message = self.workspace.find(place.id, message_ts)
        if message is None:
            raise LookupError(f"no message {message_ts} in {channel}")
        response_url = f"{self.url}/response/{self.workspace.response_url(place.id, person.id, message.ts)}"
        more = {"callback_id": callback_id, "message_ts": message.ts, "message": message.wire(), "channel": {"id": place.id, "name": place.name},
                "action_ts": self.workspace.ts(), "response_url": response_url}  # fmt: skip
        return self.postman.interaction(interaction_payload("message_action", person, self.workspace.trigger(person.id), more))

    def submit(self, user: str, values: Mapping[str, str], view_id: str | None = None) -> Ack:
        """Sends the modal on a person's screen (the newest unless one is named) with the values of its inputs by action_id. Raises LookupError."""
        person = self.workspace.person(user)
        views = [view for view in self.views(user) if view_id in (None, view.id)]
        if not views:
            raise LookupError(f"{person.name} has no such modal open")
        view, state = views[-1], {}
        for block in view.body["blocks"]:
            if block["type"] == "input":
                action = block["element"]["action_id"]
                state[block["block_id"]] = {action: {"type": "plain_text_input", "value": values.get(action)}}
        more = {"view": {**view.wire(), "state": {"values": state}}, "response_urls": []}
        ack = self.postman.interaction(interaction_payload("view_submission", person, self.workspace.trigger(person.id), more))
        self._after_submission(view, ack)
        return ack

    def _after_submission(self, view: View, ack: Ack) -> None:
        with self.workspace.lock:
            view.errors = {}
            if ack.error:
                return
            action = ack.body.get("response_action")
            if action == "errors":
                view.errors = dict(ack.body.get("errors", {}))
            elif action == "update":
                view.body = ack.body["view"]
            else:
                self.workspace.views.pop(view.id, None)
            self.workspace.record("view", view=view.id, user=view.user)

    def _in(self, user: str, channel: str) -> tuple[Member, Channel]:
        person, place = self.workspace.person(user), self.workspace.channel(channel)
        if not self.workspace.is_member(person.id, place):
            raise LookupError(f"{person.name} is not in #{place.name}")
        return person, place

    def _shown(self, ack: Ack, person: Member, place: Channel) -> Ack:
        """What the answer to a command puts before the person's eyes."""
        if ack.error:
            text = f"/oom failed with the error \"{ack.error}\""
            ack.ephemeral = self.workspace.add(Message(self.workspace.ts(), place.id, BOT_USER, text, only_for=person.id))
        elif ack.text or ack.body.get("blocks"):
            only_for = "" if ack.body.get("response_type") == "in_channel" else person.id
            blocks = list(ack.body.get("blocks") or [])
            ack.ephemeral = self.workspace.add(Message(self.workspace.ts(), place.id, BOT_USER, ack.text, blocks, None, None, BOT_ID, only_for=only_for))
        return ack

    def _act(self, body: Json) -> Json:
        """One act of a person, from a page: {"act": "command", "user": ..., "channel": ..., ...}."""
        what, user = str(body.get("act")), str(body.get("user"))
        channel, text, thread = str(body.get("channel", "")), str(body.get("text", "")), body.get("thread_ts") or None
        if what == "command":
            ack = self.command(user, channel, text)
        elif what == "mention":
            ack = self.mention(user, channel, thread, text)
        elif what == "click":
            ack = self.click(user, channel, str(body.get("message_ts")), str(body.get("button")))
        elif what == "shortcut":
            ack = self.shortcut(user, channel, str(body.get("message_ts")), str(body.get("callback_id")))
        elif what == "submit":
            ack = self.submit(user, dict(body.get("values") or {}), body.get("view_id"))
        elif what == "close":
            self.workspace.views.pop(str(body.get("view_id")), None)
            ack = Ack(200, 0.0)
        elif what == "say":
            self.say(user, channel, text, thread)
            ack = Ack(200, 0.0)
        else:
            raise ValueError("act is one of command, mention, click, shortcut, submit, close, say")
        return {"status": ack.status, "seconds": round(ack.seconds, 3), "error": ack.error, "body": ack.body}
