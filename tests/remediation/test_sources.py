"""A value that stands in a variable or a ConfigMap is changed there, or it is said why not."""

from typing import Any

from bot.model import Handout, StepKind
from bot.remediation import differences, execute_step, plan_undo
from tests.remediation.plans import handed_out, new_id, operation, planned
from tests.remediation.shelf import ShelfReader, container, deployment_shelf, workload

CONFIG = "# tuned by ana\nmodel: llama\nmax-model-len: 131072  # long\n"
MOUNT = {"volumeMounts": [{"name": "settings", "mountPath": "/etc/vllm"}]}
VOLUMES = [{"name": "settings", "configMap": {"name": "chat-config"}}]


def config_map(name: str = "chat-config", key: str = "serve.yaml", text: str = CONFIG, **fields: Any) -> dict[str, Any]:
    meta = {"name": name, "namespace": "llm", "uid": f"{name}-uid", "resourceVersion": "7"}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": {key: text}, **fields}


def shelf(fields: dict[str, Any], *more: dict[str, Any], volumes: Any = None) -> ShelfReader:
    body = workload(containers=[container(**fields)])
    if volumes:
        body["spec"]["template"]["spec"]["volumes"] = volumes
    found = deployment_shelf(body=body)
    for one in more:
        found.put(one)
    return found


def mounted(text: str = CONFIG, **fields: Any) -> ShelfReader:
    return shelf({"args": ["--config", "/etc/vllm/serve.yaml"], **MOUNT}, config_map(text=text, **fields), volumes=VOLUMES)


def test_a_word_of_a_shell_string_is_changed_and_undone() -> None:
    here = shelf({"command": ["sh", "-c", "exec vllm serve llama --max-model-len 131072 --seed 1"], "args": None})
    before = here.seen("Deployment", "chat")["spec"]["template"]
    plan = planned(here)
    assert "+   - exec vllm serve llama --max-model-len 57344 --seed 1" in plan.diff
    execute_step(plan, 0, "op-1", here.writer())
    execute_step(plan_undo(operation(plan), here, new_id=new_id), 0, "op-2", here.writer())
    assert here.seen("Deployment", "chat")["spec"]["template"] == before


def test_an_absent_option_is_put_at_the_end_of_the_shell_string() -> None:
    here = shelf({"command": ["sh", "-c", "vllm serve llama \\\n  --seed 1\n"], "args": None})
    plan = planned(here)
    assert plan.steps[0].patch[-4]["value"] == "vllm serve llama \\\n  --seed 1 --max-model-len=57344"


def test_a_shell_string_with_a_secret_is_not_kept() -> None:
    here = shelf({"command": ["sh", "-c", "vllm serve llama --max-model-len 131072 --api-key sk-1234567890abcdef1234567890abcdef"], "args": None})
    found = handed_out(here)
    assert "holds a secret" in found.reason.en
    assert "sk-1234567890" not in found.paste


def test_a_literal_variable_is_changed_where_it_is_set() -> None:
    for fields in ({"args": ["--max-model-len=$(MAX_LEN)"]}, {"command": ["sh", "-c", 'vllm serve llama --max-model-len "${MAX_LEN}"'], "args": None}):
        here = shelf({**fields, "env": [{"name": "MAX_LEN", "value": "131072"}]})
        plan = planned(here)
        assert [one["value"] for one in plan.steps[0].patch if one["path"].endswith("/env/0/value") and one["op"] == "replace"] == ["57344"]


def test_a_variable_that_is_used_twice_is_left_to_people() -> None:
    here = shelf({"args": ["--max-model-len=$(LEN)", "--max-num-batched-tokens=$(LEN)"], "env": [{"name": "LEN", "value": "131072"}]})
    assert "other arguments may use too" in handed_out(here).reason.en


def test_a_mounted_config_file_is_changed_in_its_config_map_and_the_pods_roll() -> None:
    here = mounted()
    before = here.seen("ConfigMap", "chat-config"), here.seen("Deployment", "chat")
    plan = planned(here)
    assert [(step.kind, step.object.kind) for step in plan.steps] == [(StepKind.PATCH, "ConfigMap"), (StepKind.PATCH, "Deployment")]
    assert "@@ ConfigMap chat-config @@" in plan.diff
    assert "-   max-model-len: 131072  # long\n+   max-model-len: 57344  # long" in plan.diff
    for index in (0, 0, 1, 1):
        execute_step(plan, index, "op-1", here.writer())
    assert here.seen("ConfigMap", "chat-config")["data"]["serve.yaml"] == CONFIG.replace("131072", "57344")
    assert "oombot.io/config" in here.seen("Deployment", "chat")["spec"]["template"]["metadata"]["annotations"]
    assert here.sent == [("patch", "chat-config"), ("patch", "chat")]
    undo = plan_undo(operation(plan), here, new_id=new_id)
    for index in (0, 1):
        execute_step(undo, index, "op-2", here.writer())
    assert here.seen("ConfigMap", "chat-config")["data"] == before[0]["data"]
    assert here.seen("Deployment", "chat")["spec"]["template"] == before[1]["spec"]["template"]


def test_somebody_elses_change_of_the_config_map_is_shown() -> None:
    here = mounted()
    plan = planned(here)
    here.edit("ConfigMap", "chat-config", lambda body: body["data"].update({"serve.yaml": CONFIG.replace("llama", "qwen")}))
    assert [one.path for one in differences(plan, here)] == ["/data/serve.yaml"]


def test_a_key_of_a_config_map_that_env_from_reads_is_changed() -> None:
    env_from = {"args": ["--max-model-len", "$(MAX_LEN)"], "envFrom": [{"configMapRef": {"name": "chat-env"}}]}
    plan = planned(shelf(env_from, config_map("chat-env", "MAX_LEN", "131072")))
    assert plan.steps[0].patch[-2] == {"op": "replace", "path": "/data/MAX_LEN", "value": "57344"}


def test_a_secret_that_may_overrule_the_config_map_leaves_it_open() -> None:
    env_from = {"args": ["--max-model-len", "$(MAX_LEN)"], "envFrom": [{"configMapRef": {"name": "chat-env"}}, {"secretRef": {"name": "s"}}]}
    assert isinstance(handed_out(shelf(env_from, config_map("chat-env", "MAX_LEN", "131072"))), Handout)


def test_other_users_of_the_config_map_are_named() -> None:
    here = mounted()
    other = workload(meta={"name": "embed", "uid": "embed-uid"})
    other["spec"]["template"]["spec"]["volumes"] = VOLUMES
    here.put(other)
    assert any("Deployment embed" in note.en for note in planned(here).notes)


def test_what_stands_in_the_way_of_a_config_map_is_said() -> None:
    assert "immutable" in handed_out(mounted(immutable=True)).reason.en
    assert "secret" in handed_out(mounted(CONFIG + "api-key: sk-1234567890abcdef1234567890abcdef\n")).reason.en
    assert "deploy/rbac/configmaps.yaml" in handed_out(shelf({"args": ["--config", "/etc/vllm/serve.yaml"], **MOUNT}, volumes=VOLUMES)).reason.en
