"""A Slack workspace on this machine, as strict as Slack, with people who can be driven. Never imported by the bot itself."""

from bot.sandbox.slack.fake import CHANNELS, GROUPS, PEOPLE, FakeSlack
from bot.sandbox.slack.outgoing import Ack
from bot.sandbox.slack.workspace import BOT_USER, TEAM, Channel, Group, Member, Message, View

__all__ = ["BOT_USER", "CHANNELS", "GROUPS", "PEOPLE", "TEAM", "Ack", "Channel", "FakeSlack", "Group", "Member", "Message", "View"]
