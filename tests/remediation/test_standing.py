"""Whether what was written still stands, and by whom it was changed."""

from dataclasses import replace
from typing import Any

import pytest

from bot.errors import NotFound
from bot.model import Operation
from bot.remediation import execute_step
from bot.remediation.standing import standing
from tests.remediation.plans import operation, planned, recommendation
from tests.remediation.shelf import ShelfReader, container, deployment_shelf, workload
from tests.remediation.test_sources import mounted


def applied(here: ShelfReader, wanted: Any = None) -> Operation:
    done = operation(planned(here, wanted))
    steps = len([step for step in done.remediation.steps if step.patch])
    for index in range(steps):
        execute_step(done.remediation, index, done.id, here.writer())
    return replace(done, next_step=steps)


def by(manager: str, *path: str) -> list[dict[str, Any]]:
    fields: dict[str, Any] = {}
    for part in reversed(path):
        fields = {f"f:{part}": fields}
    return [{"manager": manager, "operation": "Update", "time": "2026-11-30T10:30:00Z", "fieldsV1": fields}]


def put_back(body: dict[str, Any]) -> None:
    """As Argo CD does at its next sync."""
    body["spec"]["template"]["spec"]["containers"][0]["args"][1] = "--max-model-len=131072"
    body["metadata"]["managedFields"] = by("argocd-application-controller", "spec", "template", "spec", "containers")


def test_what_stands_gives_nothing() -> None:
    here = deployment_shelf(gpus=2)
    assert standing(applied(here), here) == ()


def test_gitops_that_puts_its_own_back_is_named() -> None:
    here = deployment_shelf(gpus=2)
    done = applied(here)
    here.edit("Deployment", "chat", put_back)
    (found,) = standing(done, here)
    assert (found.path, found.before, found.now) == ("/spec/template/spec/containers/0/args/1", "--max-model-len=57344", "--max-model-len=131072")
    assert found.who == "argocd-application-controller"


def test_another_part_of_the_object_that_somebody_changes_is_not_our_business() -> None:
    here = deployment_shelf(gpus=2)
    done = applied(here)
    here.edit("Deployment", "chat", lambda body: body["spec"].update(replicas=3))
    here.edit("Deployment", "chat", lambda body: body["spec"]["template"]["spec"]["containers"][0].update(image="vllm/vllm-openai:v0.12.0"))
    assert standing(done, here) == ()


def test_an_object_that_was_made_again_under_the_same_name_is_another() -> None:
    here = deployment_shelf(gpus=2)
    done = applied(here)
    here.edit("Deployment", "chat", lambda body: body["metadata"].update(uid="another"))
    assert [one.path for one in standing(done, here)] == ["uid"]


def test_an_object_that_is_gone_is_said() -> None:
    here = deployment_shelf(gpus=2)
    done = applied(here)
    here.drop("Deployment", "chat")
    with pytest.raises(NotFound):
        standing(done, here)


def test_steps_that_were_not_sent_are_not_looked_for() -> None:
    here = mounted()
    done = replace(operation(planned(here)), next_step=0)
    assert standing(done, here) == ()


def test_a_config_map_that_was_put_back_is_seen() -> None:
    here = mounted()
    done = applied(here)
    assert standing(done, here) == ()
    here.edit("ConfigMap", "chat-config", lambda body: body["data"].update({"serve.yaml": "max-model-len: 131072\n"}))
    assert [one.path for one in standing(done, here)] == ["/data/serve.yaml"]


@pytest.mark.parametrize("args", [["--enforce-eager", "--model=llama"], ["--model=llama", "--max-num-seqs=256", "--seed=1"]])
def test_lists_in_which_something_was_added_or_set_stand(args: list[str]) -> None:
    here = deployment_shelf(gpus=2, body=workload(containers=[container(args=args)]))
    assert standing(applied(here, recommendation("max_num_seqs", to=64)), here) == ()
