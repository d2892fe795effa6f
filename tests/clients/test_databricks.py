"""A Databricks workspace by its REST API, against the sandbox's: an endpoint as an object, patience with limits, and failures as ours."""

import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from starlette.applications import Starlette
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from bot.clients.databricks import KIND, VERSION, DatabricksReader, Workspace, as_object
from bot.clients.databricks_writer import DatabricksWriter
from bot.errors import Conflict, Forbidden, NotFound, Permanent, Rejected, Temporary, Unreachable, Unsupported, WorldError
from bot.model import ObjectRef
from bot.sandbox.databricks import Endpoint, FakeDatabricks, entity, serving
from bot.sandbox.loopback import Served

REF = ObjectRef(VERSION, KIND, "", "chat")
MARK: list[dict[str, Any]] = [{"op": "add", "path": "/metadata/annotations", "value": {"oombot.io/operation": "o-1"}}]
LARGER: list[dict[str, Any]] = [
    {"op": "test", "path": "/spec/served_entities/0/workload_size", "value": "Small"},
    {"op": "replace", "path": "/spec/served_entities/0/workload_size", "value": "Medium"},
    *MARK,
]


@pytest.fixture
def fake() -> Iterator[FakeDatabricks]:
    with FakeDatabricks(Endpoint("chat", serving(entity(), entity("chat-2")), logs={"chat-1": "hello\n" * 10}, build_logs={"chat-1": "built\n"})) as found:
        yield found


def workspace(fake: FakeDatabricks, folder: Path, token: str | None = None, pauses: list[float] | None = None) -> Workspace:
    file = folder / "token"
    file.write_text(f"{fake.view_token if token is None else token}\n")
    return Workspace("dbx", fake.url, file, sleep=(list[float]() if pauses is None else pauses).append)


def writer(fake: FakeDatabricks, folder: Path) -> DatabricksWriter:
    return DatabricksWriter(workspace(fake, folder, fake.manage_token))


def test_an_endpoint_is_an_object_without_what_only_answers_have(fake: FakeDatabricks, tmp_path: Path) -> None:
    reader = DatabricksReader(workspace(fake, tmp_path))
    body = reader.get(VERSION, KIND, "", "chat")
    assert body["spec"]["served_entities"] == [entity(), entity("chat-2")]
    assert (body["metadata"]["generation"], body["metadata"]["uid"]) == (3, fake.endpoints["chat"].id)
    assert [one["state"]["deployment"] for one in body["status"]["entities"]] == ["DEPLOYMENT_READY"] * 2
    assert [one["metadata"]["name"] for one in reader.list(VERSION, KIND)] == ["chat"]
    assert (reader.list("v1", "Pod"), reader.log("", "chat", "chat-1").data, reader.log("", "chat", "chat-1", previous=True).data) == (
        (),
        b"hello\n" * 10,
        b"built\n",
    )


def test_the_newest_configuration_that_was_asked_for_counts_also_when_it_failed(fake: FakeDatabricks) -> None:
    there = fake.endpoints["chat"]
    there.fits = lambda config: "no room"
    there.begin({"served_entities": [entity(workload_size="Large")]})
    there.look()
    there.look()
    body = as_object(there.shown("CAN_VIEW"))
    assert (body["spec"]["served_entities"][0]["workload_size"], body["metadata"]["generation"]) == ("Large", 4)
    assert (body["status"]["serving_version"], body["status"]["pending_version"]) == (3, 4)
    there.update = "UPDATE_CANCELED"
    assert as_object(there.shown("CAN_VIEW"))["metadata"]["generation"] == 4


@pytest.mark.parametrize(
    "shape", [{}, {"config": 7}, {"config": {"served_entities": "x"}}, {"state": [], "config": {"served_entities": [1, {"environment_vars": 3}]}}]
)
def test_answers_of_no_known_shape_give_an_empty_object(shape: dict[str, Any]) -> None:
    assert as_object(shape)["kind"] == KIND


@pytest.mark.parametrize(("status", "error"), [(403, Forbidden), (404, NotFound), (409, Conflict), (400, Rejected), (500, Temporary), (418, Permanent)])
def test_refusals_become_our_errors_with_the_workspaces_words(fake: FakeDatabricks, tmp_path: Path, status: int, error: type[Exception]) -> None:
    fake.trouble = [(status, {})]
    with pytest.raises(error, match="SOMETHING: trouble") as raised:
        workspace(fake, tmp_path).get("/api/2.0/serving-endpoints/chat")
    assert isinstance(raised.value, WorldError)
    assert (raised.value.status, raised.value.reason, raised.value.words) == (status, "SOMETHING", "trouble")


