"""A variable of the server's container: set, merged, added, or handed out when it comes from elsewhere."""

from typing import Any

import pytest

from bot.errors import BadInput
from bot.model import ObjectRef
from bot.remediation.change import Change, Elsewhere
from bot.remediation.environment_variable import change
from bot.remediation.pointer import apply
from bot.remediation.workload import Workload
from tests.remediation.shelf import container, workload

ALLOC = "PYTORCH_CUDA_ALLOC_CONF"
EXPAND = "expandable_segments:True"
ESTIMATE = "VLLM_MEMORY_PROFILER_ESTIMATE_CUDAGRAPHS"


def at(env: Any, **fields: Any) -> Workload:
    return Workload(ObjectRef("apps/v1", "Deployment", "llm", "chat", "u"), workload(containers=[container(env=env, **fields)]), 0)


def after(env: Any, variable: str, value: str) -> Any:
    here = at(env)
    done = change(here, variable, value)
    assert isinstance(done, Change), done
    return apply(here.body, [edit.operation() for edit in done.edits])["spec"]["template"]["spec"]["containers"][0]["env"]


def test_a_container_without_variables_gets_its_first() -> None:
    assert after(None, ESTIMATE, "0") == [{"name": ESTIMATE, "value": "0"}]


def test_an_absent_variable_is_added_behind_the_others() -> None:
    assert after([{"name": "A", "value": "1"}], ESTIMATE, "0") == [{"name": "A", "value": "1"}, {"name": ESTIMATE, "value": "0"}]


def test_the_last_of_two_entries_is_changed_since_it_wins() -> None:
    assert after([{"name": ESTIMATE, "value": "1"}, {"name": ESTIMATE, "value": "1"}], ESTIMATE, "0")[1]["value"] == "0"


def test_an_allocator_setting_keeps_the_other_settings() -> None:
    assert after([{"name": ALLOC, "value": "max_split_size_mb:128, expandable_segments:False"}], ALLOC, EXPAND)[0]["value"] == f"max_split_size_mb:128,{EXPAND}"


def test_the_newer_name_of_the_allocator_variable_is_used_where_it_stands() -> None:
    assert after([{"name": "PYTORCH_ALLOC_CONF", "value": "backend:native"}], ALLOC, EXPAND) == [
        {"name": "PYTORCH_ALLOC_CONF", "value": f"backend:native,{EXPAND}"}
    ]


@pytest.mark.parametrize("kept", [[], [{"name": "PYTORCH_NPU_ALLOC_CONF", "value": "max_split_size_mb:256"}]])
def test_a_container_with_an_ascend_npu_gets_the_variable_that_its_pytorch_reads(kept: list[dict[str, str]]) -> None:
    here = at(list(kept), resources={"limits": {"huawei.com/Ascend910": "1", "memory": "64Gi"}})
    done = change(here, ALLOC, EXPAND)
    assert isinstance(done, Change)
    env = apply(here.body, [edit.operation() for edit in done.edits])["spec"]["template"]["spec"]["containers"][0]["env"]
    assert env == [{"name": "PYTORCH_NPU_ALLOC_CONF", "value": ",".join([*(one["value"] for one in kept), EXPAND])}]


def test_values_of_other_variables_are_not_kept_with_the_plan() -> None:
    done = change(at([{"name": "HF_TOKEN", "value": "hf_abcdefghijklmnopqrstuvwxyz012345"}]), ESTIMATE, "0")
    assert isinstance(done, Change)
    assert "hf_abc" not in repr(done)


def test_a_variable_from_a_secret_is_handed_out() -> None:
    done = change(at([{"name": ALLOC, "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}]), ALLOC, EXPAND)
    assert isinstance(done, Elsewhere)
    assert "Secret s, key k" in done.reason.en


def test_a_variable_that_env_from_may_bring_is_said_to_be_overridden() -> None:
    done = change(at(None, envFrom=[{"configMapRef": {"name": "c"}}]), ESTIMATE, "0")
    assert isinstance(done, Change)
    assert "envFrom" in done.notes[0].en


def test_a_value_that_stands_there_already_is_not_written_again() -> None:
    assert isinstance(change(at([{"name": ESTIMATE, "value": "0"}]), ESTIMATE, "0"), Elsewhere)


@pytest.mark.parametrize(("variable", "value"), [("LD_PRELOAD", "x.so"), (ESTIMATE, "0 --x"), (ALLOC, "expandable_segments:True,backend:evil")])
def test_no_other_variable_or_value_is_written(variable: str, value: str) -> None:
    with pytest.raises(BadInput):
        change(at(None), variable, value)
