"""Where an engine option stands, in every form, and what is done about it."""

from typing import Any

import pytest

from bot.errors import BadInput
from bot.model import ObjectRef
from bot.remediation.change import Change, Elsewhere
from bot.remediation.engine_argument import change
from bot.remediation.pointer import apply
from bot.remediation.workload import Workload
from tests.remediation.shelf import container, workload

VLLM = ["vllm", "serve", "llama"]


def at(fields: dict[str, Any], **spec: Any) -> Workload:
    body = workload(containers=[container(**fields)])
    body["spec"]["template"]["spec"].update(spec)
    return Workload(ObjectRef("apps/v1", "Deployment", "llm", "chat", "u"), body, 0)


def after(fields: dict[str, Any], argument: str, value: Any) -> dict[str, Any]:
    here = at(fields)
    done = change(here, argument, value)
    assert isinstance(done, Change), done
    found: dict[str, Any] = apply(here.body, [edit.operation() for edit in done.edits])["spec"]["template"]["spec"]["containers"][0]
    return found


def elsewhere(fields: dict[str, Any], argument: str = "max-model-len", value: Any = 57344, **spec: Any) -> Elsewhere:
    found = change(at(fields, **spec), argument, value)
    assert isinstance(found, Elsewhere), found
    return found


@pytest.mark.parametrize(
    ("before", "expected"),
    [
        (["--max-model-len=131072"], ["--max-model-len=57344"]),
        (["--max_model_len=131072"], ["--max_model_len=57344"]),
        (["--max-model-len", "131072"], ["--max-model-len", "57344"]),
        (["--max_model_len", "128k", "--seed=1"], ["--max_model_len", "57344", "--seed=1"]),
        (["--max-model=131072"], ["--max-model=57344"]),
        (["--max-model-len=1024", "--max-model-len", "131072"], ["--max-model-len=1024", "--max-model-len", "57344"]),
        (["--max-model-len", "1024", "--max_model_len=131072"], ["--max-model-len", "1024", "--max_model_len=57344"]),
        (["--model=x"], ["--model=x", "--max-model-len=57344"]),
    ],
)
def test_the_form_that_stands_there_is_kept_and_the_last_one_wins(before: list[str], expected: list[str]) -> None:
    assert after({"args": before}, "max-model-len", 57344)["args"] == expected


def test_an_abbreviation_of_the_real_name_is_found() -> None:
    assert after({"args": ["--gpu-memory-util", "0.9"]}, "gpu-memory-utilization", 0.85)["args"] == ["--gpu-memory-util", "0.85"]
    assert after({"args": ["--kv-cache-memory=1"]}, "kv-cache-memory-bytes", 2**30)["args"] == [f"--kv-cache-memory={2**30}"]


def test_an_abbreviation_that_fits_two_options_is_handed_out() -> None:
    assert "fits several" in elsewhere({"args": ["--max-num", "8"]}, "max-num-seqs", 4).reason.en


def test_a_longer_option_of_the_same_beginning_is_not_taken_for_it() -> None:
    before = ["--model=x", "--max-num-partial-prefills=2"]
    assert after({"args": before}, "max-num-seqs", 8)["args"] == [*before, "--max-num-seqs=8"]


def test_an_option_in_the_command_list_is_changed_there() -> None:
    fields = {"command": [*VLLM, "--max-model-len", "131072"], "args": None}
    assert after(fields, "max-model-len", 57344)["command"] == [*VLLM, "--max-model-len", "57344"]


def test_an_absent_option_is_appended_to_args_when_there_are_any_else_to_command() -> None:
    assert after({"command": VLLM, "args": ["--seed=1"]}, "max-num-seqs", 8)["args"] == ["--seed=1", "--max-num-seqs=8"]
    assert after({"command": VLLM, "args": None}, "max-num-seqs", 8)["command"] == [*VLLM, "--max-num-seqs=8"]


def test_the_module_form_counts_as_the_engine() -> None:
    fields = {"command": ["python3", "-m", "vllm.entrypoints.openai.api_server"], "args": ["--model", "x"]}
    assert after(fields, "max-num-seqs", 8)["args"] == ["--model", "x", "--max-num-seqs=8"]


def test_a_value_that_stands_in_args_after_an_option_in_command_is_found() -> None:
    fields = {"command": [*VLLM, "--max-model-len"], "args": ["131072"]}
    assert after(fields, "max-model-len", 57344)["args"] == ["57344"]


def test_a_switch_is_added_turned_and_recognised() -> None:
    assert after({"args": ["--model=x"]}, "enforce-eager", None)["args"] == ["--model=x", "--enforce-eager"]
    assert after({"args": ["--no-enforce-eager"]}, "enforce-eager", None)["args"] == ["--enforce-eager"]
    assert "already" in elsewhere({"args": ["--enforce_eager"]}, "enforce-eager", None).reason.en


def test_a_value_that_stands_there_already_is_not_written_again() -> None:
    assert "already" in elsewhere({"args": ["--max-model-len=57344"]}).reason.en
    assert "already" in elsewhere({"args": ["--gpu-memory-utilization", "0.90"]}, "gpu-memory-utilization", 0.9).reason.en


def test_a_template_that_moved_below_the_size_is_not_raised_by_a_lowering() -> None:
    found = change(at({"args": ["--max-model-len=8192"]}), "max-model-len", 57344, "lower")
    assert isinstance(found, Elsewhere)
    assert "check again" in found.reason.en


