"""`oombot check endpoint/NAME` and `oombot collect` from the command line, against the sandbox's Databricks workspace."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from bot.__main__ import main
from bot.sandbox.databricks import Endpoint, FakeDatabricks, entity, serving

KILLED = "served entity creation aborted because the resource did not become available in time"


@pytest.fixture
def config(tmp_path: Path) -> Iterator[Path]:
    failed = Endpoint("chat", serving(entity()), fits=lambda configuration: KILLED, logs={"chat-1": "loading\n"})
    failed.begin({"served_entities": [entity()]})
    failed.look()
    failed.look()
    with FakeDatabricks(failed) as fake:
        (tmp_path / "token").write_text(fake.view_token)
        path = tmp_path / "oombot.yaml"
        path.write_text(f"databricks:\n- {{name: dbx, host: '{fake.url}', token_file: {tmp_path}/token}}\n")
        yield path


def answer(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    status = main(list(words))
    out, err = capsys.readouterr()
    return status, out, err


def test_an_endpoint_is_diagnosed_and_its_kept_bundle_says_the_same(config: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status, out, err = answer(capsys, "check", "endpoint/chat", "--config", str(config), "--json")
    assert status == 0, err
    live = json.loads(out)
    assert (live["path"], live["cause"]) == ("endpoint/chat", "unschedulable")
    folder = tmp_path / "kept"
    status, _, err = answer(capsys, "collect", "endpoint/chat", "--config", str(config), "-o", str(folder))
    assert status == 0, err
    assert {one.name for one in folder.iterdir()} == {"bundle.json", "endpoint.json", "container.log"}
    _, out, _ = answer(capsys, "diagnose", str(folder), "--json")
    kept = json.loads(out)
    assert {**kept, "path": ""} == {**live, "path": ""}


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("endpoint/chatt",), "nearest: chat"),
        (("endpoint/chat", "--cluster", "prod"), "no Databricks workspace 'prod'; there are: dbx"),
        (("endpoint/chat", "-n", "llm"), "in no namespace"),
        (("endpoint/a.b",), "cannot be the name of a serving endpoint"),
    ],
)
def test_what_is_wrong_is_one_clear_line(config: Path, capsys: pytest.CaptureFixture[str], words: tuple[str, ...], said: str) -> None:
    status, out, err = answer(capsys, "check", *words, "--config", str(config))
    assert (status, out, said in err, err.count("\n")) == (2, "", True, 1)


def test_without_a_workspace_it_says_which_setting_names_one(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "empty.yaml").write_text("{}\n")
    status, _, err = answer(capsys, "check", "endpoint/chat", "--config", str(tmp_path / "empty.yaml"))
    assert (status, "name `databricks` in oombot.yaml" in err) == (2, True)
