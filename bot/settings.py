"""Every setting: type, default, meaning. One file (`oombot.yaml`) plus environment variables `OOMBOT_*`, which win.

The variable of a setting is its path in upper case: `slack.bot_token` is `OOMBOT_SLACK_BOT_TOKEN`. A secret may also be
given by the name of a file that holds it: `OOMBOT_SLACK_BOT_TOKEN_FILE`. Lists and tables in a variable are YAML
(`[a, b]`); a list of words may be written `a,b`. This is the only module that reads the environment; `bot/app.py` hands
its parts to whoever needs them. It reads, checks and connects to nothing.
"""

import re
from collections.abc import Iterator, Mapping
from datetime import date, datetime, time, timedelta
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Any, Literal, Self, get_args, get_origin
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import yaml
from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, SecretStr, ValidationError, model_validator

from bot.errors import BadSettings

DEFAULT_FILE = "oombot.yaml"
PREFIX = "OOMBOT"
FILE_VARIABLE = "OOMBOT_CONFIG"


def _words(value: Any) -> Any:
    """A list of words may be written `a,b`."""
    return [word.strip() for word in value.split(",") if word.strip()] if isinstance(value, str) else value


WordList = Annotated[tuple[str, ...], BeforeValidator(_words)]
SecretList = Annotated[tuple[SecretStr, ...], BeforeValidator(_words)]
NO_SECRET = SecretStr("")
Day = Literal["mon", "tue", "wed", "thu", "fri", "sat", "sun"]
DAYS: tuple[Day, ...] = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
_DAY_ONLY = len("2026-12-24")


def _days(value: Any) -> Any:
    """Days of the week; `mon-fri` is a range."""
    found: list[Any] = []
    for word in _words(value) if isinstance(value, (str, list, tuple)) else [value]:
        first, dash, last = str(word).lower().partition("-")
        ends = DAYS.index(first) if first in DAYS else None, DAYS.index(last) if last in DAYS else None
        found += [DAYS[(ends[0] + ahead) % 7] for ahead in range((ends[1] - ends[0]) % 7 + 1)] if dash and ends[0] is not None and ends[1] is not None else [str(word).lower()]
    return tuple(dict.fromkeys(found))


def _clock_time(value: Any) -> Any:
    """`9:30`, which YAML takes for the number 570 when nobody quotes it, and `24:00`."""
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= 24 * 60:
        value = f"{value // 60:02}:{value % 60:02}"
    if isinstance(value, str):
        hour, _, minute = value.partition(":")
        value = f"{hour.zfill(2)}:{minute}"
    return time(0) if value == "24:00" else value


def _zone(value: str) -> str:
    try:
        ZoneInfo(value)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise ValueError(f"{value!r} is no time zone that this machine knows; as in Europe/Berlin") from None
    return value


def _moment(value: Any) -> Any:
    """A day or a day and time, as text."""
    text = value.isoformat() if isinstance(value, date) else value
    if isinstance(text, str):
        try:
            datetime.fromisoformat(text)
        except ValueError:
            raise ValueError("should be a day (2026-12-24) or a day and time (2026-12-24T18:00)") from None
    return text


ClockTime = Annotated[time, BeforeValidator(_clock_time)]
Zone = Annotated[str, AfterValidator(_zone)]
Moment = Annotated[str, BeforeValidator(_moment)]


