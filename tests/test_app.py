"""The composition root: what it refuses to start without, what it offers once it runs, and how it ends."""

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from bot.app import Application, policy_of
from bot.errors import BadInput, BadSettings, OombotError, StoreError
from bot.policy import ReadRule
from bot.sandbox.cluster import SimulatedCluster
from bot.sandbox.slack import FakeSlack
from bot.settings import Settings

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def slack() -> Iterator[FakeSlack]:
    with FakeSlack() as slack:
        yield slack


@pytest.fixture(scope="module")
def cluster() -> Iterator[SimulatedCluster]:
    with SimulatedCluster() as cluster:
        yield cluster


@pytest.fixture
def values(slack: FakeSlack, cluster: SimulatedCluster, tmp_path: Path) -> dict[str, Any]:
    """Settings with which it starts."""
    return {
        "data_dir": str(tmp_path / "data"),
        "http": {"host": "127.0.0.1", "port": 0},
        "slack": {"bot_token": slack.bot_token, "signing_secret": slack.signing_secret, "api_url": slack.api_url, "channels": ["C01ONCALL"]},
        "clusters": [{"name": "sandbox", "read": {"kubeconfig": str(cluster.kubeconfig(tmp_path / "reader", "reader"))}}],
    }


def settings(values: dict[str, Any]) -> Settings:
    return Settings.model_validate(values)


def refusal(values: dict[str, Any], error: type[OombotError] = BadSettings) -> str:
    with pytest.raises(error) as refused:
        Application(settings(values))
    return str(refused.value)


# ---------------------------------------------------------------- what it does not start without


def test_everything_that_is_missing_is_told_at_once() -> None:
    with pytest.raises(BadSettings) as refused:
        Application(Settings.model_validate({"slack": {"mode": "http"}, "pagerduty": {"webhook_secrets": "x"}}))
    assert [line.partition(":")[0] for line in refused.value.mistakes] == [
        "slack.bot_token", "slack.signing_secret", "slack.channels", "clusters", "pagerduty.api_token",
    ]  # fmt: skip


def test_a_databricks_workspace_alone_is_enough_to_look_at(values: dict[str, Any], tmp_path: Path) -> None:
    workspace = {"name": "dbx", "host": "https://my-workspace.cloud.databricks.com", "token_file": str(tmp_path / "view")}
    application = Application(settings({**values, "clusters": [], "databricks": [workspace]}))
    assert (set(application.readers), set(application.writers)) == ({"dbx"}, set())
    application.stop()
    application = Application(settings({**values, "databricks": [{**workspace, "write_token_file": str(tmp_path / "manage")}]}))
    assert (set(application.readers), set(application.writers)) == ({"sandbox", "dbx"}, {"dbx"})
    application.stop()


def test_socket_mode_needs_its_own_token(values: dict[str, Any]) -> None:
    values["slack"] |= {"mode": "socket", "signing_secret": ""}
    assert refusal(values).startswith("slack.app_token: empty")


def test_a_token_that_slack_refuses_is_one_line(values: dict[str, Any]) -> None:
    values["slack"]["bot_token"] = "xoxb-wrong"
    says = refusal(values)
    assert says.startswith("slack.bot_token: ")
    assert "invalid_auth" in says
    assert "xoxb-wrong" not in says


def test_a_kubeconfig_that_is_not_there_is_one_line(values: dict[str, Any], tmp_path: Path) -> None:
    values["clusters"] = [{"name": "prod", "read": {"kubeconfig": str(tmp_path / "none")}}]
    assert "none" in refusal(values, BadInput)


def test_a_folder_that_another_one_uses_is_refused(values: dict[str, Any]) -> None:
    first = Application(settings(values))
    assert "is used by another oombot" in refusal(values, StoreError)
    first.stop()
    Application(settings(values)).stop()


def test_a_start_that_failed_leaves_the_folder_free(values: dict[str, Any], tmp_path: Path) -> None:
    good = dict(values)
    values["clusters"] = [{"name": "prod", "read": {"kubeconfig": str(tmp_path / "none")}}]
    refusal(values, BadInput)
    Application(settings(good)).stop()


def test_a_port_that_is_taken_is_one_line_and_nothing_is_left_running(values: dict[str, Any]) -> None:
    first = Application(settings(values))
    first.start()
    second = {**values, "data_dir": values["data_dir"] + "-2", "http": {"host": "127.0.0.1", "port": int(first.url.rpartition(":")[2])}}
    before = threading.active_count()
    application = Application(settings(second))
    with pytest.raises(BadInput, match=r"http\.host 127\.0\.0\.1, http\.port \d+: Address already in use"):
        application.start()
    first.stop()
    assert threading.active_count() <= before
    Application(settings(second)).stop()


