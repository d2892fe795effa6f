"""The Web API methods that the bot calls, with the answers and refusals of Slack's. No HTTP here: arguments in, a JSON answer out.

Source: docs.slack.dev, one method a page; the error words are Slack's.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from bot.sandbox.slack import limits
from bot.sandbox.slack.workspace import APP, BOT_ID, BOT_USER, TEAM, Channel, Member, Message, Workspace

Json = dict[str, Any]
Arguments = Mapping[str, Any]


def refuse(error: str, *details: str) -> Json:
    answer: Json = {"ok": False, "error": error}
    if details:
        answer["response_metadata"] = {"messages": [f"[ERROR] {each}" for each in details]}
    return answer


def call(workspace: Workspace, method: str, arguments: Arguments) -> Json:
    """One method call with a valid bot token."""
    if method not in METHODS:
        return refuse("unknown_method")
    with workspace.lock:
        return METHODS[method](workspace, arguments)


# ---------------------------------------------------------------- messages


def _structure(arguments: Arguments, name: str) -> Any:
    """An argument that is JSON: given as such in a JSON body, as a string in a form."""
    value = arguments.get(name)
    if isinstance(value, str):
        try:
            return json.loads(value)
        except ValueError:
            return value
    return value


def _conversation(workspace: Workspace, arguments: Arguments) -> tuple[Channel | None, Json]:
    """The channel to write to, or the refusal. A person's id stands for the direct conversation."""
    name = str(arguments.get("channel", ""))
    if name in workspace.people:
        return workspace.direct(name), {}
    channel = workspace.channels.get(name)  # by id only: Slack's bots cannot use names either
    if channel is None or (channel.private and not channel.bot_is_in):
        return None, refuse("channel_not_found")
    return (channel, {}) if channel.bot_is_in else (None, refuse("not_in_channel"))


def _content(arguments: Arguments) -> tuple[str, list[Json], Json]:
    text, blocks = str(arguments.get("text") or ""), _structure(arguments, "blocks")
    if not text and not blocks:
        return "", [], refuse("no_text")
    if len(text) > limits.MESSAGE_TEXT:
        return "", [], refuse("msg_too_long")
    mistakes = limits.message_mistakes(text, blocks)
    if mistakes == ["msg_blocks_too_long"]:
        return "", [], refuse("msg_blocks_too_long")
    return text, list(blocks or []), refuse("invalid_blocks", *mistakes) if mistakes else {}


def _metadata(arguments: Arguments) -> tuple[Json | None, Json]:
    metadata = _structure(arguments, "metadata")
    if metadata is None:
        return None, {}
    if not isinstance(metadata, dict) or not isinstance(metadata.get("event_type"), str) or not isinstance(metadata.get("event_payload"), dict):
        return None, refuse("invalid_metadata_format")
    return metadata, {}


def _yes(value: object) -> bool:
    return value not in (None, False, "false", "False", "0", 0)


def post_message(workspace: Workspace, arguments: Arguments) -> Json:
    channel, refusal = _conversation(workspace, arguments)
    text, blocks, wrong = _content(arguments)
    metadata, malformed = _metadata(arguments)
    thread = arguments.get("thread_ts") or None
    refusal = refusal or wrong or malformed
    if channel is not None and not refusal and thread and workspace.find(channel.id, str(thread)) is None:
        refusal = refuse("thread_not_found")
    if channel is None or refusal:
        return refusal
    message = Message(workspace.ts(), channel.id, BOT_USER, text, blocks, thread, metadata, BOT_ID, unfurl=_yes(arguments.get("unfurl_links", True)))
    workspace.add(message)
    return {"ok": True, "channel": channel.id, "ts": message.ts, "message": message.wire()}


def update(workspace: Workspace, arguments: Arguments) -> Json:
    channel, refusal = _conversation(workspace, arguments)
    if channel is None:
        return refusal
    message = workspace.find(channel.id, str(arguments.get("ts", "")))
    if message is None or message.only_for:
        return refuse("message_not_found")
    if message.bot_id != BOT_ID:
        return refuse("cant_update_message")
    text, blocks, wrong = _content(arguments)
    metadata, malformed = _metadata(arguments)
    if wrong or malformed:
        return wrong or malformed
    message.text, message.blocks, message.edited = text, blocks, message.edited + 1
    message.metadata = metadata or message.metadata
    for number, block in enumerate(blocks):
        block.setdefault("block_id", f"b{number}")
    workspace.record("update", channel=channel.id, ts=message.ts)
    return {"ok": True, "channel": channel.id, "ts": message.ts, "text": text, "message": message.wire()}