class Section(BaseModel):
    """A part of the settings: frozen, and a key that nobody knows is a mistake."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class SlackSettings(Section):
    """The Slack app."""

    mode: Literal["http", "socket"] = Field(default="http", description="how Slack reaches us: http (a public address) or socket (we connect)")
    bot_token: SecretStr = Field(default=NO_SECRET, description="bot token, xoxb-...; empty: no Slack")
    signing_secret: SecretStr = Field(default=NO_SECRET, description="signing secret; needed for mode http")
    app_token: SecretStr = Field(default=NO_SECRET, description="app-level token, xapp-...; needed for mode socket")
    home_team: str = Field(default="", description="id of our own workspace (T...) or organisation (E...); others are refused; empty: asked of Slack")
    channels: WordList = Field(default=(), description="ids of the channels (C...) in which people may ask")
    api_url: str = Field(default="https://slack.com/api/", description="base address of the Web API")
    command: str = Field(default="/oom", description="the slash command")


class PagerDutySettings(Section):
    """PagerDuty: V3 webhooks in, the alerts of an incident by the REST API."""

    webhook_secrets: SecretList = Field(default=(), description="secrets of the webhook subscriptions (several while one is rotated); empty: off")
    api_token: SecretStr = Field(default=NO_SECRET, description="REST API token, for the details of alerts")
    api_url: str = Field(default="https://api.pagerduty.com", description="base address of the REST API")
    channels: dict[str, str] = Field(default_factory=dict, description="service id or name -> channel id where its threads go; `*` for all others")


class Access(Section):
    """Credentials for one API server."""

    in_cluster: bool = Field(default=False, description="use the pod's own service account")
    token_file: Path | None = Field(default=None, description="with in_cluster: token of another service account (the writing one), re-read when it changes")
    kubeconfig: Path | None = Field(default=None, description="kubeconfig file; empty: $KUBECONFIG's default place")
    context: str | None = Field(default=None, description="context in it; empty: its current one")


def _label_names(value: dict[str, str]) -> dict[str, str]:
    for name in value:
        if not re.fullmatch(r"[a-zA-Z_][a-zA-Z0-9_]*", name) or name in ("namespace", "pod", "container"):
            raise ValueError(f"{name[:40]!r} is no label that can tell clusters apart")
    return value


class PrometheusSettings(Section):
    """A cluster's metrics server, asked for what was bad before a change and is it after."""

    url: str = Field(pattern=r"^https?://[^@\s?#]+$", description="base address; /api/v1/query is put behind it")
    token_file: Path | None = Field(default=None, description="file of a bearer token, read anew for each query")
    ca: Path | None = Field(default=None, description="file of the CA that its certificate is checked with; empty: those of the system")
    labels: Annotated[dict[str, str], AfterValidator(_label_names)] = Field(default_factory=dict, description="label -> value that this cluster's rows have on a server for several")
    timeout_s: float = Field(default=5, gt=0, le=15, description="time for one query")


class ClusterSettings(Section):
    """One cluster: who reads and, apart from it, who writes."""

    name: str = Field(description="how people name it: --cluster NAME")
    read: Access = Field(default_factory=Access, description="reading credentials: in_cluster, kubeconfig, context, token_file")
    write: Access | None = Field(default=None, description="writing credentials, another account; empty: the bot cannot change anything there")
    default: bool = Field(default=False, description="the cluster that is meant when nobody names one")
    prometheus: PrometheusSettings | None = Field(default=None, description="its metrics server: url, token_file, ca, labels, timeout_s; empty: metrics are not looked at")


class DatabricksSettings(Section):
    """One Databricks workspace with model serving; people name it like a cluster."""

    name: str = Field(description="how people name it: --cluster NAME")
    host: str = Field(description="its address, as in https://my-workspace.cloud.databricks.com")
    token_file: Path = Field(description="file with the reading token (CAN VIEW on the endpoints); read at each request")
    write_token_file: Path | None = Field(default=None, description="file with the writing token, of another service principal; empty: nothing can be changed")


class SshSettings(Section):
    """SSH to nodes, for the kernel log and nvidia-smi."""

    user: str = Field(default="", description="account on the nodes; empty: no SSH")
    key: Path | None = Field(default=None, description="private key file; empty: the agent")
    certificate: Path | None = Field(default=None, description="user certificate (-cert.pub) that belongs to the key")
    known_hosts: Path | None = Field(default=None, description="known hosts file; a key that does not stand there is refused")
    port: int = Field(default=22, ge=1, le=65535, description="port")
    agent: bool = Field(default=False, description="also ask the SSH agent for keys")
    stop_user: str = Field(default="", description="account that may stop stray processes and drop shared memory that nobody holds (deploy/node/install-stop.sh); empty: none is stopped")
    stop_key: Path | None = Field(default=None, description="private key file of that account")


class ReadRule(Section):
    """Who may look at what. A rule fits when one of its channels or people fits, and its clusters and namespaces do (shell patterns)."""

    channels: WordList = ()
    people: WordList = ()
    clusters: WordList = ("*",)
    namespaces: WordList = ("*",)


class ApproverRule(Section):
    """Who may approve which actions where: Slack user groups (S...) and people (U..., W...), and how many of them it takes. An empty list means nobody.
    Where several rules fit, whoever stands in one of them may approve, and the highest count holds."""

    groups: WordList = ()
    people: WordList = ()
    actions: WordList = ("*",)
    count: int = Field(default=1, ge=1, le=9)
    clusters: WordList = ("*",)
    namespaces: WordList = ("*",)