# ---------------------------------------------------------------- what it offers


@pytest.fixture
def running(values: dict[str, Any]) -> Iterator[Application]:
    application = Application(settings(values))
    application.start()
    yield application
    application.stop()


def test_it_says_that_it_lives_and_that_it_is_ready(running: Application) -> None:
    assert httpx.get(f"{running.url}/healthz").status_code == 200
    assert httpx.get(f"{running.url}/readyz").json() == {"status": "ready"}


def test_without_a_secret_there_is_no_webhook(running: Application) -> None:
    assert httpx.post(f"{running.url}/webhooks/pagerduty").status_code == 404
    assert httpx.post(f"{running.url}/slack/events", content=b"{}").status_code == 401


def test_a_bot_that_is_being_stopped_is_not_ready(running: Application) -> None:
    running._stopping = True
    answer = httpx.get(f"{running.url}/readyz")
    assert (answer.status_code, answer.json()["missing"]) == (503, "it is being stopped")


def test_the_data_is_for_the_owner_only(running: Application) -> None:
    folder = running.settings.data_dir
    assert folder.stat().st_mode & 0o077 == 0
    assert (folder / "audit.key").stat().st_mode & 0o077 == 0


def test_a_command_in_slack_becomes_a_case_with_a_thread(running: Application, slack: FakeSlack) -> None:
    slack.connect(f"{running.url}/slack/events")
    ack = slack.command("U01ANA", "C01ONCALL", "check no-such-pod")
    assert ack.status == 200
    deadline = threading.Event()
    for _ in range(100):
        found = [case for case in running.store.recent() if case.trouble]
        if found and any("no-such-pod" in message.shown for message in slack.messages("C01ONCALL")):
            break
        deadline.wait(0.1)
    assert found[0].trouble is not None
    assert found[0].trouble.key == "target_not_found"


# ---------------------------------------------------------------- policy from settings


def test_without_rules_the_configured_channels_may_look_at_everything(values: dict[str, Any]) -> None:
    values["pagerduty"] = {"channels": {"*": "CPAGES"}}
    assert policy_of(settings(values)).read == (ReadRule(("C01ONCALL", "CPAGES")),)


def test_rules_replace_the_default(values: dict[str, Any]) -> None:
    values["policy"] = {"read": [{"channels": ["CX"], "namespaces": ["llm"]}], "approvers": [{"groups": ["S1"], "clusters": ["prod"]}]}
    policy = policy_of(settings(values))
    assert policy.read[0].channels == ("CX",)
    assert policy.read[0].reach.namespaces == ("llm",)
    assert policy.approvers[0].reach.clusters == ("prod",)
    assert policy.actions == ()


# ---------------------------------------------------------------- the command


def serve(values: dict[str, Any], folder: Path) -> "subprocess.Popen[str]":
    (folder / "oombot.yaml").write_text(yaml.safe_dump(values))
    environ = {name: value for name, value in os.environ.items() if not name.startswith("OOMBOT_")} | {"PYTHONPATH": str(ROOT)}
    return subprocess.Popen([sys.executable, "-m", "bot", "serve"], cwd=folder, env=environ, stderr=subprocess.PIPE, text=True)


def lines_until(process: "subprocess.Popen[str]", word: str) -> list[str]:
    assert process.stderr is not None
    read: list[str] = []
    for line in process.stderr:
        read.append(line)
        if word in line:
            return read
    raise AssertionError("".join(read))


def test_serve_says_that_it_is_ready_and_ends_politely_on_sigterm(values: dict[str, Any], tmp_path: Path) -> None:
    process = serve(values, tmp_path)
    ready = lines_until(process, "oombot: ready")[-1]
    assert "clusters: sandbox (reads); actions: none: read-only" in ready
    process.send_signal(signal.SIGTERM)
    rest = process.communicate(timeout=30)[1]
    assert process.returncode == 0
    assert "Traceback" not in rest


def test_serve_without_settings_names_each_missing_one_and_exits_with_2(tmp_path: Path) -> None:
    process = serve({}, tmp_path)
    said = process.communicate(timeout=30)[1].splitlines()
    assert process.returncode == 2
    assert [line.split(":")[1].strip() for line in said] == ["slack.bot_token", "slack.signing_secret", "slack.channels", "clusters"]
