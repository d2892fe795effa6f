"""`oombot check` and `oombot collect` from the command line, against a simulated cluster with SSH nodes."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from bot.__main__ import main
from tests.terminal.world import World, deployment, running_world

OOM_SCRIPT = json.dumps(
    {
        "log": [
            "INFO 11-30 09:12:01 [__init__.py:216] Automatically detected platform cuda.",
            "(APIServer pid=1) INFO 11-30 09:12:05 [api_server.py:1839] vLLM API server version 0.11.0",
            "Received request cmpl-1: prompt: 'the patient is called Ana', params: SamplingParams(n=1)",
        ],
        "exit_code": 137,
        "exit_after": 60,
        "reason": "OOMKilled",
    }
)

INCIDENTS = {
    "context": deployment("chat", "--model", "/models/chat-32b-w6", "--gpu-memory-utilization=0.90"),
    "host-memory": deployment("embed", "--model", "x", memory="8Gi", script=OOM_SCRIPT),
    "weights": deployment("large", "--model", "/models/chat-70b", "--gpu-memory-utilization", "0.9"),
}


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with running_world(tmp_path_factory.mktemp("world")) as made:
        for manifest in INCIDENTS.values():
            made.die(manifest)
        made.cluster.apply(deployment("pair", "--model", "/models/small-1b", replicas=2, sidecar=True))
        yield made


@pytest.fixture(autouse=True)
def _usual_settings(world: World) -> None:
    world.settings()


def answer(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    status = main(list(words))
    out, err = capsys.readouterr()
    return status, out, err


def as_json(capsys: pytest.CaptureFixture[str], *words: str) -> dict[str, object]:
    status, out, err = answer(capsys, *words, "--json")
    assert status == 0, err
    found = json.loads(out)
    del found["path"]
    return dict(found)


@pytest.mark.parametrize(("name", "cause"), [("chat", "context_exceeds_kv_cache"), ("embed", "container_memory_limit"), ("large", "weights_too_large")])
def test_check_says_what_collect_and_diagnose_say(world: World, capsys: pytest.CaptureFixture[str], tmp_path: Path, name: str, cause: str) -> None:
    checked = as_json(capsys, "check", f"deploy/{name}", "--config", world.config)
    assert answer(capsys, "collect", f"deploy/{name}", "-o", str(tmp_path / "b"), "--config", world.config)[0] == 0
    diagnosed = as_json(capsys, "diagnose", str(tmp_path / "b"))
    assert checked == diagnosed
    assert checked["cause"] == cause
    assert checked["gaps"] == []


def test_text_is_the_same_note_but_for_its_first_words(world: World, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    _, checked, err = answer(capsys, "check", "deploy/chat", "--config", world.config)
    pod = err.split()[2]
    answer(capsys, "collect", "deploy/chat", "-o", str(tmp_path / "b"), "--config", world.config)
    _, diagnosed, _ = answer(capsys, "diagnose", str(tmp_path / "b"))
    assert " ".join(checked.split()).replace(pod, "X") == " ".join(diagnosed.split()).replace(str(tmp_path / "b"), "X")


def test_pod_that_was_chosen_for_a_workload_is_named(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    _, _, err = answer(capsys, "check", "deploy/embed", "--config", world.config)
    assert err.startswith("deploy/embed is llm/embed-")
    assert "(Deployment llm/embed, container server)" in err


def test_kernel_log_of_the_pods_node_is_part_of_the_bundle(world: World, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    answer(capsys, "collect", "deploy/embed", "-o", str(tmp_path / "b"), "--config", world.config)
    assert "oom-kill:constraint=CONSTRAINT_MEMCG" in (tmp_path / "b" / "kernel.log").read_text()
    assert "NVIDIA L40S" in (tmp_path / "b" / "nvidia-smi.txt").read_text()
    about = json.loads((tmp_path / "b" / "bundle.json").read_text())
    assert (about["server_container"], about["target"]["node"], about["gaps"]) == ("server", "gpu-node-1", [])


def test_neither_secrets_nor_prompts_are_written(world: World, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    answer(capsys, "collect", "deploy/embed", "-o", str(tmp_path / "b"), "--config", world.config)
    everything = b"".join(path.read_bytes() for path in (tmp_path / "b").rglob("*") if path.is_file())
    assert b"hf_qqq" not in everything
    assert b"Ana" not in everything
    assert b"HF_TOKEN" in everything


def test_without_ssh_the_gaps_are_named_and_the_rest_is_diagnosed(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    world.settings(ssh={})
    found = as_json(capsys, "check", "deploy/chat", "--config", world.config)
    assert found["cause"] == "context_exceeds_kv_cache"
    assert {gap["source"] for gap in found["gaps"]} >= {"kernel.log"}  # type: ignore[attr-defined]
    assert "no SSH access is configured" in str(found["gaps"])


def test_unknown_host_key_is_a_gap_that_says_what_to_do(world: World, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    empty = tmp_path / "known_hosts"
    empty.write_text("")
    world.settings(ssh={**world.nodes.settings(), "known_hosts": str(empty)})
    found = as_json(capsys, "check", "deploy/chat", "--config", world.config)
    assert "ssh-keyscan -t ed25519" in str(found["gaps"])
    assert "docs/nodes.md" in str(found["gaps"])


def test_several_matches_are_listed(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    status, out, err = answer(capsys, "check", "pair", "--config", world.config)
    assert (status, out) == (2, "")
    assert err.startswith("oombot: 2 pods match 'pair': llm/pair-")
    assert "`deploy/pair -n llm` takes the one that failed last" in err
    assert err.count("\n") == 1


def test_no_match_suggests_the_nearest(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    status, _, err = answer(capsys, "check", "embad", "--config", world.config)
    assert status == 2
    assert "no Pod is called 'embad'" in err
    assert "nearest: llm/embed-" in err


def test_node_alone_can_be_checked(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    status, out, _ = answer(capsys, "check", "node/gpu-node-1", "--config", world.config)
    assert status == 0
    assert out.startswith("node/gpu-node-1")


def test_container_can_be_named_and_must_be_there(world: World, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    pod = world.cluster.objects("v1", "Pod", "llm")
    name = next(each["metadata"]["name"] for each in pod if each["metadata"]["name"].startswith("pair-"))
    assert answer(capsys, "collect", name, "-n", "llm", "-c", "istio-proxy", "-o", str(tmp_path / "b"), "--config", world.config)[0] == 0
    assert json.loads((tmp_path / "b" / "bundle.json").read_text())["server_container"] == "istio-proxy"
    status, _, err = answer(capsys, "check", name, "-c", "nothing", "--config", world.config)
    assert status == 2
    assert "has no container 'nothing'; it has: istio-proxy, server" in err


def test_folder_that_holds_something_is_not_written_into(world: World, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "old.log").write_text("old")
    status, _, err = answer(capsys, "collect", "deploy/chat", "-o", str(tmp_path), "--config", world.config)
    assert status == 2
    assert "not empty; name a new folder" in err


def test_without_settings_the_contexts_of_the_kubeconfig_are_the_clusters(world: World, tmp_path: Path) -> None:
    def run(*words: str) -> "subprocess.CompletedProcess[str]":
        environment = {**os.environ, "KUBECONFIG": str(world.folder / "kubeconfig")}
        return subprocess.run([sys.executable, "-m", "bot", *words], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=60, check=False)

    for words in ((), ("--cluster", "sandbox")):
        found = run("check", "deploy/chat", "--json", *words)
        assert json.loads(found.stdout)["cause"] == "context_exceeds_kv_cache", found.stderr
    wrong = run("check", "deploy/chat", "--cluster", "mars")
    assert (wrong.returncode, wrong.stdout) == (2, "")
    assert "there are: sandbox" in wrong.stderr
    assert wrong.stderr.count("\n") == 1


# ---------------------------------------------------------------- what is wrong is said in one line


def one_line(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    status, out, err = answer(capsys, *words)
    assert (status, out) == (2, "")
    assert err.startswith("oombot: ")
    assert err.count("\n") == 1
    assert "Traceback" not in err
    return err


def test_cluster_that_cannot_be_reached(world: World, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    away = tmp_path / "kubeconfig"
    away.write_text((world.folder / "kubeconfig").read_text().replace(world.cluster.url, "https://127.0.0.1:1"))
    world.settings(clusters=[{"name": "away", "read": {"kubeconfig": str(away)}}])
    assert "away: cannot connect to the API server" in one_line(capsys, "check", "deploy/chat", "--config", world.config)


def test_no_kubeconfig(world: World, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    world.settings(clusters=[{"name": "x", "read": {"kubeconfig": str(tmp_path / "none")}}])
    assert f"no kubeconfig at {tmp_path}/none: set KUBECONFIG" in one_line(capsys, "check", "deploy/chat", "--config", world.config)


def test_damaged_kubeconfig(world: World, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    for number, text in enumerate(["{", "[]", "apiVersion: v1\nkind: Config\n", "\x00"]):
        path = tmp_path / f"k{number}"
        path.write_text(text)
        world.settings(clusters=[{"name": "x", "read": {"kubeconfig": str(path)}}])
        one_line(capsys, "check", "deploy/chat", "--config", world.config)


def test_unknown_context_lists_those_there_are(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    world.settings(clusters=[{"name": "x", "read": {"kubeconfig": str(world.folder / "kubeconfig"), "context": "mars"}}])
    assert "no context 'mars'" in (err := one_line(capsys, "check", "deploy/chat", "--config", world.config))
    assert "there are: sandbox" in err


def test_unknown_cluster_lists_those_there_are(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    assert "no cluster 'mars'; there are: sandbox" in one_line(capsys, "check", "deploy/chat", "--cluster", "mars", "--config", world.config)


def test_credentials_that_are_not_accepted(world: World, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    import yaml

    document = yaml.safe_load((world.folder / "kubeconfig").read_text())
    document["users"][0]["user"]["token"] = "wrong"
    path = tmp_path / "kubeconfig"
    path.write_text(yaml.safe_dump(document))
    world.settings(clusters=[{"name": "x", "read": {"kubeconfig": str(path)}}])
    err = one_line(capsys, "check", "deploy/chat", "--config", world.config)
    assert "does not accept the credentials" in err or "cannot list" in err


def test_settings_that_are_not_there(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    one_line(capsys, "check", "deploy/chat", "--config", str(tmp_path / "none.yaml"))


@pytest.mark.parametrize("word", ["", "a b", "svc/x", "../../etc", "x" * 400, "\x1b[31m"])
def test_what_is_no_target(world: World, capsys: pytest.CaptureFixture[str], word: str) -> None:
    err = one_line(capsys, "check", word, "--config", world.config)
    assert "\x1b" not in err
