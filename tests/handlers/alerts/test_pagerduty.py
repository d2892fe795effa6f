"""PagerDuty's webhook: the signature first, one case for one incident, and never 4xx for what we merely do not care for."""

import hashlib
import hmac
import json
from typing import Any

import pytest

from bot.errors import Refused, StoreError
from handlers.alerts.pagerduty import PagerDutyWebhook, signed
from handlers.answer import Answer
from tests.handlers.desk import FixedClock, RecordingDesk

SECRET = "the-secret"
CHANNELS = {"PLLM": "C01ONCALL", "Embeddings": "C02EMBED", "*": "C09REST"}


def event(kind: str = "incident.triggered", **data: Any) -> bytes:
    service = {"id": "PLLM", "summary": "LLM inference"}
    whole = {"id": "Q1ABC", "title": "chat is down", "html_url": "https://acme.pagerduty.com/incidents/Q1ABC", "created_at": "2026-11-30T10:00:00Z", "service": service, **data}
    return json.dumps({"event": {"id": "01E", "event_type": kind, "data": whole}}).encode()


def signature(body: bytes, secret: str = SECRET) -> str:
    return "v1=" + hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()


def deliver(desk: RecordingDesk, body: bytes, header: str | None = None, channels: dict[str, str] | None = None, secrets: tuple[str, ...] = (SECRET,)) -> Answer:
    webhook = PagerDutyWebhook(desk, secrets, CHANNELS if channels is None else channels, FixedClock())
    return webhook.answer({"x-pagerduty-signature": signature(body) if header is None else header, "x-webhook-id": "w-1"}, body)


def text(answer: Answer) -> str:
    return " ".join(str(value) for value in json.loads(answer.body).values())


@pytest.fixture
def desk() -> RecordingDesk:
    return RecordingDesk()


def test_an_incident_opens_a_case_in_the_channel_of_its_service(desk: RecordingDesk) -> None:
    assert deliver(desk, event()).status == 202
    request = desk.requests[0]
    assert request.conversation is not None
    assert request.conversation.channel == "C01ONCALL"
    assert request.alert is not None
    assert (request.alert.incident, request.alert.title, request.actor.origin, request.query.kind) == ("Q1ABC", "chat is down", "pagerduty", "unknown")
    assert request.alert.started_at is not None


@pytest.mark.parametrize(("service", "channel"), [({"id": "P9", "summary": "Embeddings"}, "C02EMBED"), ({"id": "P9", "summary": "Other"}, "C09REST"), (None, "C09REST")])
def test_the_channel_goes_by_id_then_name_then_the_rest(desk: RecordingDesk, service: Any, channel: str) -> None:
    deliver(desk, event(service=service))
    assert desk.requests[0].conversation is not None
    assert desk.requests[0].conversation.channel == channel


def test_the_same_delivery_twice_is_one_case(desk: RecordingDesk) -> None:
    answers = [deliver(desk, event()) for _ in range(2)]
    assert [answer.status for answer in answers] == [202, 202]
    assert len(desk.requests) == 1


@pytest.mark.parametrize("header", ["", "v1=", "v1=00", "v0=" + "a" * 64, "v1=" + "a" * 64, "v1=é", ","])
def test_a_forged_signature_is_refused_before_anything_is_parsed(desk: RecordingDesk, header: str) -> None:
    answer = deliver(desk, b"not even JSON", header)
    assert answer.status == 401
    assert text(answer) == "invalid signature: no v1= of X-PagerDuty-Signature fits the body and a configured secret"
    assert desk.requests == []


def test_a_body_that_was_changed_is_refused(desk: RecordingDesk) -> None:
    assert deliver(desk, event(), signature(event(title="other"))).status == 401


def test_while_a_secret_is_rotated_old_and_new_both_count(desk: RecordingDesk) -> None:
    body = event()
    both = f"{signature(body, 'new')}, {signature(body, 'old')}"
    assert deliver(desk, body, both, secrets=("old",)).status == 202
    assert deliver(desk, body, both, secrets=("new",)).status == 202
    assert deliver(desk, body, signature(body, "old"), secrets=("new", "old")).status == 202
    assert deliver(desk, body, both, secrets=("third",)).status == 401


def test_without_a_secret_nothing_is_accepted() -> None:
    assert not signed(b"x", signature(b"x", ""), ())
    assert not signed(b"x", signature(b"x", ""), ("",))


@pytest.mark.parametrize(
    "body",
    [b"[]", b"null", b"{}", b'{"event": 1}', b"not JSON", b'{"event": {"event_type": "incident.triggered"}}', b'{"event": {"event_type": "incident.triggered", "data": {"id": 7}}}', b"[" * 100_000],
)
def test_a_payload_that_is_not_liked_gets_202_and_opens_nothing(desk: RecordingDesk, body: bytes) -> None:
    answer = deliver(desk, body)
    assert answer.status == 202
    assert text(answer).startswith("ignored")
    assert desk.requests == []


@pytest.mark.parametrize("kind", ["incident.acknowledged", "incident.resolved", "incident.annotated", "pagey.ping", "service.updated"])
def test_only_a_triggered_incident_opens_a_case(desk: RecordingDesk, kind: str) -> None:
    answer = deliver(desk, event(kind))
    assert (answer.status, text(answer)) == (202, "ignored: only incident.triggered opens a case")
    assert desk.requests == []


def test_a_service_without_a_channel_is_not_looked_at(desk: RecordingDesk) -> None:
    answer = deliver(desk, event(), channels={})
    assert (answer.status, text(answer)) == (202, "ignored: no channel is set for this service")


def test_what_could_not_be_kept_is_asked_for_again(desk: RecordingDesk) -> None:
    desk.refuse_with = StoreError("the database is locked")
    assert deliver(desk, event()).status == 503


def test_a_refusal_does_not_turn_the_subscription_off(desk: RecordingDesk) -> None:
    desk.refuse_with = Refused("channel_not_allowed", {"channel": "C01ONCALL"})
    answer = deliver(desk, event())
    assert (answer.status, text(answer)) == (202, "refused: channel_not_allowed")


def test_a_link_that_is_none_is_dropped(desk: RecordingDesk) -> None:
    deliver(desk, event(html_url="javascript:alert(1)"))
    assert desk.requests[0].alert is not None
    assert desk.requests[0].alert.url == ""
