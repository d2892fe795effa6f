"""Settings: where they come from, which wins, and one clear line for each mistake."""

import json
from datetime import time
from pathlib import Path

import pytest

from bot import settings as module
from bot.errors import BadSettings
from bot.settings import Settings, leaves, reference, variable


def mistakes(path: Path | None = None, **environ: str) -> tuple[str, ...]:
    with pytest.raises(BadSettings) as wrong:
        Settings.load(str(path) if path else None, environ)
    assert all("\n" not in line for line in wrong.value.mistakes)
    return wrong.value.mistakes


def written(folder: Path, text: str) -> Path:
    path = folder / "oombot.yaml"
    path.write_text(text, encoding="utf-8")
    return path


def test_no_file_and_no_variable_give_the_defaults_that_allow_nothing() -> None:
    settings = Settings.load(None, {})
    assert settings.policy.actions == ()
    assert settings.policy.approvers == ()
    assert settings.http.host == "127.0.0.1"


def test_a_file_is_read_and_the_environment_wins(tmp_path: Path) -> None:
    path = written(tmp_path, "http: {port: 9000, host: 0.0.0.0}\nslack: {channels: [C1, C2]}\n")
    settings = Settings.load(str(path), {"OOMBOT_HTTP_PORT": "9001"})
    assert (settings.http.port, settings.http.host, settings.slack.channels) == (9001, "0.0.0.0", ("C1", "C2"))


def test_the_name_of_the_file_may_stand_in_the_environment(tmp_path: Path) -> None:
    path = written(tmp_path, "http: {port: 9000}\n")
    assert Settings.load(None, {"OOMBOT_CONFIG": str(path)}).http.port == 9000


def test_an_empty_file_is_no_mistake(tmp_path: Path) -> None:
    assert Settings.load(str(written(tmp_path, "")), {}) == Settings.load(None, {})


def test_lists_and_tables_stand_in_variables() -> None:
    settings = Settings.load(None, {
        "OOMBOT_SLACK_CHANNELS": "C1, C2",
        "OOMBOT_POLICY_ACTIONS": "[restart]",
        "OOMBOT_PAGERDUTY_CHANNELS": "{PSVC1: C1}",
        "OOMBOT_CLUSTERS": "[{name: prod, read: {context: prod-reader}, write: {context: prod-writer}}]",
    })
    assert settings.slack.channels == ("C1", "C2")
    assert settings.policy.actions == ("restart",)
    assert settings.pagerduty.channels == {"PSVC1": "C1"}
    assert settings.clusters[0].write is not None
    assert settings.clusters[0].write.context == "prod-writer"


