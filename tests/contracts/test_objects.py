"""Reading: get, list with selectors and pages, watch."""

import threading
import time

import pytest
from kubernetes import watch

from bot.ports import Json
from tests.contracts.lane import Lane, refused


@pytest.fixture
def maps(lane: Lane) -> Lane:
    for name, labels in {"a": {"tier": "web", "team": "x"}, "b": {"tier": "db", "team": "x"}, "c": {"tier": "web"}, "d": {}}.items():
        lane.configmap(name, labels)
    return lane


@pytest.mark.parametrize(
    ("selector", "found"),
    [
        ("tier=web", ["a", "c"]),
        ("tier==db", ["b"]),
        ("tier!=web", ["b", "d"]),
        ("tier in (web,db)", ["a", "b", "c"]),
        ("tier notin (web)", ["b", "d"]),
        ("team", ["a", "b"]),
        ("!team", ["c", "d"]),
        ("tier=web,team=x", ["a"]),
    ],
)
def test_a_label_selector_finds(maps: Lane, selector: str, found: list[str]) -> None:
    items = maps.core().list_namespaced_config_map(maps.namespace, label_selector=selector).items
    assert [item.metadata.name for item in items if item.metadata.name != "kube-root-ca.crt"] == found


def test_a_selector_that_is_none_is_a_bad_request(maps: Lane) -> None:
    code, status = refused(lambda: maps.core().list_namespaced_config_map(maps.namespace, label_selector="tier in web"))
    assert (code, status["reason"]) == (400, "BadRequest")


def test_field_selectors_find_by_name_and_by_node(lane: Lane) -> None:
    lane.deploy()
    pod = lane.ready_pod()
    name = pod["metadata"]["name"]

    def names(selector: str) -> list[str]:
        return [item.metadata.name for item in lane.core().list_namespaced_pod(lane.namespace, field_selector=selector).items]

    assert names(f"metadata.name={name}") == [name]
    assert names(f"spec.nodeName={lane.node}") == [name]
    assert names("spec.nodeName=elsewhere") == []
    assert names("status.phase=Running") == [name]
    assert names("status.phase!=Running") == []


def test_events_are_found_by_the_object_that_they_are_about(lane: Lane) -> None:
    lane.deploy()
    pod = lane.ready_pod()
    selector = f"involvedObject.kind=Pod,involvedObject.name={pod['metadata']['name']},involvedObject.uid={pod['metadata']['uid']}"
    items = lane.core().list_namespaced_event(lane.namespace, field_selector=selector).items
    assert {"Scheduled", "Pulled", "Created", "Started"} <= {item.reason for item in items}
    assert all(item.involved_object.uid == pod["metadata"]["uid"] for item in items)


def test_a_field_that_is_not_indexed_is_a_bad_request(lane: Lane) -> None:
    code, status = refused(lambda: lane.core().list_namespaced_pod(lane.namespace, field_selector="spec.hostname=x"))
    assert (code, status["reason"]) == (400, "BadRequest")
    assert "field label not supported" in status["message"]


def test_pages_give_every_object_once(maps: Lane) -> None:
    names: list[str] = []
    token, pages = None, 0
    while pages < 10:
        page = maps.core().list_namespaced_config_map(maps.namespace, limit=2, _continue=token)
        pages, token = pages + 1, page.metadata._continue
        names += [item.metadata.name for item in page.items]
        assert len(page.items) <= 2
        if not token:
            break
    assert [name for name in names if name != "kube-root-ca.crt"] == ["a", "b", "c", "d"]
    assert pages >= 2


def test_a_continue_token_of_ones_own_making_is_refused(maps: Lane) -> None:
    assert refused(lambda: maps.core().list_namespaced_config_map(maps.namespace, limit=2, _continue="bm9uc2Vuc2U"))[0] == 400


def test_a_missing_object_is_not_found_by_name(lane: Lane) -> None:
    code, status = refused(lambda: lane.apps().read_namespaced_deployment("nobody", lane.namespace))
    assert (code, status["reason"], status["message"]) == (404, "NotFound", 'deployments.apps "nobody" not found')


def test_a_name_is_taken_once(lane: Lane) -> None:
    lane.configmap("one")
    body = {"metadata": {"name": "one"}}
    code, status = refused(lambda: lane.core().create_namespaced_config_map(lane.namespace, body))
    assert (code, status["reason"], status["message"]) == (409, "AlreadyExists", 'configmaps "one" already exists')


def test_nothing_is_made_in_a_namespace_that_is_not_there(lane: Lane) -> None:
    code, status = refused(lambda: lane.core().create_namespaced_config_map("nowhere-at-all", {"metadata": {"name": "one"}}))
    assert (code, status["message"]) == (404, 'namespaces "nowhere-at-all" not found')


def test_a_watch_sees_what_happens_after_the_list(maps: Lane) -> None:
    version = maps.core().list_namespaced_config_map(maps.namespace).metadata.resource_version

    def act() -> None:
        time.sleep(0.3)
        maps.configmap("e", {"tier": "web"})
        maps.core().patch_namespaced_config_map("a", maps.namespace, {"data": {"k": "v"}})
        maps.core().patch_namespaced_config_map("c", maps.namespace, {"metadata": {"labels": {"tier": "db"}}})
        maps.core().delete_namespaced_config_map("e", maps.namespace)

    actor = threading.Thread(target=act)
    actor.start()
    seen = _watched(maps, version, "tier=web", 4)
    actor.join()
    # One that leaves the selector is told as deleted.
    assert seen == [("ADDED", "e"), ("MODIFIED", "a"), ("DELETED", "c"), ("DELETED", "e")]


def test_a_watch_without_a_version_begins_with_what_is_there(maps: Lane) -> None:
    assert _watched(maps, None, "tier=web", 2) == [("ADDED", "a"), ("ADDED", "c")]


def _watched(lane: Lane, version: str | None, selector: str, count: int) -> list[tuple[str, str]]:
    seen: list[tuple[str, str]] = []
    watcher = watch.Watch()
    query: Json = {"label_selector": selector, "timeout_seconds": 5} | ({"resource_version": version} if version else {})
    for event in watcher.stream(lane.core().list_namespaced_config_map, lane.namespace, **query):
        seen.append((event["type"], event["object"].metadata.name))
        if len(seen) == count:
            watcher.stop()
            break
    return seen