class WindowRule(Section):
    """Where a window is given, changes are made only inside of one: on these days, from start to end (24:00 for the whole day; an end before the start is on the next day)."""

    days: Annotated[tuple[Day, ...], BeforeValidator(_days)] = DAYS
    start: ClockTime = time(0)
    end: ClockTime = time(0)
    time_zone: Zone = "UTC"
    clusters: WordList = ("*",)
    namespaces: WordList = ("*",)


class FreezeRule(Section):
    """From `start` until `end` (a day, then all of it, or a day and time) nothing is changed."""

    start: Moment
    end: Moment
    reason: str = ""
    time_zone: Zone = "UTC"
    clusters: WordList = ("*",)
    namespaces: WordList = ("*",)

    @model_validator(mode="after")
    def _ends_after_it_starts(self) -> Self:
        if self.span()[0] >= self.span()[1]:
            raise ValueError("it ends before it starts")
        return self

    def span(self) -> tuple[datetime, datetime]:
        """Both ends with their zone; a last day counts whole."""
        last = datetime.fromisoformat(self.end) + timedelta(days=len(self.end) == _DAY_ONLY)
        return self._zoned(datetime.fromisoformat(self.start)), self._zoned(last)

    def _zoned(self, at: datetime) -> datetime:
        return at if at.tzinfo else at.replace(tzinfo=ZoneInfo(self.time_zone))


class QuotaRule(Section):
    """At most `per_hour` changes: in each namespace that fits, in each cluster, or in all that fits together (each: rule)."""

    per_hour: int = Field(ge=0)
    each: Literal["namespace", "cluster", "rule"] = "namespace"
    clusters: WordList = ("*",)
    namespaces: WordList = ("*",)


class PolicySettings(Section):
    """Who may do what, where, until when."""

    read: tuple[ReadRule, ...] = Field(default=(), description="who may look at which clusters and namespaces; empty: slack.channels may look at all")
    actions: WordList = Field(default=(), description="what may be done: restart, set_engine_argument, set_environment_variable, set_memory, remove_cpu_limit, set_shared_memory, set_probe_threshold, set_grace_period, set_replicas, schedule_restart, cordon_node, stop_process, drop_shared_memory, set_workload_size and set_scale_to_zero (of Databricks endpoints, where set_environment_variable counts too); empty: read-only")
    approvers: tuple[ApproverRule, ...] = Field(default=(), description="who may approve: groups, people, and for what: actions, clusters, namespaces; count: how many it takes; empty: nobody")
    approval_channels: WordList = Field(default=(), description="channels in which an approval counts; empty: slack.channels")
    namespaces: WordList = Field(default=("*",), description="namespaces in which something may be changed")
    protected_namespaces: WordList = Field(default=("kube-*", "openshift-*"), description="namespaces in which nothing is ever changed")
    second_person: bool = Field(default=True, description="the approver is neither who asked nor who pressed Apply")
    low_risk_alone: bool = Field(default=False, description="one person is enough where the risk is low")
    undo_alone: bool = Field(default=False, description="one approver may undo alone what the bot did")
    windows: tuple[WindowRule, ...] = Field(default=(), description="weekly windows in which changes are made: days, start, end, time_zone, clusters, namespaces; none: always")
    freezes: tuple[FreezeRule, ...] = Field(default=(), description="dated freezes: start, end, reason, time_zone, clusters, namespaces")
    quotas: tuple[QuotaRule, ...] = Field(default=(), description="most changes an hour: per_hour, each (namespace, cluster, rule), clusters, namespaces")
    undo_any_time: bool = Field(default=True, description="windows, dated freezes and quotas do not hold up an undo (the kill switch does)")
    identity: Literal["account", "email"] = Field(
        default="account", description="email: who approves must have an e-mail address in Slack, so that a second account of one person is always seen"
    )
    gitops_in_place: bool = Field(default=False, description="objects that Argo CD, Flux or Helm keep may be changed in place, with the warning that it will be put back; else the patch for their source is handed out")
    highest_risk: Literal["low", "medium", "high"] = Field(default="high", description="plans of a higher risk are only handed out")
    typed_from: Literal["low", "medium", "high", "never"] = Field(default="high", description="from this risk on whoever approves types the name of what is changed; never: a click is enough")


