"""Slack's failures as ours: what may help to try again is Temporary, the rest Permanent. The only place that names slack_sdk's exceptions."""

import json
import time
from collections.abc import Callable, Mapping
from http.client import HTTPException
from typing import Any

from slack_sdk.errors import SlackApiError, SlackClientError

from bot.errors import Forbidden, NotFound, Permanent, Rejected, Temporary, Unreachable

Json = Mapping[str, Any]

PATIENCE_S = 10.0  # a longer Retry-After is for the queue, not for a sleeping thread
_TEMPORARY = frozenset({"ratelimited", "rate_limited", "internal_error", "fatal_error", "service_unavailable", "request_timeout", "team_added_to_org"})
_FORBIDDEN = frozenset({"invalid_auth", "not_authed", "account_inactive", "token_revoked", "token_expired", "missing_scope", "not_allowed_token_type", "no_permission", "access_denied"})
_NOT_FOUND = frozenset({"channel_not_found", "user_not_found", "users_not_found", "message_not_found", "thread_not_found", "invalid_thread_ts", "edit_window_closed", "cant_update_message", "no_such_subteam", "not_in_channel", "user_not_in_channel", "is_archived"})


def calling(what: str, call: Callable[[], Any], *, sleep: Callable[[float], None] = time.sleep) -> Json:
    """Runs one call of the Web API; after a 429 once more when the time that Slack names has passed. Raises Temporary or Permanent."""
    try:
        return _once(what, call)
    except RateLimited as limited:
        if limited.after_s > PATIENCE_S:
            raise
        sleep(limited.after_s)
        return _once(what, call)


class RateLimited(Temporary):
    """Slack wants fewer calls. `after_s`: when to come back."""

    def __init__(self, what: str, after_s: float) -> None:
        super().__init__(f"Slack limits {what}; next try in {after_s:.0f} s")
        self.after_s = after_s


def _once(what: str, call: Callable[[], Any]) -> Json:
    try:
        answer = call()
    except SlackApiError as refused:
        raise _translated(what, refused.response) from None
    except (SlackClientError, OSError, HTTPException, json.JSONDecodeError) as broken:
        raise Unreachable(f"Slack did not answer {what}: {type(broken).__name__}") from None
    data = answer.data
    if not isinstance(data, dict):
        raise Temporary(f"Slack answered {what} with something that is not JSON")
    return data


def _translated(what: str, response: Any) -> Exception:
    status, data = int(getattr(response, "status_code", 0)), getattr(response, "data", None)
    error = str(data.get("error", "")) if isinstance(data, dict) else ""
    if status == 429 or error in ("ratelimited", "rate_limited"):
        return RateLimited(what, _seconds(getattr(response, "headers", {})))
    if status >= 500 or error in _TEMPORARY or error.startswith("Received a response in a non-JSON format"):
        return Temporary(f"Slack failed at {what} (HTTP {status})")
    kind = Forbidden if error in _FORBIDDEN else NotFound if error in _NOT_FOUND else Rejected if error in ("invalid_blocks", "msg_too_long", "msg_blocks_too_long") else Permanent
    details = (data.get("response_metadata") or {}).get("messages", []) if isinstance(data, dict) else []
    return kind(f"Slack refused {what}: {error or status}" + (f" ({'; '.join(map(str, details[:3]))})" if details else ""))


def _seconds(headers: Any) -> float:
    """Retry-After in seconds; 1 when it is missing or no number."""
    found = next((value for name, value in dict(headers).items() if str(name).lower() == "retry-after"), "1")
    try:
        return max(0.0, float(found[0] if isinstance(found, list) else found))
    except (TypeError, ValueError):
        return 1.0
