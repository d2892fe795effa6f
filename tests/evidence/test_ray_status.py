"""`ray status` in the formats of its versions, and `serve status`."""

from typing import Any

import pytest

from bot.evidence.ray_status import read

HEAD = "======== Autoscaler status: 2026-06-07 18:12:41.350749 ========\nNode status\n-----\nActive:\n 1 head\n 2 workers\nPending:\n (no pending nodes)\nRecent failures:\n"
USE = "Resources\n-----\n{usage}:\n {used}/4.0 GPU\n 0B/136.89GiB memory\n\n{demands}:\n {demand}\n"


def facts(text: str) -> dict[str, Any]:
    return {fact.name.removeprefix("ray_status."): fact.value for fact in read(text.encode(), "ray_status.txt").facts}


@pytest.mark.parametrize(("usage", "demands"), [("Usage", "Demands"), ("Total Usage", "Total Demands"), ("Total Usage", "From request_resources:\n (none)\nPending Demands")])
def test_use_and_demand_are_read_in_the_words_of_each_version(usage: str, demands: str) -> None:
    found = facts(HEAD + " (no failures)\n" + USE.format(usage=usage, used="1.0", demands=demands, demand="{'GPU': 1.0} * 2 (PACK): 1+ pending placement groups"))
    assert [found[name] for name in ("nodes", "gpu_used", "gpu_total", "gpu_demand", "demand")] == [3, 1.0, 4.0, 2.0, "placement group"]


def test_group_that_wants_one_node_and_a_failed_node_are_told() -> None:
    found = facts(
        HEAD + " workers: NodeTerminated (ip: 10.8.3.21)\n" + USE.format(usage="Usage", used="0.0", demands="Demands", demand="{'GPU': 1.0} * 4 (STRICT_PACK): 1+ pending placement groups")
    )
    assert (found["demand"], found["failure"]) == ("placement group on one node", "workers: NodeTerminated (ip: 10.8.3.21)")


def test_worst_application_of_serve_counts_and_a_deployments_status_does_not() -> None:
    text = "applications:\n  a:\n    status: RUNNING\n    deployments:\n      d:\n        status: HEALTHY\n  b:\n    status: DEPLOYING\n    deployments:\n      d:\n        status: UNHEALTHY\n        replica_states:\n          STARTING: 2\n"
    assert facts(text) == {"serve": "DEPLOYING", "serve_starting": 2}


def test_something_else_is_a_gap() -> None:
    assert [gap.reason for gap in read(b"hello\n", "ray_status.txt").gaps] == ["no ray status in it"]