@pytest.mark.parametrize(
    "fields",
    [
        {"command": ["/bin/sh", "-c"], "args": ["HF_HOME=/x exec vllm serve llama --max-model-len 131072 --seed 1"]},
        {"command": ["bash", "-lc", "vllm serve llama --max_model_len=131072 && true"], "args": None},
        {"command": ["/usr/bin/tini", "--", "/bin/bash", "-ec"], "args": ["ulimit -l unlimited\nvllm serve llama --max-model-len='131072' \\\n  --seed 1\n"]},
    ],
)
def test_a_shell_string_is_handed_out_with_the_new_string(fields: dict[str, Any]) -> None:
    found = elsewhere(fields)
    assert "shell string" in found.reason.en
    assert "57344" in found.paste
    assert "131072" not in found.paste
    assert found.paste.startswith("spec:\n  template:")


def test_an_option_absent_from_a_shell_string_is_put_behind_the_model() -> None:
    found = elsewhere({"command": ["sh", "-c", "vllm serve llama | tee /tmp/log"], "args": None})
    assert "vllm serve llama --max-model-len=57344 | tee /tmp/log" in found.paste


def test_a_variable_inside_shell_code_leads_to_the_variable() -> None:
    fields = {
        "command": ["sh", "-c", "ulimit -c 0; vllm serve llama --max-model-len ${MAX_LEN}"],
        "args": None,
        "env": [{"name": "MAX_LEN", "value": "131072"}],
    }
    found = elsewhere(fields)
    assert "MAX_LEN" in found.reason.en
    assert "name: MAX_LEN\n              value: '57344'" in found.paste


def test_a_reference_to_a_variable_from_a_config_map_is_handed_out_for_the_config_map() -> None:
    entry = {"name": "MAX_LEN", "valueFrom": {"configMapKeyRef": {"name": "chat-settings", "key": "max_len"}}}
    found = elsewhere({"args": ["--max-model-len=$(MAX_LEN)"], "env": [entry]})
    assert "ConfigMap chat-settings, key max_len" in found.reason.en
    assert "kind: ConfigMap" in found.paste
    assert "max_len: '57344'" in found.paste


def test_a_reference_that_only_env_from_can_fill_is_handed_out_for_it() -> None:
    found = elsewhere({"args": ["--max-model-len", "$(MAX_LEN)"], "envFrom": [{"configMapRef": {"name": "chat-env"}}]})
    assert "name: chat-env" in found.paste
    assert "MAX_LEN: '57344'" in found.paste


def test_a_config_file_is_handed_out_with_the_config_map_it_is_mounted_from() -> None:
    mounts = {"volumeMounts": [{"name": "settings", "mountPath": "/etc/vllm"}]}
    volumes = [{"name": "settings", "configMap": {"name": "chat-config"}}]
    found = elsewhere({"args": ["--config", "/etc/vllm/serve.yaml"], **mounts}, volumes=volumes)
    assert "ConfigMap chat-config" in found.reason.en
    assert found.paste == "# /etc/vllm/serve.yaml\nmax-model-len: 57344\n"


def test_an_option_on_the_command_line_beats_the_config_file() -> None:
    assert after({"args": ["--config=/a.yaml", "--max-model-len=9000"]}, "max-model-len", 8000)["args"][1] == "--max-model-len=8000"


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"command": ["bash", "/opt/start.sh"], "args": ["--max-model-len=131072"]}, "the script /opt/start.sh"),
        ({"command": ["/opt/start.sh"], "args": None}, "the script /opt/start.sh"),
        ({"command": ["my-launcher"], "args": ["--quiet"]}, "starts my-launcher"),
        ({"args": None}, "no command and no arguments"),
        ({"args": ["--model=x", "--max-model-len 131072 --seed 1"]}, "inside a shell string"),
        ({"args": ["--model=x", "--max-model-len"]}, "without a value"),
        ({"args": ["--max-model-len", "--seed=1"]}, "without a value"),
    ],
)
def test_what_is_in_the_way_is_said(fields: dict[str, Any], words: str) -> None:
    assert words in elsewhere(fields).reason.en


@pytest.mark.parametrize(
    ("argument", "value"),
    [
        ("gpu-memory-utilization", 1.4),
        ("gpu-memory-utilization", "0.9; rm -rf /"),
        ("max-model-len", -1),
        ("max-model-len", 57344.5),
        ("max-model-len", True),
        ("max-num-seqs", float("nan")),
        ("kv-cache-dtype", "fp8 --trust-remote-code"),
        ("trust-remote-code", None),
    ],
)
def test_nothing_but_a_value_in_range_reaches_a_patch(argument: str, value: Any) -> None:
    with pytest.raises(BadInput):
        change(at({}), argument, value)


def test_a_utilisation_that_a_fixed_cache_overrules_is_said() -> None:
    done = change(at({"args": ["--kv-cache-memory-bytes=8G", "--gpu-memory-utilization=0.9"]}), "gpu-memory-utilization", 0.85)
    assert isinstance(done, Change)
    assert "whatever the utilisation" in done.notes[0].en


def test_an_argument_with_a_secret_is_neither_bound_nor_shown() -> None:
    done = change(at({"args": ["--model=x", "--api-key=sk-1234567890abcdef1234567890abcdef"]}), "max-num-seqs", 8)
    assert isinstance(done, Change)
    assert done.edits[0].pointer.endswith("/args/2")
