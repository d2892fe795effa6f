"""The composition root: settings in, a running Application out. The only file that knows everyone.

It binds the use-cases to the queue, the queue to the database, the chat to Slack, reading and writing credentials to their clients. It decides nothing
about a case. What is missing to start is told at once, in one line each.
"""

import contextlib
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

from bot import playbooks
from bot.audit import AuditTrail, load_key
from bot.cases import Cases, Timings
from bot.cases.engine import real
from bot.clients import kubernetes_config
from bot.clients.databricks import DatabricksReader, Workspace
from bot.clients.databricks_writer import DatabricksWriter
from bot.clients.kubernetes_writer import KubernetesWriter
from bot.clients.own_folder import OwnFolder
from bot.clients.pagerduty import PagerDuty
from bot.clients.prometheus import Prometheus
from bot.clients.sqlite import Database
from bot.clients.ssh import SshShells
from bot.clients.ssh_hands import SshHands
from bot.clock import SystemClock
from bot.errors import BadSettings, StoreError, WorldError
from bot.evidence import commands
from bot.evidence.alert import target_of
from bot.http_server import HttpServer
from bot.model import Request
from bot.policy import ApproverRule, Freeze, Policy, Quota, Reach, ReadRule, Window
from bot.ports import ClusterReader, ClusterWriter, NodeHands, Shells
from bot.queue.sqlite import SqliteQueue
from bot.redact import redact
from bot.remediation.measure import Server
from bot.settings import Settings
from bot.store.sqlite import SqliteStore
from handlers import routes
from handlers.alerts.pagerduty import PagerDutyWebhook
from handlers.slack import app as slack_app
from handlers.slack import http as slack_http
from handlers.slack.chat import SlackChat
from handlers.slack.chat import client as slack_client
from handlers.slack.people import SlackPeople
from handlers.slack.socket_mode import SlackSocket

log = logging.getLogger(__name__)


def policy_of(settings: Settings) -> Policy:
    """The rules as `bot/policy.py` wants them. Without `policy.read`, the configured channels may look at everything."""
    rules, channels = settings.policy, tuple(dict.fromkeys([*settings.slack.channels, *settings.pagerduty.channels.values()]))
    read = tuple(ReadRule(rule.channels, rule.people, Reach(rule.clusters, rule.namespaces)) for rule in rules.read)
    return Policy(
        read=read or (ReadRule(channels),),
        actions=rules.actions,
        approvers=tuple(
            ApproverRule(rule.groups, rule.people, Reach(rule.clusters, rule.namespaces), rule.actions, rule.count) for rule in rules.approvers
        ),
        windows=tuple(Window(one.days, one.start, one.end, one.time_zone, Reach(one.clusters, one.namespaces)) for one in rules.windows),
        freezes=tuple(Freeze(*one.span(), one.reason, Reach(one.clusters, one.namespaces)) for one in rules.freezes),
        quotas=tuple(Quota(one.per_hour, one.each, Reach(one.clusters, one.namespaces)) for one in rules.quotas),
        undo_any_time=rules.undo_any_time,
        identity=rules.identity,
        gitops_in_place=rules.gitops_in_place,
        approval_channels=rules.approval_channels or channels,
        namespaces=rules.namespaces,
        protected_namespaces=rules.protected_namespaces,
        second_person=rules.second_person,
        low_risk_alone=rules.low_risk_alone,
        undo_alone=rules.undo_alone,
        highest_risk=rules.highest_risk,
        typed_from=rules.typed_from,
    )


def timings_of(settings: Settings) -> Timings:
    times = settings.timings
    return Timings(
        approval_ttl=timedelta(seconds=times.approval_ttl_s),
        collect_budget_s=times.collect_budget_s,
        watch_interval=timedelta(seconds=times.watch_interval_s),
        watch_timeout=timedelta(seconds=times.watch_timeout_s),
        verification_window=timedelta(seconds=times.verification_window_s),
        verification_interval=timedelta(seconds=times.verification_interval_s),
        aftercare=timedelta(seconds=times.aftercare_s),
        aftercare_interval=timedelta(seconds=times.aftercare_interval_s),
        undo_window=timedelta(seconds=times.undo_window_s),
    )