def post_ephemeral(workspace: Workspace, arguments: Arguments) -> Json:
    channel, refusal = _conversation(workspace, arguments)
    user = str(arguments.get("user", ""))
    if channel is None:
        return refusal
    if user not in workspace.people or not workspace.is_member(user, channel):
        return refuse("user_not_in_channel")
    text, blocks, wrong = _content(arguments)
    if wrong:
        return wrong
    message = Message(workspace.ts(), channel.id, BOT_USER, text, blocks, arguments.get("thread_ts") or None, None, BOT_ID, only_for=user)
    workspace.add(message)
    return {"ok": True, "message_ts": message.ts}


def delete(workspace: Workspace, arguments: Arguments) -> Json:
    channel, refusal = _conversation(workspace, arguments)
    if channel is None:
        return refusal
    message = workspace.find(channel.id, str(arguments.get("ts", "")))
    if message is None:
        return refuse("message_not_found")
    if message.bot_id != BOT_ID:
        return refuse("cant_delete_message")
    workspace.all_messages.remove(message)
    workspace.record("delete", channel=channel.id, ts=message.ts)
    return {"ok": True, "channel": channel.id, "ts": message.ts}


def permalink(workspace: Workspace, arguments: Arguments) -> Json:
    channel, ts = str(arguments.get("channel", "")), str(arguments.get("message_ts", ""))
    if workspace.find(channel, ts) is None:
        return refuse("message_not_found")
    return {"ok": True, "channel": channel, "permalink": f"https://sandbox.slack.com/archives/{channel}/p{ts.replace('.', '')}"}


# ---------------------------------------------------------------- conversations


def _described(workspace: Workspace, channel: Channel) -> Json:
    return {
        "id": channel.id, "name": channel.name, "is_channel": not channel.private, "is_private": channel.private, "is_im": channel.id.startswith("D"),
        "is_member": channel.bot_is_in, "is_ext_shared": channel.shared, "is_org_shared": False, "is_archived": False, "context_team_id": TEAM,
    }  # fmt: skip


def info(workspace: Workspace, arguments: Arguments) -> Json:
    channel = workspace.channels.get(str(arguments.get("channel", "")))
    if channel is None or (channel.private and not channel.bot_is_in):
        return refuse("channel_not_found")
    return {"ok": True, "channel": _described(workspace, channel)}


def _page(arguments: Arguments, found: Sequence[Message]) -> Json:
    """One page: `oldest` and `latest` bound it, `limit` and `cursor` cut it. A bad cursor is refused."""
    oldest, latest = float(arguments.get("oldest") or 0), float(arguments.get("latest") or "inf")
    limit, cursor = max(1, min(int(arguments.get("limit") or 100), 999)), str(arguments.get("cursor") or "")
    if cursor and not cursor.removeprefix("after:").isdigit():
        return refuse("invalid_cursor")
    within = [each for each in found if oldest <= float(each.ts) <= latest]
    begin = int(cursor.removeprefix("after:") or 0)
    everything = _yes(arguments.get("include_all_metadata"))
    shown = [each.wire(with_metadata=everything) for each in within[begin : begin + limit]]
    more = {"response_metadata": {"next_cursor": f"after:{begin + limit}"}} if begin + limit < len(within) else {}
    return {"ok": True, "messages": shown, "has_more": bool(more), **more}


def replies(workspace: Workspace, arguments: Arguments) -> Json:
    """A thread, oldest first."""
    channel, refusal = _conversation(workspace, arguments)
    if channel is None:
        return refusal
    found = workspace.replies(channel.id, str(arguments.get("ts", "")))
    if not found:
        return refuse("thread_not_found")
    return _page(arguments, found)


def history(workspace: Workspace, arguments: Arguments) -> Json:
    """A channel without its threads, newest first."""
    channel, refusal = _conversation(workspace, arguments)
    if channel is None:
        return refusal
    return _page(arguments, [each for each in reversed(workspace.in_channel(channel.id)) if not each.thread_ts])


