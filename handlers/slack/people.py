"""Who is who on Slack: `SlackPeople` implements ports.People. Fails closed: when Slack does not say, it raises, and nobody gets anything.

Answers are kept for at most a minute (usergroups.users.list allows some 20 calls a minute), so that somebody who left a group cannot approve for long.
"""

import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from slack_sdk import WebClient

from bot.errors import Permanent, WorldError
from bot.model import Person
from handlers.slack.errors import calling

KEPT_S = 60.0
WORTH_WAITING_S = 0.8  # of the three seconds that Slack gives an answer


class SlackPeople:
    """`home`: the id of our own team (T...) or organisation (E...); whoever belongs elsewhere is a stranger."""

    def __init__(self, client: WebClient, home: str, *, kept_s: float = KEPT_S, now: Callable[[], float] = time.monotonic) -> None:
        self._client, self._home, self._now = client, home, now
        self._kept_s = min(kept_s, KEPT_S)
        self._kept: dict[str, tuple[float, Any]] = {}
        self._lock = threading.Lock()
        self._asking = ThreadPoolExecutor(8, thread_name_prefix="slack-people")

    def person(self, actor_id: str) -> Person:
        """Raises Temporary when Slack does not answer, Permanent when it knows nobody of that id."""
        found: Person = self._cached(f"person:{actor_id}", lambda: self._ask_person(actor_id))
        return found

    def members(self, group: str) -> frozenset[str]:
        """Ids of a user group's members. Raises Temporary, or Permanent (no such group, no paid plan, scope missing)."""
        found: frozenset[str] = self._cached(f"group:{group}", lambda: self._ask_members(group))
        return found

    def language(self, actor_id: str) -> str:
        """The language to answer somebody in at once: an old answer is good enough, a new one is waited for only shortly; English else."""
        with self._lock:
            kept = self._kept.get(f"person:{actor_id}")
        if kept:
            return str(kept[1].language)
        try:
            return self._asking.submit(self.person, actor_id).result(timeout=WORTH_WAITING_S).language
        except (TimeoutError, WorldError):
            return "en"

    def _cached(self, key: str, ask: Callable[[], Any]) -> Any:
        with self._lock:
            kept = self._kept.get(key)
        if kept and self._now() - kept[0] < self._kept_s:
            return kept[1]
        asked_at, answer = self._now(), ask()  # its age counts from the question: Slack may take its time
        with self._lock:
            self._kept[key] = (asked_at, answer)
        return answer

    def _ask_person(self, actor_id: str) -> Person:
        user = calling("users.info", lambda: self._client.users_info(user=actor_id, include_locale=True)).get("user")
        if not isinstance(user, dict) or user.get("id") != actor_id:
            raise Permanent(f"Slack knows nobody with the id {actor_id}")
        return self._person(user)

    def _person(self, user: dict[str, Any]) -> Person:
        team, organisation = str(user.get("team_id") or ""), str((user.get("enterprise_user") or {}).get("enterprise_id") or "")
        return Person(
            id=user["id"], team=team, email=str((user.get("profile") or {}).get("email") or ""),
            language="zh" if str(user.get("locale", "")).lower().startswith("zh") else "en",
            is_bot=bool(user.get("is_bot") or user.get("is_app_user") or user.get("is_workflow_bot") or user["id"] == "USLACKBOT"),
            is_guest=bool(user.get("is_restricted") or user.get("is_ultra_restricted")),
            is_stranger=bool(user.get("is_stranger")) or not self._home or self._home not in (team, organisation),
            is_deleted=bool(user.get("deleted")),
        )  # fmt: skip

    def _ask_members(self, group: str) -> frozenset[str]:
        users = calling("usergroups.users.list", lambda: self._client.usergroups_users_list(usergroup=group, include_disabled=False)).get("users")
        if not isinstance(users, list):
            raise Permanent(f"Slack does not say who is in the group {group}")
        return frozenset(map(str, users))