class TimingSettings(Section):
    """Times in seconds."""

    approval_ttl_s: float = Field(default=1500, gt=0, le=3600, description="how long an approval may be given")
    collect_budget_s: float = Field(default=25, gt=0, le=55, description="time to collect evidence of one target")
    watch_interval_s: float = Field(default=5, gt=0, le=60, description="pause between two looks at a rollout")
    watch_timeout_s: float = Field(default=1800, gt=0, description="a rollout that takes longer is called stuck, unless a new pod is still within the time that its probe allows for a start (for six hours more at most)")
    verification_window_s: float = Field(default=900, ge=0, description="how long a new process may take to get past the point where the old one died")
    verification_interval_s: float = Field(default=15, gt=0, le=60, description="pause between two looks at the new process")
    aftercare_s: float = Field(default=1800, ge=0, description="how long a verified change is watched for new kills and restarts")
    aftercare_interval_s: float = Field(default=30, gt=0, le=60, description="pause between two looks in that time")
    undo_window_s: float = Field(default=86400, gt=0, description="how long Undo is offered")
    lease_s: float = Field(default=30, gt=0, le=300, description="a job whose worker shows no sign of life for this long is given to another")


class HttpSettings(Section):
    """Where we listen."""

    host: str = Field(default="127.0.0.1", description="address to listen on")
    port: int = Field(default=8080, ge=0, le=65535, description="port; 0: any free one")


class Settings(Section):
    """All settings. `load` reads them; `reference` lists them."""

    data_dir: Path = Field(default=Path("data"), description="folder of the database, the audit trail and its key; made 0700")
    language: Literal["auto", "en", "zh"] = Field(default="auto", description="language of messages; auto: Chinese for who has a Chinese Slack, else English")
    playbooks: Path | None = Field(default=None, description="folder of the knowledge; empty: the one that came with the bot")
    workers: int = Field(default=4, ge=1, le=64, description="jobs that run side by side")
    audit_key: SecretStr = Field(default=NO_SECRET, description="key of the audit trail's chain, 32 characters or more; empty: made in data_dir/audit.key")
    log_level: Literal["debug", "info", "warning", "error"] = Field(default="info", description="how much the process writes to standard error")
    http: HttpSettings = HttpSettings()
    slack: SlackSettings = SlackSettings()
    pagerduty: PagerDutySettings = PagerDutySettings()
    clusters: tuple[ClusterSettings, ...] = Field(default=(), description="the clusters; each has name, read, write, default, prometheus")
    databricks: tuple[DatabricksSettings, ...] = Field(default=(), description="Databricks workspaces; each has name, host, token_file, write_token_file")
    ssh: SshSettings = SshSettings()
    policy: PolicySettings = PolicySettings()
    timings: TimingSettings = TimingSettings()

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        names = [*(one.name for one in self.clusters), *(one.name for one in self.databricks)]
        if len(set(names)) != len(names):
            raise ValueError("clusters: two clusters have the same name")
        for workspace in self.databricks:
            if not re.fullmatch(r"(https://)?[A-Za-z0-9.-]+(:\d{1,5})?/?|http://127\.0\.0\.1:\d{1,5}", workspace.host):
                raise ValueError(f"databricks: {workspace.name}: host should be the workspace's address, as in https://my-workspace.cloud.databricks.com")
            if workspace.write_token_file == workspace.token_file:
                raise ValueError(f"databricks: {workspace.name}: write_token_file is the same file as token_file; writing needs an account of its own")
        for cluster in self.clusters:
            if cluster.write is not None and cluster.write == cluster.read:
                raise ValueError(f"clusters: {cluster.name}: write has the same credentials as read; writing needs an account of its own")
        if self.audit_key.get_secret_value() and len(self.audit_key.get_secret_value()) < 32:
            raise ValueError("audit_key: shorter than 32 characters")
        return self

    @classmethod
    def load(cls, path: str | None = None, environ: Mapping[str, str] | None = None) -> Self:
        """Reads the file (`path`, else `$OOMBOT_CONFIG`, else `oombot.yaml` where there is one) and the environment. Raises BadSettings with every mistake."""
        environ = _environment() if environ is None else environ
        name = path or environ.get(FILE_VARIABLE)
        values = _read_file(name or DEFAULT_FILE, must_exist=bool(name))
        mistakes = _overlay(cls, values, environ)
        try:
            settings = cls.model_validate(values)
        except ValidationError as wrong:
            mistakes += [_mistake(cls, error) for error in wrong.errors(include_url=False, include_input=False)]
        else:
            if not mistakes:
                return settings
        raise BadSettings(mistakes)


def _environment() -> Mapping[str, str]:
    import os

    return os.environ


