"""How often a process has ended, by the pods themselves."""

from typing import Any

from bot.remediation.lives import lives
from tests.remediation.plans import planned
from tests.remediation.shelf import deployment_shelf


def test_restarts_of_the_servers_container_are_counted_and_its_end_is_told() -> None:
    here = deployment_shelf(gpus=2, ready=True)

    def killed(body: dict[str, Any]) -> None:
        status = body["status"]["containerStatuses"][0]
        status.update(restartCount=2, lastState={"terminated": {"reason": "OOMKilled", "exitCode": 137}})
        body["status"]["containerStatuses"].append({"name": "sidecar", "restartCount": 9})

    here.edit("Pod", "chat-r1-x", killed)
    (life,) = lives(planned(here), ["chat-r1-x"], here)
    assert (life.pod, life.uid, life.restarts, life.ended, life.failed) == ("chat-r1-x", "chat-r1-x-uid", 2, "OOMKilled, exit code 137", False)


def test_a_pod_that_was_evicted_has_failed() -> None:
    here = deployment_shelf(gpus=2, ready=True)
    here.edit("Pod", "chat-r1-x", lambda body: body["status"].update(phase="Failed", reason="Evicted", message="The node was low on resource: memory."))
    (life,) = lives(planned(here), ["chat-r1-x"], here)
    assert (life.failed, life.ended) == (True, "Evicted: The node was low on resource: memory.")


def test_a_pod_that_is_gone_is_left_out() -> None:
    here = deployment_shelf(gpus=2, ready=True)
    assert lives(planned(here), ["chat-r1-gone"], here) == ()