def missing(settings: Settings) -> list[str]:
    """What `serve` cannot do without, one line each."""
    slack, lines = settings.slack, []
    if not slack.bot_token.get_secret_value():
        lines.append("slack.bot_token: empty; the bot talks in Slack (OOMBOT_SLACK_BOT_TOKEN or OOMBOT_SLACK_BOT_TOKEN_FILE)")
    if slack.mode == "http" and not slack.signing_secret.get_secret_value():
        lines.append("slack.signing_secret: empty; slack.mode http needs it to know Slack's requests from others")
    if slack.mode == "socket" and not slack.app_token.get_secret_value():
        lines.append("slack.app_token: empty; slack.mode socket needs it (xapp-...)")
    if not slack.channels and not settings.policy.read:
        lines.append("slack.channels: empty; nobody could ask anything")
    if not settings.clusters and not settings.databricks:
        lines.append("clusters: empty; there is nothing to look at")
    if settings.pagerduty.webhook_secrets and not settings.pagerduty.api_token.get_secret_value():
        lines.append("pagerduty.api_token: empty; a webhook does not carry what its alert is about")
    return lines


@dataclass(frozen=True, slots=True)
class _Slack:
    """Slack's parts, as long as they belong together."""

    chat: SlackChat
    people: SlackPeople
    client: Any