def test_a_busy_workspace_is_asked_again_after_the_time_that_it_names(fake: FakeDatabricks, tmp_path: Path) -> None:
    pauses: list[float] = []
    fake.trouble = [(429, {"Retry-After": "2"}), (503, {})]
    assert DatabricksReader(workspace(fake, tmp_path, pauses=pauses)).get(VERSION, KIND, "", "chat")
    assert pauses == [2.0, 1.0]
    fake.trouble = [(429, {"Retry-After": "600"})]
    with pytest.raises(Temporary):
        workspace(fake, tmp_path, pauses=pauses).get("/api/2.0/serving-endpoints/chat")
    fake.trouble = [(429, {})] * 3
    with pytest.raises(Temporary):
        workspace(fake, tmp_path).get("/api/2.0/serving-endpoints/chat")
    assert len(pauses) == 2


def test_a_wrong_token_and_a_token_file_that_is_none_say_so_without_the_token(fake: FakeDatabricks, tmp_path: Path) -> None:
    with pytest.raises(Forbidden, match="does not accept the token") as refused:
        workspace(fake, tmp_path, "dapi-wrong").get("/api/2.0/serving-endpoints")
    assert "dapi" not in str(refused.value)
    for text in ("", "two words", "a\nb"):
        with pytest.raises(Forbidden, match="holds no token"):
            workspace(fake, tmp_path, text).get("/x")
    with pytest.raises(Forbidden, match="No such file"):
        Workspace("dbx", fake.url, tmp_path / "none").get("/x")


def test_a_token_that_is_replaced_counts_at_the_next_request(fake: FakeDatabricks, tmp_path: Path) -> None:
    found = workspace(fake, tmp_path, "old")
    (tmp_path / "token").write_text(fake.view_token)
    assert found.get("/api/2.0/serving-endpoints")


def test_a_redirect_is_not_followed_so_that_the_token_goes_nowhere_else(tmp_path: Path) -> None:
    seen: list[str] = []

    async def elsewhere(request: Any) -> Response:
        seen.append(request.url.path)
        return RedirectResponse("/stolen", 302)

    server = Served(Starlette(routes=[Route("/{path:path}", elsewhere)]))
    server.start()
    (tmp_path / "token").write_text("dapi1")
    with pytest.raises(Permanent, match="not followed"):
        Workspace("dbx", server.url, tmp_path / "token").get("/api/2.0/serving-endpoints")
    server.stop()
    assert seen == ["/api/2.0/serving-endpoints"]


def test_nobody_there_is_unreachable(tmp_path: Path) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    (tmp_path / "token").write_text("dapi1")
    with pytest.raises(Unreachable):
        Workspace("dbx", f"http://127.0.0.1:{port}", tmp_path / "token").get("/x")


@pytest.mark.parametrize("host", ["http://example.com", "https://a.b/path", "ftp://a.b", "", "https://user@a.b"])
def test_an_address_that_is_none_of_a_workspace_is_refused(host: str, tmp_path: Path) -> None:
    with pytest.raises(Permanent, match="no address of a workspace"):
        Workspace("dbx", host, tmp_path)


@pytest.mark.parametrize("name", ["../jobs", "a/b", "", "a b", "x" * 64])
def test_a_name_that_no_endpoint_can_have_reaches_no_path(fake: FakeDatabricks, tmp_path: Path, name: str) -> None:
    reader = DatabricksReader(workspace(fake, tmp_path))
    with pytest.raises(NotFound):
        reader.get(VERSION, KIND, "", name)
    with pytest.raises(NotFound):
        reader.log("", "chat", "../" + name)
    assert fake.requests == []


# ---------------------------------------------------------------- writing


def test_a_change_sends_the_whole_configuration_once_with_the_mark_in_what_changes(fake: FakeDatabricks, tmp_path: Path) -> None:
    after = writer(fake, tmp_path).patch(REF, LARGER, dry_run=False)
    [sent] = fake.endpoints["chat"].puts
    first, second = sent["served_entities"]
    assert (first["workload_size"], first["environment_vars"]["OOMBOT_OPERATION"]) == ("Medium", "4:o-1")
    assert first["environment_vars"]["API_TOKEN"] == "{{secrets/llm/token}}"
    assert second == entity("chat-2")
    assert sent["traffic_config"] == {"routes": [{"served_model_name": name, "traffic_percentage": 50} for name in ("chat-1", "chat-2")]}
    assert after["metadata"]["annotations"] == {"oombot.io/operation": "o-1"}
    assert "OOMBOT_OPERATION" not in after["spec"]["served_entities"][0]["environment_vars"]


