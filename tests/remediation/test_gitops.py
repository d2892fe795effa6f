"""What GitOps keeps: the patch for its source with the place where it stands, and when a change in place would be put back."""

from dataclasses import replace
from typing import Any

import pytest

from bot.remediation import ownership
from tests.remediation.plans import handed_out, planned
from tests.remediation.shelf import ShelfReader, container, deployment_shelf, workload

TRACKED = {"annotations": {"argocd.argoproj.io/tracking-id": "chat:apps/Deployment:llm/chat"}}
KUSTOMIZED = {"labels": {"kustomize.toolkit.fluxcd.io/name": "apps", "kustomize.toolkit.fluxcd.io/namespace": "flux"}}
RELEASED = {"labels": {"helm.toolkit.fluxcd.io/name": "chat", "helm.toolkit.fluxcd.io/namespace": "flux"}}


def keeper(kind: str, name: str, spec: dict[str, Any], namespace: str = "flux") -> dict[str, Any]:
    return {"kind": kind, "metadata": {"name": name, "namespace": namespace}, "spec": spec}


def kept(meta: dict[str, Any], *keepers: dict[str, Any]) -> ShelfReader:
    shelf = deployment_shelf(gpus=2, body=workload(meta=meta))
    for one in keepers:
        shelf.put(one)
    return shelf


def application(**policy: Any) -> dict[str, Any]:
    return keeper("Application", "chat", {"source": {"repoURL": "https://git.example.com/apps.git", "path": "llm/chat", "targetRevision": "main"}, **policy})


@pytest.mark.parametrize(
    ("policy", "words"),
    [
        ({"syncPolicy": {"automated": {"selfHeal": True}}}, "put back within seconds"),
        ({"syncPolicy": {"automated": {}}}, "until the next commit"),
        ({}, "until somebody syncs"),
    ],
)
def test_an_application_says_where_its_manifest_stands_and_whether_it_heals_itself(policy: dict[str, Any], words: str) -> None:
    found = handed_out(kept(TRACKED, application(**policy)))
    assert found.paste.startswith("# repository https://git.example.com/apps.git, path llm/chat, revision main\nspec:\n")
    assert "--max-model-len=57344" in found.paste
    assert words in found.reason.en


def test_a_kustomization_says_its_path_and_interval() -> None:
    spec = {"path": "./llm", "interval": "10m", "sourceRef": {"kind": "GitRepository", "name": "apps"}}
    found = handed_out(kept(KUSTOMIZED, keeper("Kustomization", "apps", spec)))
    assert found.paste.startswith("# repository GitRepository apps, path ./llm\n")
    assert "every 10m" in found.reason.en
    assert "suspended" in handed_out(kept(KUSTOMIZED, keeper("Kustomization", "apps", {**spec, "suspend": True}))).reason.en


@pytest.mark.parametrize(
    ("values", "patch"),
    [
        ({"model": {"maxModelLen": 131072, "name": "llama"}}, "spec:\n  values:\n    model:\n      maxModelLen: 57344\n"),
        ({"extraArgs": ["--seed=1", "--max-model-len=131072"]}, "spec:\n  values:\n    extraArgs:\n      - --seed=1\n      - --max-model-len=57344\n"),
    ],
)
def test_the_key_of_a_release_that_holds_the_value_is_named(values: dict[str, Any], patch: str) -> None:
    spec = {"chart": {"spec": {"chart": "vllm-stack"}}, "values": values, "driftDetection": {"mode": "enabled"}}
    found = handed_out(kept(RELEASED, keeper("HelmRelease", "chat", spec)))
    assert found.paste == "# path of chart vllm-stack: spec.values of HelmRelease flux/chat\n" + patch
    assert "Drift detection is on" in found.reason.en


def test_a_value_that_stands_twice_is_not_guessed() -> None:
    found = handed_out(kept(RELEASED, keeper("HelmRelease", "chat", {"values": {"a": 131072, "b": 131072}})))
    assert "template:" in found.paste


@pytest.mark.parametrize("args", [["--max_model_len", "131072"], ["--max-model-len=131072"]])
def test_the_values_of_the_vllm_production_stack_are_named(args: list[str]) -> None:
    labels = {"helm.sh/chart": "vllm-stack-0.1.7", "app.kubernetes.io/managed-by": "Helm", "model": "llama3"}
    shelf = deployment_shelf(gpus=2, body=workload(containers=[container(args=["serve", "x", *args])], meta={"labels": labels}))
    assert "servingEngineSpec:\n  modelSpec:\n    - name: llama3\n      vllmConfig:\n        maxModelLen: 57344\n" in handed_out(shelf).paste


def test_an_unreadable_keeper_is_said_to_be_unreadable() -> None:
    assert "could not be read" in handed_out(kept(TRACKED)).reason.en


def test_in_place_only_when_policy_says_so_and_with_the_warning() -> None:
    shelf = kept(TRACKED, application(syncPolicy={"automated": {"selfHeal": True}}))
    handed_out(shelf)
    plan = planned(shelf, in_place=True)
    assert any("put back within seconds" in note.en for note in plan.notes)


@pytest.mark.parametrize(("meta", "name"), [(TRACKED, "Argo CD chat"), (KUSTOMIZED, "Flux Kustomization flux/apps"), (RELEASED, "Flux HelmRelease flux/chat")])
def test_who_took_the_object_over_after_the_preview_is_seen_before_the_write(meta: dict[str, Any], name: str) -> None:
    plan = planned(kept({}))
    assert ownership.keeper(plan, kept({}), in_place=False) == ""
    assert ownership.keeper(plan, kept(meta), in_place=False) == name
    assert ownership.keeper(plan, kept(meta), in_place=True) == ""


def test_what_an_operator_took_over_is_left_alone_whatever_the_rules_say() -> None:
    meta = {"ownerReferences": [{"kind": "Shop", "name": "chat", "controller": True, "apiVersion": "x.example/v1", "uid": "u"}]}
    assert ownership.keeper(planned(kept({})), kept(meta), in_place=True) == "Shop chat"


def test_a_plain_restart_and_an_undo_are_nobodys_business() -> None:
    shelf = kept(TRACKED)
    assert ownership.keeper(planned(shelf, "restart"), shelf, in_place=False) == ""
    assert ownership.keeper(replace(planned(kept({})), direction="undo"), shelf, in_place=False) == ""
