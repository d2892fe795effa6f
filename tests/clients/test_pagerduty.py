"""PagerDuty's REST API against the sandbox's: labels in the three shapes that Alertmanager makes, and failures as ours."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from starlette.applications import Starlette
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from bot.clients.pagerduty import PagerDuty, labels_of
from bot.errors import Forbidden, NotFound, Permanent, Temporary, Unreachable
from bot.evidence.alert import completed, target_of
from bot.model import Actor, Alert, Request, TargetQuery
from bot.sandbox.loopback import Served
from bot.sandbox.pagerduty import FakePagerDuty
from tests.handlers.desk import NOW

LABELS = {"alertname": "KubePodCrashLooping", "namespace": "llm", "pod": "chat-7d9f-x2x", "container": "server"}
FIRING = [{"status": "firing", "labels": LABELS, "annotations": {"summary": "x"}}, {"status": "firing", "labels": {"pod": "second"}}]
TEXT = "Labels:\n - alertname = KubePodCrashLooping\n - namespace = llm\n - pod = chat-7d9f-x2x\n - container = server\nAnnotations:\n - pod = wrong\nSource: http://x\nLabels:\n - pod = second\n"


@pytest.fixture
def pagerduty() -> Iterator[FakePagerDuty]:
    fake = FakePagerDuty()
    fake.api_url = fake.start()  # type: ignore[attr-defined]
    yield fake
    fake.stop()


def reader(fake: FakePagerDuty, token: str | None = None) -> PagerDuty:
    return PagerDuty(fake.token if token is None else token, fake.api_url, sleep=lambda _: None)  # type: ignore[attr-defined]


def alert(incident: str) -> Alert:
    return Alert(f"pagerduty:{incident}", "pagerduty", "chat is down", incident=incident)


@pytest.mark.parametrize("firing", [FIRING, json.dumps(FIRING), TEXT, FIRING[0]])
def test_each_shape_of_alertmanagers_details_gives_the_labels_of_the_first_alert(firing: Any) -> None:
    assert labels_of({"firing": firing, "num_firing": "2", "resolved": ""}) == {**LABELS, "num_firing": "2"}


def test_keys_that_the_user_put_there_win() -> None:
    assert labels_of({"firing": FIRING, "pod": "mine"})["pod"] == "mine"


@pytest.mark.parametrize(
    "details", [None, 7, [], "", "plain text", {"firing": 7}, {"firing": "{broken"}, {"firing": [1, {"labels": 3}]}, {"firing": "[" * 50_000}]
)
def test_details_of_no_known_shape_give_no_labels(details: Any) -> None:
    assert labels_of(details) == {}


def test_a_huge_value_is_no_label() -> None:
    assert "note" not in labels_of({"note": "x" * 501})


def test_the_incidents_alerts_name_the_target(pagerduty: FakePagerDuty) -> None:
    incident = pagerduty.open_incident("chat is down", {"firing": FIRING})
    found = reader(pagerduty).fetch(alert(incident.id))
    query = target_of(found)
    assert (query.kind, query.namespace, query.name, query.container) == ("pod", "llm", "chat-7d9f-x2x", "server")


def test_a_request_is_completed_with_labels_and_target(pagerduty: FakePagerDuty) -> None:
    incident = pagerduty.open_incident("chat is down", {"firing": FIRING})
    request = Request("k", Actor("pagerduty", "pagerduty"), TargetQuery("chat is down", "unknown"), NOW, alert=alert(incident.id))
    done = completed(reader(pagerduty), request)
    assert done.query.text == "llm/chat-7d9f-x2x"
    assert done.alert is not None
    assert done.alert.labels["alertname"] == "KubePodCrashLooping"


def test_an_alert_that_names_nothing_says_what_was_looked_for(pagerduty: FakePagerDuty) -> None:
    incident = pagerduty.open_incident("disk full", {"host": "db-1"})
    query = target_of(reader(pagerduty).fetch(alert(incident.id)))
    assert query.kind == "unknown"
    assert query.text == "labels pod, namespace, container, deployment, statefulset, node, cluster (also as exported_*); the alert has: host"


def test_a_wrong_token_is_forbidden(pagerduty: FakePagerDuty) -> None:
    incident = pagerduty.open_incident("x", {})
    with pytest.raises(Forbidden, match="PagerDuty refuses the API token"):
        reader(pagerduty, "wrong").fetch(alert(incident.id))


def test_an_unknown_incident_is_not_found(pagerduty: FakePagerDuty) -> None:
    with pytest.raises(NotFound, match="PagerDuty has no /incidents/NOPE/alerts"):
        reader(pagerduty).fetch(alert("NOPE"))


@pytest.mark.parametrize("incident", ["", "../users", "a/b", "x" * 41, "a?b"])
def test_an_id_that_could_change_the_path_is_never_sent(pagerduty: FakePagerDuty, incident: str) -> None:
    with pytest.raises(Permanent, match="is no id of a PagerDuty incident"):
        reader(pagerduty).fetch(alert(incident))


def test_nobody_there_is_unreachable() -> None:
    with pytest.raises(Unreachable, match="PagerDuty cannot be reached: ConnectError"):
        PagerDuty("t", "http://127.0.0.1:9", sleep=lambda _: None).fetch(alert("Q1"))


class Odd:
    """An API that answers what it is told to, in order; the last answer for ever."""

    def __init__(self, *answers: Response) -> None:
        self.answers = list(answers)
        self.asked = 0
        self.served = Served(Starlette(routes=[Route("/incidents/{id}/alerts", self.answer)]))

    async def answer(self, request: object) -> Response:
        self.asked += 1
        return self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]

    def __enter__(self) -> PagerDuty:
        return PagerDuty("t", self.served.start(), sleep=lambda _: None)

    def __exit__(self, *_: object) -> None:
        self.served.stop()


@pytest.mark.parametrize(
    ("answer", "kind"),
    [(Response("x", 500), Temporary), (Response("x", 429), Temporary), (Response("<html>", 200), Temporary), (Response("x", 400), Permanent)],
)
def test_failures_are_temporary_or_permanent(answer: Response, kind: type[Exception]) -> None:
    with Odd(answer) as client, pytest.raises(kind):
        client.fetch(alert("Q1"))


def test_alerts_that_show_up_late_are_waited_for() -> None:
    late = {"alerts": [{"body": {"details": {"pod": "chat"}}}]}
    odd = Odd(JSONResponse({"alerts": []}), JSONResponse(late))
    with odd as client:
        assert client.fetch(alert("Q1")).labels == {"pod": "chat"}
    assert odd.asked == 2


def test_an_answer_without_end_is_cut_off() -> None:
    with Odd(Response(b"x" * (5 << 20))) as client, pytest.raises(Permanent, match="larger than 4 MiB"):
        client.fetch(alert("Q1"))