def leaves(model: type[BaseModel] = Settings, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Each setting that is not a section: its path and its pydantic field."""
    for name, info in model.model_fields.items():
        kind = info.annotation
        if isinstance(kind, type) and issubclass(kind, BaseModel):
            yield from leaves(kind, (*path, name))
        else:
            yield (*path, name), info


def variable(path: tuple[str, ...]) -> str:
    return "_".join((PREFIX, *path)).upper()


def _is_secret(info: Any) -> bool:
    return info.annotation is SecretStr or (get_origin(info.annotation) is tuple and SecretStr in get_args(info.annotation))


def _read_file(name: str, *, must_exist: bool) -> dict[str, Any]:
    try:
        text = Path(name).read_text(encoding="utf-8")
    except FileNotFoundError:
        if must_exist:
            raise BadSettings([f"{name}: no such file"]) from None
        return {}
    except (OSError, UnicodeDecodeError) as wrong:
        raise BadSettings([f"{name}: cannot be read: {getattr(wrong, 'strerror', None) or 'not UTF-8'}"]) from None
    try:
        values = yaml.safe_load(text)
    except yaml.YAMLError as wrong:
        place = getattr(wrong, "problem_mark", None)
        raise BadSettings([f"{name}:{place.line + 1 if place else 1}: not YAML: {getattr(wrong, 'problem', None) or 'cannot be read'}"]) from None
    if values is None:
        return {}
    if not isinstance(values, dict):
        raise BadSettings([f"{name}: should be a table of settings, `slack:` and so on"])
    return {str(key): value for key, value in values.items()}


def _overlay(model: type[BaseModel], values: dict[str, Any], environ: Mapping[str, str]) -> list[str]:
    """Puts the environment's values over the file's; gives the mistakes."""
    known, mistakes = {FILE_VARIABLE}, []
    for path, info in leaves(model):
        name = variable(path)
        known.add(name)
        text = environ.get(name)
        if _is_secret(info):
            known.add(f"{name}_FILE")
            text, mistake = _secret(name, text, environ.get(f"{name}_FILE"), several=info.annotation is not SecretStr)
            mistakes += mistake
        if text is not None:
            try:
                value: Any = text if info.annotation in (SecretStr, str, Path) or _is_secret(info) else _from_text(text)
            except yaml.YAMLError:
                mistakes.append(f"{name}: not YAML")
                continue
            mistakes += _put(values, path, value)
    for name in sorted(set(environ) - known):
        if name.startswith(f"{PREFIX}_"):
            near = get_close_matches(name, known, 1)
            mistakes.append(f"{name}: no such setting{f'; did you mean {near[0]}?' if near else ''}")
    return mistakes


def _from_text(text: str) -> Any:
    return yaml.safe_load(text) if text.lstrip()[:1] in ("[", "{") else text


def _secret(name: str, text: str | None, file: str | None, *, several: bool) -> tuple[str | None, list[str]]:
    if file is None:
        return text, []
    if text is not None:
        return text, [f"{name}: given twice, also by {name}_FILE"]
    try:
        content = Path(file).read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError):
        return None, [f"{name}_FILE: {file}: cannot be read"]
    return (",".join(content.splitlines()) if several else content), []


def _put(values: dict[str, Any], path: tuple[str, ...], value: Any) -> list[str]:
    for part in path[:-1]:
        if values.get(part) is None:
            values[part] = {}
        values = values[part]
        if not isinstance(values, dict):
            return [f"{part}: should be a table of settings"]
    values[path[-1]] = value
    return []


def _mistake(model: type[BaseModel], error: Any) -> str:
    """One line that names the key, and never the value (it may be a secret)."""
    place = ".".join(str(part) for part in error["loc"])
    if error["type"] == "extra_forbidden":
        names = [".".join(path) for path, _ in leaves(model)] + list(model.model_fields)
        near = get_close_matches(place, names, 1, 0.7)
        return f"{place}: no such setting{f'; did you mean {near[0]}?' if near else ''}"
    says = str(error["msg"]).removeprefix("Value error, ")
    return f"{place}: {says}" if place else says


def _shown(default: Any) -> str:
    if default in (None, (), {}, NO_SECRET):
        return ""
    if isinstance(default, bool):
        return str(default).lower()
    return ", ".join(default) if isinstance(default, tuple) else str(default)


def reference() -> str:
    """The table of docs/settings.md."""
    rows = ["| setting | variable | default | meaning |", "|---|---|---|---|"]
    for path, info in leaves():
        name = f"`{variable(path)}`" + (f" (or `{variable(path)}_FILE`)" if _is_secret(info) else "")
        rows.append(f"| `{'.'.join(path)}` | {name} | {_shown(info.get_default(call_default_factory=True))} | {info.description} |")
    return "\n".join(rows) + "\n"
