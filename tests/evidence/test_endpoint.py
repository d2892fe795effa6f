"""Evidence of a Databricks serving endpoint: found by its name, collected without pods and nodes, covered where it may hold secrets, and diagnosed."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from bot.clients.databricks import DatabricksReader, Workspace
from bot.clock import SystemClock
from bot.errors import BadInput, TargetNotFound
from bot.evidence.bundle import open_path, write
from bot.evidence.collect import collect
from bot.evidence.endpoint_json import read
from bot.evidence.locate import locate, query
from bot.incident import examine
from bot.model import Bundle, Diagnosis, ProgressLine, Target
from bot.playbooks import load
from bot.sandbox.databricks import Endpoint, FakeDatabricks, entity, serving
from tests.remediation.shelf import deployment_shelf

OOM = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 14.58 GiB of which 1.00 GiB is free.\n"
TIMED_OUT = "Served model creation aborted because the endpoint update timed out. Please see service logs for more information."
NO_MACHINE = "served entity creation aborted because the resource did not become available in time"


class Silent:
    def report(self, line: ProgressLine) -> None:
        """Nobody looks."""


def failed(name: str, message: str, serves: bool = True, **fields: Any) -> Endpoint:
    found = Endpoint(name, serving(entity()) if serves else None, fits=lambda config: message, **fields)
    found.begin({"served_entities": [entity(environment_vars={"VLLM_USE_V1": "1", "MY_SETTING": "s3cr3t-value", "VLLM_API_KEY": "k3y"})]})
    found.look()
    found.look()
    return found


@pytest.fixture
def reader(tmp_path: Path) -> Iterator[DatabricksReader]:
    asleep = Endpoint("asleep", serving(entity()))
    assert asleep.config is not None
    asleep.config["served_entities"][0]["state"] = {"deployment": "DEPLOYMENT_RECOVERING", "deployment_state_message": NO_MACHINE}
    two = Endpoint("two_models", serving(entity(), entity("chat-2")))
    there = [
        failed("chat", TIMED_OUT, logs={"chat-1": OOM}, build_logs={"chat-1": "built\n"}),
        failed("cap", NO_MACHINE, serves=False),
        Endpoint("fine", serving(entity())),
        two,
        asleep,
    ]
    (tmp_path / "token").write_text("")
    with FakeDatabricks(*there) as fake:
        (tmp_path / "token").write_text(fake.view_token)
        yield DatabricksReader(Workspace("dbx", fake.url, tmp_path / "token"))


def found(reader: DatabricksReader, name: str, container: str | None = None) -> Target:
    return locate(query(f"endpoint/{name}", None, None, container), {"dbx": reader, "prod": deployment_shelf()})


def bundle(reader: DatabricksReader, name: str) -> Bundle:
    return collect(found(reader, name), reader, None, Silent(), clock=SystemClock())


def diagnosis(reader: DatabricksReader, name: str) -> Diagnosis:
    return examine(bundle(reader, name), load())


def test_an_endpoint_is_found_by_its_name_beside_clusters_that_have_none(reader: DatabricksReader) -> None:
    target = found(reader, "chat")
    assert (str(target), target.cluster, target.container, target.namespace, target.pod) == ("endpoint/chat", "dbx", "chat-1", "", "")
    assert found(reader, "two_models", "chat-2").container == "chat-2"
    assert str(found(reader, "two_")) == "endpoint/two_models"


def test_what_is_no_endpoint_says_what_there_is(reader: DatabricksReader) -> None:
    with pytest.raises(TargetNotFound, match="nearest: chat"):
        found(reader, "chatt")
    with pytest.raises(TargetNotFound, match="serves no 'other'; it serves chat-1"):
        found(reader, "chat", "other")
    with pytest.raises(BadInput, match="no namespace"):
        query("endpoint/chat", "llm")
    with pytest.raises(BadInput, match="cannot be the name of a serving endpoint"):
        query("endpoint/a.b")


def test_a_pod_is_looked_for_in_a_workspace_in_vain(reader: DatabricksReader) -> None:
    with pytest.raises(TargetNotFound, match="no Pod is called"):
        locate(query("chat"), {"dbx": reader})


def test_the_bundle_holds_state_and_logs_and_misses_no_pod(reader: DatabricksReader, tmp_path: Path) -> None:
    live = bundle(reader, "chat")
    assert set(live.files) == {"bundle.json", "endpoint.json", "container.log", "logs/chat-1.build.log"}
    assert live.gaps == ()
    write(live, tmp_path / "kept", json.loads(live.files["bundle.json"].open().read()))
    again = examine(open_path(str(tmp_path / "kept")), load())
    assert (again.cause, again.summary) == (diagnosis(reader, "chat").cause, diagnosis(reader, "chat").summary)


def test_values_of_variables_that_are_not_the_servers_own_are_covered(reader: DatabricksReader) -> None:
    text = bundle(reader, "chat").files["endpoint.json"].open().read().decode()
    assert "s3cr3t-value" not in text
    assert "k3y" not in text
    assert '"VLLM_USE_V1": "1"' in text


@pytest.mark.parametrize(
    ("name", "cause", "remedies"),
    [
        ("chat", "gpu_oom", {"bigger_gpu"}),
        ("cap", "unschedulable", {"scheduling:fix"}),
        ("asleep", "unschedulable", {"scale_to_zero:disable"}),
        ("fine", "healthy", {"none"}),
    ],
)
def test_what_the_evidence_supports_is_said(reader: DatabricksReader, name: str, cause: str, remedies: set[str]) -> None:
    said = diagnosis(reader, name)
    assert said.cause == cause
    assert remedies <= {one.id for one in said.recommendations}
    assert not {gap.source for gap in said.gaps} & {"pod.json", "events.json", "kernel.log", "node_readings.txt"}


def test_a_deployment_that_never_had_a_machine_is_not_told_to_keep_one(reader: DatabricksReader) -> None:
    assert "scale_to_zero:disable" not in {one.id for one in diagnosis(reader, "cap").recommendations}


def test_a_failed_update_beside_a_configuration_that_serves_is_both(reader: DatabricksReader) -> None:
    facts = {fact.name: fact.value for fact in read(bundle(reader, "chat").files["endpoint.json"].open().read(), "endpoint.json").facts}
    assert (facts["endpoint.ready"], facts["endpoint.update"], facts["endpoint.deployment"], facts["endpoint.message"]) == (
        True,
        "UPDATE_FAILED",
        "DEPLOYMENT_FAILED",
        TIMED_OUT,
    )
    assert (facts["endpoint.workload_type"], facts["env.VLLM_USE_V1"]) == ("GPU_SMALL", "1")


@pytest.mark.parametrize(
    "data", [b"", b"{", b"[]", b'{"status": 7}', b'{"status": {"entities": [1, {"state": []}]}, "spec": {"served_entities": "x"}}', b"\xff" * 100]
)
def test_a_damaged_file_is_a_gap_and_no_exception(data: bytes) -> None:
    assert read(data, "endpoint.json").gaps