def test_the_newest_of_several_marks_counts_and_an_older_one_stays_where_it_is(fake: FakeDatabricks, tmp_path: Path) -> None:
    there, hands = fake.endpoints["chat"], writer(fake, tmp_path)
    hands.patch(REF, LARGER, dry_run=False)
    there.look()
    there.look()
    second = [{"op": "replace", "path": "/spec/served_entities/1/workload_size", "value": "Large"}, {**MARK[0], "value": {"oombot.io/operation": "o-2"}}]
    assert hands.patch(REF, second, dry_run=False)["metadata"]["annotations"] == {"oombot.io/operation": "o-2"}
    assert [one["environment_vars"].get("OOMBOT_OPERATION") for one in there.puts[1]["served_entities"]] == ["4:o-1", "5:o-2"]


def test_a_dry_run_compares_and_sends_nothing(fake: FakeDatabricks, tmp_path: Path) -> None:
    hands = writer(fake, tmp_path)
    assert hands.patch(REF, LARGER, dry_run=True)["spec"]["served_entities"][0]["workload_size"] == "Medium"
    with pytest.raises(Conflict, match="is not what the patch was made for"):
        hands.patch(REF, [{**LARGER[0], "value": "Large"}, *LARGER[1:]], dry_run=True)
    with pytest.raises(Forbidden, match="may not manage chat"):
        DatabricksWriter(workspace(fake, tmp_path)).patch(REF, LARGER, dry_run=True)
    fake.endpoints["chat"].begin({"served_entities": [entity(), entity("chat-2")]})
    with pytest.raises(Conflict, match="under way"):
        hands.patch(REF, LARGER, dry_run=True)
    assert fake.endpoints["chat"].puts == []


def test_a_write_is_repeated_only_where_the_workspace_did_nothing(fake: FakeDatabricks, tmp_path: Path) -> None:
    hands = writer(fake, tmp_path)
    fake.trouble = [(429, {"Retry-After": "0"})]
    hands.get(REF)
    fake.requests.clear()
    for status in (500, 503, 504):
        fake.trouble = [(status, {})]
        with pytest.raises(Temporary):
            hands._workspace.put("/api/2.0/serving-endpoints/chat/config", {})
    assert len(fake.requests) == 3
    fake.trouble = [(429, {"Retry-After": "0"})]
    with pytest.raises(Rejected):
        hands._workspace.put("/api/2.0/serving-endpoints/chat/config", {})
    assert len(fake.requests) == 5


@pytest.mark.parametrize(
    "operations",
    [
        LARGER[1:2],
        [{"op": "replace", "path": "/metadata/name", "value": "other"}, *LARGER],
        [{"op": "replace", "path": "/spec/traffic_config", "value": {}}, *LARGER],
        [{"op": "remove", "path": "/spec/served_entities/1"}, *LARGER],
        [{"op": "replace", "path": "/status/task", "value": "x"}, *LARGER],
        MARK,
        [{"op": "replace", "path": "/spec/nothing/there", "value": 1}, *MARK],
        [{"op": "copy", "path": "/spec/served_entities/0/workload_size", "value": 1}, *MARK],
    ],
)
def test_nothing_but_served_entities_is_changed_and_never_without_a_mark(fake: FakeDatabricks, tmp_path: Path, operations: list[dict[str, Any]]) -> None:
    with pytest.raises(Rejected):
        writer(fake, tmp_path).patch(REF, operations, dry_run=False)
    assert fake.endpoints["chat"].puts == []


def test_a_workspace_has_no_pods_to_delete(fake: FakeDatabricks, tmp_path: Path) -> None:
    hands = writer(fake, tmp_path)
    with pytest.raises(Unsupported):
        hands.delete_pod(REF, dry_run=True)
    with pytest.raises(Unsupported):
        hands.create_cron_job(REF, {}, dry_run=True)
    with pytest.raises(Unsupported):
        hands.delete_cron_job(REF, dry_run=True)
    with pytest.raises(Unsupported):
        hands.stop_process(REF, [], 1, 1, dry_run=True)
    with pytest.raises(Unsupported):
        hands.drop_segments(REF, [], [], dry_run=True)
