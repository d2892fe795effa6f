"""Labels to targets."""

import pytest

from bot.evidence.alert import target_of
from bot.model import Alert


def query(**labels: str) -> tuple[str, str, str | None, str | None]:
    found = target_of(Alert("k", "pagerduty", "t", labels))
    return found.kind, found.name, found.namespace, found.cluster


def test_the_workloads_own_labels_win_over_the_exporters() -> None:
    assert query(pod="dcgm-exporter-1", namespace="gpu", exported_pod="chat-0", exported_namespace="llm") == ("pod", "chat-0", "llm", None)


def test_a_pod_is_looked_at_before_its_workload_and_node() -> None:
    assert query(pod="chat-0", deployment="chat", node="gpu-1", cluster="east") == ("pod", "chat-0", None, "east")
    assert query(deployment="chat", namespace="llm", node="gpu-1") == ("workload", "chat", "llm", None)
    assert query(statefulset="chat", namespace="llm") == ("workload", "chat", "llm", None)
    assert query(Hostname="gpu-1") == ("node", "gpu-1", None, None)


@pytest.mark.parametrize("value", ["", " ", "{{ $labels.pod }}", "a b", "../x", "x" * 254, "<!channel>"])
def test_a_label_that_cannot_be_a_name_is_passed_over(value: str) -> None:
    assert query(pod=value, node="gpu-1")[0] == "node"
