"""Kinds above Deployments: kept, selected, patched by merge, never by strategic merge."""

import time

import pytest
from kubernetes import client

from bot.ports import Json
from tests.contracts.lane import STRATEGIC, Lane, refused

GROUP, VERSION, PLURAL = "serving.kserve.io", "v1beta1", "inferenceservices"


@pytest.fixture
def service(lane: Lane) -> Lane:
    spec = {"predictor": {"model": {"args": ["--max-model-len=4096"]}}}
    document = {"apiVersion": f"{GROUP}/{VERSION}", "kind": "InferenceService", "metadata": {"name": "chat", "namespace": lane.namespace}, "spec": spec}
    for _ in range(40):  # a definition is served a moment after it is made
        try:
            lane.cluster.apply(document)
            break
        except AssertionError:
            time.sleep(0.25)
    return lane


def _patch(lane: Lane, body: object, kind: str) -> Json:
    api = client.CustomObjectsApi(lane.api())
    found: Json = api.patch_namespaced_custom_object(GROUP, VERSION, lane.namespace, PLURAL, "chat", body, _content_type=kind)
    return found


def test_a_custom_object_is_read_and_patched(service: Lane) -> None:
    operations = [{"op": "replace", "path": "/spec/predictor/model/args/0", "value": "--max-model-len=2048"}]
    after = _patch(service, operations, "application/json-patch+json")
    assert after["spec"]["predictor"]["model"]["args"] == ["--max-model-len=2048"]
    assert after["metadata"]["generation"] == 2
    merged = _patch(service, {"spec": {"predictor": {"minReplicas": 1}}}, "application/merge-patch+json")
    assert merged["spec"]["predictor"] == {"model": {"args": ["--max-model-len=2048"]}, "minReplicas": 1}


def test_a_strategic_patch_of_one_is_refused(service: Lane) -> None:
    code, status = refused(lambda: _patch(service, {"spec": {}}, STRATEGIC))
    assert (code, status["reason"]) == (415, "UnsupportedMediaType")