def test_a_secret_comes_from_a_file_and_is_not_shown(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("xoxb-very-secret\n")
    (tmp_path / "hooks").write_text("one\ntwo\n")
    settings = Settings.load(None, {"OOMBOT_SLACK_BOT_TOKEN_FILE": str(tmp_path / "token"), "OOMBOT_PAGERDUTY_WEBHOOK_SECRETS_FILE": str(tmp_path / "hooks")})
    assert settings.slack.bot_token.get_secret_value() == "xoxb-very-secret"
    assert [secret.get_secret_value() for secret in settings.pagerduty.webhook_secrets] == ["one", "two"]
    assert "very-secret" not in repr(settings) + str(settings)


def test_a_token_that_looks_like_a_number_stays_text() -> None:
    assert Settings.load(None, {"OOMBOT_SLACK_SIGNING_SECRET": "0123456789"}).slack.signing_secret.get_secret_value() == "0123456789"


def test_a_file_that_is_not_there_is_one_line(tmp_path: Path) -> None:
    assert mistakes(tmp_path / "none.yaml") == (f"{tmp_path}/none.yaml: no such file",)


def test_a_file_that_is_a_folder_or_not_text_is_one_line(tmp_path: Path) -> None:
    assert mistakes(tmp_path) == (f"{tmp_path}: cannot be read: Is a directory",)
    (tmp_path / "odd.yaml").write_bytes(b"\xff\xfe\x00")
    assert mistakes(tmp_path / "odd.yaml") == (f"{tmp_path}/odd.yaml: cannot be read: not UTF-8",)


def test_a_file_that_is_not_yaml_names_the_line(tmp_path: Path) -> None:
    path = written(tmp_path, "http:\n  port: [1\nslack: x\n")
    assert mistakes(path)[0].startswith(f"{path}:3: not YAML")


def test_a_file_that_is_no_table_says_what_would_be_right(tmp_path: Path) -> None:
    assert mistakes(written(tmp_path, "- a\n- b\n"))[0].endswith("should be a table of settings, `slack:` and so on")


def test_a_key_that_nobody_knows_names_the_nearest(tmp_path: Path) -> None:
    assert mistakes(written(tmp_path, "slack: {chanels: [C1]}\n")) == ("slack.chanels: no such setting; did you mean slack.channels?",)
    assert mistakes(OOMBOT_SLACK_BOT_TOKN="x") == ("OOMBOT_SLACK_BOT_TOKN: no such setting; did you mean OOMBOT_SLACK_BOT_TOKEN?",)


def test_all_mistakes_are_told_at_once(tmp_path: Path) -> None:
    path = written(tmp_path, "http: {port: 70000}\nworkers: 0\n")
    found = mistakes(path, OOMBOT_SLACK_MODE="carrier-pigeon", OOMBOT_NONSENSE="1")
    assert {line.split(":")[0] for line in found} == {"http.port", "workers", "slack.mode", "OOMBOT_NONSENSE"}


def test_a_mistake_never_shows_the_value_of_a_secret(tmp_path: Path) -> None:
    path = written(tmp_path, "slack: {bot_token: [xoxb-very-secret]}\naudit_key: short-secret\n")
    assert "secret" not in " ".join(mistakes(path)).replace("signing_secret", "")


def test_a_secret_given_twice_or_not_readable_is_one_line(tmp_path: Path) -> None:
    assert mistakes(OOMBOT_SLACK_BOT_TOKEN="x", OOMBOT_SLACK_BOT_TOKEN_FILE="y") == ("OOMBOT_SLACK_BOT_TOKEN: given twice, also by OOMBOT_SLACK_BOT_TOKEN_FILE",)
    assert mistakes(OOMBOT_SLACK_BOT_TOKEN_FILE=str(tmp_path)) == (f"OOMBOT_SLACK_BOT_TOKEN_FILE: {tmp_path}: cannot be read",)


def test_writing_needs_credentials_of_its_own() -> None:
    found = mistakes(OOMBOT_CLUSTERS="[{name: prod, read: {context: a}, write: {context: a}}]")
    assert found == ("clusters: prod: write has the same credentials as read; writing needs an account of its own",)


def test_two_clusters_of_one_name_are_refused() -> None:
    assert mistakes(OOMBOT_CLUSTERS="[{name: prod}, {name: prod}]") == ("clusters: two clusters have the same name",)


def test_no_two_settings_share_a_variable() -> None:
    names = [variable(path) for path, _ in leaves()]
    assert len(names) == len(set(names))
    assert module.FILE_VARIABLE not in names


def test_every_setting_has_a_meaning() -> None:
    assert [path for path, info in leaves() if not info.description] == []


def test_the_page_about_settings_is_this_very_table() -> None:
    page = Path(__file__).parents[1] / "docs" / "settings.md"
    assert reference() in page.read_text(encoding="utf-8")


# ---------------------------------------------------------------- when something may be changed


def rules(**policy: str) -> Settings:
    return Settings.load(None, {f"OOMBOT_POLICY_{name.upper()}": value for name, value in policy.items()})


def test_windows_are_written_as_people_write_them() -> None:
    window = rules(windows="[{days: fri-mon, start: 9:00, end: 17:30, time_zone: Europe/Berlin}]").policy.windows[0]
    assert window.days == ("fri", "sat", "sun", "mon")
    assert (window.start, window.end) == (time(9), time(17, 30))
    assert rules(windows="[{days: [sat], start: 10:00, end: 24:00}]").policy.windows[0].start == time(10)  # 10:00 is the number 600 to YAML


def test_a_freeze_that_ends_on_a_day_ends_with_it() -> None:
    freeze = rules(freezes="[{start: 2026-12-20, end: 2027-01-02, time_zone: Asia/Tokyo}]").policy.freezes[0]
    assert [end.isoformat() for end in freeze.span()] == ["2026-12-20T00:00:00+09:00", "2027-01-03T00:00:00+09:00"]
    at_an_hour = rules(freezes="[{start: 2026-12-24T18:00, end: '2026-12-25T06:00+01:00'}]").policy.freezes[0]
    assert [end.isoformat() for end in at_an_hour.span()] == ["2026-12-24T18:00:00+00:00", "2026-12-25T06:00:00+01:00"]


@pytest.mark.parametrize(
    ("name", "value", "line"),
    [
        ("WINDOWS", "[{days: monday}]", "policy.windows.0.days.0: Input should be 'mon', 'tue'"),
        ("WINDOWS", "[{start: '25:00'}]", "policy.windows.0.start: Input should be in a valid time format"),
        ("WINDOWS", "[{time_zone: Mars/Base}]", "policy.windows.0.time_zone: 'Mars/Base' is no time zone that this machine knows; as in Europe/Berlin"),
        ("FREEZES", "[{start: soon, end: later}]", "policy.freezes.0.start: should be a day (2026-12-24) or a day and time"),
        ("FREEZES", "[{start: 2026-12-25, end: 2026-12-20}]", "policy.freezes.0: it ends before it starts"),
        ("QUOTAS", "[{per_hour: -1}]", "policy.quotas.0.per_hour: Input should be greater than or equal to 0"),
        ("APPROVERS", "[{groups: [S1], count: 0}]", "policy.approvers.0.count: Input should be greater than or equal to 1"),
    ],
)
def test_a_rule_that_cannot_be_is_one_line_that_says_what_would_be_right(name: str, value: str, line: str) -> None:
    assert mistakes(**{f"OOMBOT_POLICY_{name}": value})[0].startswith(line)


# ---------------------------------------------------------------- metrics


def test_a_cluster_may_name_its_metrics_server() -> None:
    found = Settings.load(None, {"OOMBOT_CLUSTERS": "[{name: prod, prometheus: {url: 'https://thanos.example:9091/tenant', labels: {cluster: west}}}]"})
    assert found.clusters[0].prometheus is not None
    assert (found.clusters[0].prometheus.labels, found.clusters[0].prometheus.timeout_s) == ({"cluster": "west"}, 5)


@pytest.mark.parametrize("prometheus", ["{url: 'thanos:9091'}", "{url: 'https://me:secret@thanos'}", "{url: 'http://x', labels: {pod: a}}", "{url: 'http://x', labels: {'a\"b': c}}"])
def test_a_metrics_server_that_cannot_be_asked_is_told_at_the_start(prometheus: str) -> None:
    (told,) = mistakes(OOMBOT_CLUSTERS=f"[{{name: prod, prometheus: {prometheus}}}]")
    assert told.startswith("clusters.0.prometheus.")
    assert "secret" not in told


# ---------------------------------------------------------------- Databricks


def databricks(**changes: str) -> Settings:
    plain = {"name": "dbx", "host": "https://my-workspace.cloud.databricks.com", "token_file": "/etc/oombot/view", **changes}
    return Settings.load(None, {"OOMBOT_DATABRICKS": json.dumps([plain])})


def test_a_workspace_has_its_two_tokens_in_two_files() -> None:
    assert databricks(write_token_file="/etc/oombot/manage").databricks[0].write_token_file == Path("/etc/oombot/manage")
    with pytest.raises(BadSettings, match="the same file as token_file"):
        databricks(write_token_file="/etc/oombot/view")


@pytest.mark.parametrize("host", ["http://my-workspace.cloud.databricks.com", "https://a.b/path", "https://user@a.b", "", "https://a.b?x=1"])
def test_a_workspaces_address_is_checked_at_the_start(host: str) -> None:
    with pytest.raises(BadSettings, match="host should be the workspace's address"):
        databricks(host=host)