class Application:
    """`start` returns when everything runs; `stop` finishes what has begun. `url` is where it listens, `asgi` the web application."""

    def __init__(self, settings: Settings) -> None:
        """Builds all parts and connects to nothing yet. Raises BadSettings, KnowledgeError, BadInput, StoreError."""
        lines = missing(settings)
        if lines:
            raise BadSettings(lines)
        self.settings, self.clock = settings, SystemClock()
        self._folder = OwnFolder(settings.data_dir)
        self._server = HttpServer(settings.http.host, settings.http.port)
        self._socket: SlackSocket | None = None
        self._stopping = False
        self.url = ""
        knowledge = playbooks.load(settings.playbooks)
        self.policy = policy_of(settings)
        self._folder.take()
        with contextlib.ExitStack() as undo:
            undo.callback(self._folder.give_back)
            self._build(knowledge)
            undo.pop_all()

    def _build(self, knowledge: Any) -> None:
        settings = self.settings
        database = Database(settings.data_dir / "oombot.db")
        self.store = SqliteStore(database)
        self.queue = SqliteQueue(database, self.clock, workers=settings.workers, lease_s=settings.timings.lease_s)
        key = load_key(settings.data_dir / "audit.key", settings.audit_key.get_secret_value())
        self.audit = AuditTrail(settings.data_dir / "audit.jsonl", key, self.clock, self.store, redact)
        self.readers: Mapping[str, ClusterReader] = {
            **{one.name: kubernetes_config.reader(one, commands.in_pod) for one in settings.clusters},
            **{one.name: DatabricksReader(Workspace(one.name, one.host, one.token_file)) for one in settings.databricks},
        }
        hands = self._hands()
        self.writers: Mapping[str, ClusterWriter] = {
            **{one.name: KubernetesWriter(one.name, kubernetes_config.api_client(one.write), hands) for one in settings.clusters if one.write is not None},
            **{
                one.name: DatabricksWriter(Workspace(one.name, one.host, one.write_token_file))
                for one in settings.databricks
                if one.write_token_file is not None
            },
        }
        self._slack = self._slack_parts()
        self.cases = Cases(
            self.store,
            self.queue,
            self.readers,
            self.writers,
            self._shells(),
            self._slack.chat,
            self._slack.people,
            self.policy,
            knowledge,
            self.audit,
            self.clock,
            timings=timings_of(settings),
            engine=real(hands, self._metrics()),
            complete=self._completing(),
        )
        self.cases.bind(self.queue)
        self.asgi = self._web()

    # -------------------------------------------------------- parts

    def _slack_parts(self) -> _Slack:
        slack = self.settings.slack
        client = slack_client(slack.bot_token.get_secret_value(), slack.api_url)
        try:
            home = slack.home_team or slack_app.home_of(client)
        except WorldError as wrong:
            raise BadSettings([f"slack.bot_token: {wrong} (asked whose it is; slack.home_team set by hand spares the question)"]) from wrong
        people = SlackPeople(client, home)
        chat = SlackChat(
            client, people, language=self.settings.language, approvers=self.policy.named_approvers, second_person=self.policy.needs_second_person, command=slack.command,
        )
        return _Slack(chat, people, client)

    def _shells(self) -> Shells | None:
        return SshShells(self.settings.ssh, commands.on_node) if self.settings.ssh.user else None

    def _metrics(self) -> Mapping[str, Server]:
        found = {one.name: one.prometheus for one in self.settings.clusters if one.prometheus is not None}
        return {name: Server(Prometheus(name, one), one.labels) for name, one in found.items()}

    def _hands(self) -> NodeHands | None:
        ssh = self.settings.ssh
        if not ssh.stop_user:
            return None
        return SshHands(ssh.model_copy(update={"user": ssh.stop_user, "key": ssh.stop_key, "certificate": None, "agent": False}))

    def _completing(self) -> Callable[[Request], Request] | None:
        """The details of a PagerDuty incident, and the target that they name."""
        token = self.settings.pagerduty.api_token.get_secret_value()
        if not token:
            return None
        client = PagerDuty(token, self.settings.pagerduty.api_url)

        def complete(request: Request) -> Request:
            if request.alert is None or request.alert.source != "pagerduty" or request.query.kind != "unknown":
                return request
            alert = client.fetch(request.alert)
            return replace(request, alert=alert, query=target_of(alert))

        return complete

    def _web(self) -> Any:
        slack, pagerduty = self.settings.slack, self.settings.pagerduty
        connection = slack_app.Connection(slack.signing_secret.get_secret_value(), slack.mode == "socket", slack.command)
        bolt = slack_app.build(connection, self._slack.client, self.cases, self._slack.chat, self.clock)
        if slack.mode == "socket":
            self._socket = SlackSocket(bolt, slack.app_token.get_secret_value(), slack.api_url)
        secrets = [secret.get_secret_value() for secret in pagerduty.webhook_secrets]
        webhook = PagerDutyWebhook(self.cases, secrets, pagerduty.channels, self.clock) if secrets else None
        return routes.asgi(
            slack=slack_http.answering(bolt) if slack.mode == "http" else None, pagerduty=webhook.answer if webhook else None, ready=self.not_ready
        )

    # -------------------------------------------------------- life

    def start(self) -> None:
        """Picks up the open cases, then listens. Raises what a part cannot do without, with nothing left running."""
        with contextlib.ExitStack() as undo:
            undo.callback(self.stop)
            self.url = self._server.bind()
            self.queue.start()
            found = self.cases.resume()
            log.info("%d open case(s) picked up", found)
            self._server.start(self.asgi)
            if self._socket is not None:
                self._socket.start()
            undo.pop_all()

    def stop(self) -> None:
        """Takes nothing new, lets running jobs end (a few seconds), gives the rest back to the next start."""
        self._stopping = True
        if self._socket is not None:
            self._socket.stop()
        self._server.stop()
        self.queue.stop(timeout_s=8)
        self._folder.give_back()

    def not_ready(self) -> Sequence[str]:
        """What keeps it from working, for the readiness probe."""
        if self._stopping:
            return ["it is being stopped"]
        try:
            self.store.get_flag("ready")
        except StoreError as wrong:
            return [str(wrong)]
        return [*self.queue.trouble(), *(self._socket.trouble() if self._socket is not None else ())]
