"""Messages of a Case on Slack: `SlackChat` implements ports.Chat.

A message carries its Case and purpose as metadata (ids only: every app of the workspace can read it). When it is not known whether a post arrived,
that metadata finds it again, so that nothing stands in a channel twice. Nothing that is posted unfurls, and nothing in it is parsed but our own markup.
"""

from collections.abc import Callable, Mapping
from typing import Any

from slack_sdk import WebClient

from bot.errors import NotFound, Permanent, Rejected, WorldError
from bot.model import Actor, Case, Conversation, Operation, Target, Words
from handlers.slack import blocks, finding, kit, wording
from handlers.slack.errors import Json, calling
from handlers.slack.people import SlackPeople

EVENT = "oombot"
QUIET: Mapping[str, Any] = {"unfurl_links": False, "unfurl_media": False, "parse": "none", "link_names": False}


def client(token: str, base_url: str = "https://slack.com/api/", timeout_s: int = 10) -> WebClient:
    """A Web API client that never repeats a call by itself: slack_sdk's own retry after a broken connection can post twice."""
    return WebClient(token, base_url=base_url, timeout=timeout_s, retry_handlers=[])


class SlackChat:
    """`approvers` names who may approve an action for a target, and `second_person` says whether it takes another one: for showing. `language`: en, zh, or auto (the language of whoever asked)."""

    def __init__(
        self, client: WebClient, people: SlackPeople, *, language: str = "auto",
        approvers: Callable[[Target, str | None], tuple[str, ...]] = lambda _target, _action: (), second_person: Callable[[Operation], bool] = lambda _: True,
        command: str = "/oom",
    ) -> None:  # fmt: skip
        self._client, self._people, self._home, self._command = client, people, "", command
        self._language, self._approvers, self._second_person = language, approvers, second_person

    # ------------------------------------------------------------ the port

    def post(self, case: Case, purpose: str) -> str:
        """Posts and gives the message's `ts`. Looks for it first when an earlier try is not known to have failed (an empty id in `case.posts`)."""
        channel, thread = self._place(case, purpose)
        if case.posts.get(purpose) == "":
            found = finding.find(self._client, self._metadata(case, purpose), channel, thread, case.created_at)
            if found and self._rewritten(case, purpose, found):
                return found
        answer = self._sent("chat.postMessage", case, purpose, lambda content: self._client.chat_postMessage(channel=channel, thread_ts=thread, **QUIET, **content))
        return str(answer["ts"])

    def update(self, case: Case, purpose: str, message: str) -> None:
        channel, _ = self._place(case, purpose)
        self._sent("chat.update", case, purpose, lambda content: self._client.chat_update(channel=channel, ts=message, parse="none", link_names=False, **content))

    def _rewritten(self, case: Case, purpose: str, message: str) -> bool:
        """False when it cannot be rewritten any more."""
        try:
            self.update(case, purpose, message)
        except NotFound:
            return False
        return True

    def whisper(self, actor: Actor, conversation: Conversation, words: Words) -> None:
        """An ephemeral message. Slack does not promise to show it."""
        self.tell(actor.id, conversation, wording.say(words, self.language_of(actor.id), self._command))

    # ------------------------------------------------------------ for the listeners

    def tell(self, person: str, conversation: Conversation, mrkdwn: str) -> None:
        """An ephemeral message of text that is escaped already."""
        arguments: dict[str, Any] = {"channel": conversation.channel, "user": person, "text": kit.clip(mrkdwn, kit.FALLBACK_TEXT)}
        if conversation.thread:
            arguments["thread_ts"] = conversation.thread
        calling("chat.postEphemeral", lambda: self._client.chat_postEphemeral(parse="none", link_names=False, **arguments))

    def say(self, conversation: Conversation, mrkdwn: str) -> None:
        """A message for everybody there, of text that is escaped already."""
        text = kit.clip(mrkdwn, kit.FALLBACK_TEXT)
        calling("chat.postMessage", lambda: self._client.chat_postMessage(channel=conversation.channel, thread_ts=conversation.thread, text=text, **QUIET))

    def address_of(self, case: Case) -> str:
        """The web address of the Case's thread; "" while it has none, or Slack does not say where we are."""
        place, top = case.request.conversation, case.posts.get("top")
        if place is None or not top:
            return ""
        if not self._home:
            try:
                self._home = str(calling("auth.test", self._client.auth_test).get("url") or "")
            except WorldError:
                return ""
        return f"{self._home}archives/{place.channel}/p{top.replace('.', '')}"

    def language_of(self, person: str) -> str:
        """The language to speak to somebody in, without asking Slack."""
        return self._people.language(person) if self._language == "auto" else self._language

    def open_view(self, trigger_id: str, view: dict[str, Any]) -> None:
        calling("views.open", lambda: self._client.views_open(trigger_id=trigger_id, view=view))

    # ------------------------------------------------------------ pieces

    def _place(self, case: Case, purpose: str) -> tuple[str, str | None]:
        conversation = case.request.conversation
        if conversation is None:
            raise Permanent(f"case {case.id} belongs to no channel")
        if purpose == "top":
            return conversation.channel, conversation.thread
        return conversation.channel, conversation.thread or case.posts.get("top") or None

    def _sent(self, what: str, case: Case, purpose: str, send: Callable[[dict[str, Any]], Any]) -> Json:
        """Sends the message; a workspace that refuses a table (Slack rolls out kinds of blocks in phases) gets it as text."""
        content = self._content(case, purpose)
        try:
            return calling(what, lambda: send(content))
        except Rejected:
            if all(block["type"] != "table" for block in content["blocks"]):
                raise
        return calling(what, lambda: send({**content, "blocks": kit.without_tables(content["blocks"])}))

    def _content(self, case: Case, purpose: str) -> dict[str, Any]:
        action = case.operation.remediation.action if case.operation else None
        approvers = self._approvers(case.target, action) if case.target else ()
        second = case.operation is None or self._second_person(case.operation)
        text, made = blocks.message(case, purpose, self._language_of(case), approvers, second_person=second, command=self._command)
        return {"text": text, "blocks": made, "metadata": self._metadata(case, purpose)}

    @staticmethod
    def _metadata(case: Case, purpose: str) -> Json:
        return {"event_type": EVENT, "event_payload": {"case": case.id, "purpose": purpose}}

    def _language_of(self, case: Case) -> str:
        """A thread is written in the language of whoever asked; one that an alert started in English."""
        if self._language != "auto":
            return self._language
        asker = case.request.actor
        if asker.origin != "slack":
            return "en"
        try:
            return self._people.person(asker.id).language
        except WorldError:  # a thread in the wrong language is better than none
            return self._people.language(asker.id)
