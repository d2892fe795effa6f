"""Arguments that stand in a shell string, a variable or a ConfigMap: changed on a cluster, with the pods that need it, and undone to the letter."""

import json
from typing import Any

import pytest

from bot.remediation import execute_step, plan_undo
from bot.sandbox.behaviours import ANNOTATION
from bot.sandbox.kubelet.machine import machine
from tests.remediation.place import CRASHES, MODEL, Place, manifest, restarts, until
from tests.remediation.plans import handed_out, new_id, operation, planned, recommendation

CONFIG = f"model: {MODEL}\nmax-model-len: 131072\n"


def sourced(place: Place, fields: dict[str, Any], *more: dict[str, Any]) -> Any:
    """The target of a crash-looping Deployment whose container has these fields."""
    place.cluster.apply([{"apiVersion": "v1", "metadata": {"namespace": place.namespace, **one.pop("metadata")}, **one} for one in more])
    body = manifest("Deployment", place.namespace, script=CRASHES, strategy={"type": "Recreate"})
    spec = body["spec"]["template"]["spec"]
    spec["volumes"] = fields.pop("volumes", [])
    spec["containers"][0] = {**{key: value for key, value in spec["containers"][0].items() if key != "args"}, **fields}
    place.cluster.apply(body)
    return place.target("Deployment", until(lambda: next((one for one in place.pods() if restarts(one) >= 1), None)))


def config_map(key: str, text: str) -> dict[str, Any]:
    return {"kind": "ConfigMap", "metadata": {"name": "chat-config"}, "data": {key: text}}


SHELL = {"command": ["sh", "-c", f"exec vllm serve {MODEL} --max-model-len 131072"]}
VARIABLE = {"args": ["--model", MODEL, "--max-model-len=$(MAX_LEN)"], "env": [{"name": "MAX_LEN", "value": "131072"}]}
FILE = {
    "args": ["--config", "/etc/vllm/serve.yaml"],
    "volumeMounts": [{"name": "settings", "mountPath": "/etc/vllm"}],
    "volumes": [{"name": "settings", "configMap": {"name": "chat-config"}}],
}
ENV_FROM = {"args": ["--model", MODEL, "--max-model-len", "$(MAX_LEN)"], "envFrom": [{"configMapRef": {"name": "chat-config"}}]}


@pytest.mark.parametrize(
    ("fields", "more"),
    [(SHELL, ()), (VARIABLE, ()), (FILE, ("serve.yaml", CONFIG)), (ENV_FROM, ("MAX_LEN", "131072"))],
    ids=["shell string", "variable", "config file", "envFrom"],
)
def test_the_value_is_changed_where_it_stands_the_pods_roll_and_undo_restores_it(place: Place, fields: dict[str, Any], more: tuple[str, ...]) -> None:
    target = sourced(place, json.loads(json.dumps(fields)), *([config_map(*more)] if more else []))
    maps = [one["data"] for one in place.cluster.objects("v1", "ConfigMap", place.namespace) if one["metadata"]["name"] == "chat-config"]
    before = place.body("Deployment")["spec"]
    plan = place.planned(recommendation(), target)
    for index in range(len(plan.steps)):
        execute_step(plan, index, "op-1", place.writer)
        execute_step(plan, index, "op-1", place.writer)
    new = until(lambda: next((one for one in place.pods() if one["metadata"]["uid"] != target.pod_uid), None))
    assert ANNOTATION in new["metadata"]["annotations"]
    written = json.dumps([place.body("Deployment")["spec"], place.cluster.objects("v1", "ConfigMap", place.namespace)])
    assert "57344" in written
    undo = plan_undo(operation(plan), place.reader, new_id=new_id)
    for index in range(len(undo.steps)):
        execute_step(undo, index, "op-2", place.writer)
    assert place.body("Deployment")["spec"] == before
    assert [one["data"] for one in place.cluster.objects("v1", "ConfigMap", place.namespace) if one["metadata"]["name"] == "chat-config"] == maps


def test_an_object_of_argo_cd_is_handed_out_with_its_place_in_git_and_changed_in_place_only_by_policy(place: Place) -> None:
    source = {"repoURL": "https://git.example.com/apps.git", "path": "llm/chat", "targetRevision": "main"}
    name = f"chat-{place.namespace}"
    meta = {"name": name, "namespace": place.namespace}
    place.cluster.apply({"apiVersion": "argoproj.io/v1alpha1", "kind": "Application", "metadata": meta, "spec": {"source": source}})
    target = place.crash_looping("Deployment", script=CRASHES)
    body = place.body("Deployment")
    body["metadata"] = {
        **{key: body["metadata"][key] for key in ("name", "namespace")},
        "annotations": {"argocd.argoproj.io/tracking-id": f"{name}:apps/Deployment:x/chat"},
    }
    place.cluster.apply({key: body[key] for key in ("apiVersion", "kind", "metadata", "spec")}, manager="argocd-controller")
    found = handed_out(place.reader, recommendation(), target)
    assert "# repository https://git.example.com/apps.git, path llm/chat, revision main" in found.paste
    plan = planned(place.reader, recommendation(), target, in_place=True)
    execute_step(plan, 0, "op-1", place.writer)
    assert "--max-model-len=57344" in place.body("Deployment")["spec"]["template"]["spec"]["containers"][0]["args"]


def test_one_more_replica_gets_the_free_gpu_and_is_taken_away_again(place: Place) -> None:
    place.cluster.add_machine(machine(f"spare-{place.namespace}", labels={"pool": place.namespace}))
    target = place.ready("Deployment", script={"ready_after": 2, "log": ["serving"]})
    plan = place.planned("add_replicas", target)
    rollout = place.carry_out(plan, "op-1")
    assert (rollout.ready, rollout.wanted) == (2, 2)
    undo = plan_undo(operation(plan), place.reader, new_id=new_id)
    assert place.carry_out(undo, "op-2").wanted == 1
    until(lambda: True if len(place.pods()) == 1 else None)  # which one goes is the controller's choice