def members(workspace: Workspace, arguments: Arguments) -> Json:
    channel, refusal = _conversation(workspace, arguments)
    if channel is None:
        return refusal
    everybody = [user for user in workspace.people if workspace.is_member(user, channel)]
    return {"ok": True, "members": everybody, "response_metadata": {"next_cursor": ""}}


def open_direct(workspace: Workspace, arguments: Arguments) -> Json:
    user = str(arguments.get("users", ""))
    if user not in workspace.people:
        return refuse("user_not_found")
    return {"ok": True, "channel": {"id": workspace.direct(user).id}}


# ---------------------------------------------------------------- people


def _user(member: Member, *, with_locale: bool) -> Json:
    out: Json = {
        "id": member.id, "team_id": member.team, "name": member.name.lower(), "deleted": member.deleted, "is_bot": member.bot, "is_app_user": False,
        "is_restricted": member.guest, "is_ultra_restricted": False, "is_stranger": member.team != TEAM, "tz": "Etc/UTC",
        "profile": {"real_name": member.name, "display_name": member.name, "email": member.email},
    }  # fmt: skip
    if with_locale:
        out["locale"] = member.locale
    return out


def user_info(workspace: Workspace, arguments: Arguments) -> Json:
    member = workspace.people.get(str(arguments.get("user", "")))
    if member is None:
        return refuse("user_not_found")
    return {"ok": True, "user": _user(member, with_locale=_yes(arguments.get("include_locale")))}


def group_members(workspace: Workspace, arguments: Arguments) -> Json:
    group = workspace.groups.get(str(arguments.get("usergroup", "")))
    return refuse("no_such_subteam") if group is None else {"ok": True, "users": list(group.members)}


def group_list(workspace: Workspace, arguments: Arguments) -> Json:
    return {"ok": True, "usergroups": [{"id": each.id, "team_id": TEAM, "handle": each.handle, "name": each.handle} for each in workspace.groups.values()]}


# ---------------------------------------------------------------- modals


def _checked_view(arguments: Arguments) -> tuple[Json, Json]:
    view = _structure(arguments, "view")
    mistakes = limits.view_mistakes(view)
    return (view if isinstance(view, dict) else {}), (refuse("invalid_arguments", *mistakes) if mistakes else {})


def open_view(workspace: Workspace, arguments: Arguments) -> Json:
    user, error = workspace.use_trigger(str(arguments.get("trigger_id", "")))
    view, wrong = _checked_view(arguments)
    if error:
        return refuse(error)
    return wrong or {"ok": True, "view": workspace.open_view(user, view).wire()}


def push_view(workspace: Workspace, arguments: Arguments) -> Json:
    user, error = workspace.use_trigger(str(arguments.get("trigger_id", "")))
    view, wrong = _checked_view(arguments)
    if not error and sum(each.user == user for each in workspace.views.values()) >= 3:
        error = "push_limit_reached"
    if error:
        return refuse(error)
    return wrong or {"ok": True, "view": workspace.open_view(user, view).wire()}


def update_view(workspace: Workspace, arguments: Arguments) -> Json:
    known = workspace.views.get(str(arguments.get("view_id", "")))
    view, wrong = _checked_view(arguments)
    if known is None:
        return refuse("not_found")
    if arguments.get("hash") and arguments["hash"] != known.hash:
        return refuse("hash_conflict")
    if wrong:
        return wrong
    known.body = view
    workspace.record("view", view=known.id, user=known.user)
    return {"ok": True, "view": known.wire()}


def auth_test(workspace: Workspace, arguments: Arguments) -> Json:
    return {
        "ok": True, "url": "https://sandbox.slack.com/", "team": "Sandbox", "user": "oombot", "team_id": TEAM, "user_id": BOT_USER,
        "bot_id": BOT_ID, "app_id": APP, "is_enterprise_install": False,
    }  # fmt: skip


METHODS: Mapping[str, Callable[[Workspace, Arguments], Json]] = {
    "auth.test": auth_test,
    "chat.postMessage": post_message,
    "chat.update": update,
    "chat.postEphemeral": post_ephemeral,
    "chat.delete": delete,
    "chat.getPermalink": permalink,
    "conversations.info": info,
    "conversations.replies": replies,
    "conversations.history": history,
    "conversations.members": members,
    "conversations.open": open_direct,
    "users.info": user_info,
    "usergroups.users.list": group_members,
    "usergroups.list": group_list,
    "views.open": open_view,
    "views.push": push_view,
    "views.update": update_view,
}
