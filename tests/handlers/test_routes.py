"""The web layer: sizes, readiness, and that nothing from inside reaches the outside."""

import socket
from collections.abc import Callable, Iterator, Mapping

import httpx
import pytest

from bot.sandbox.loopback import Served
from handlers.answer import Answer, said
from handlers.routes import MOST_BYTES, asgi

Serve = Callable[..., str]


@pytest.fixture
def serve() -> Iterator[Serve]:
    running: list[Served] = []

    def start(**parts: object) -> str:
        running.append(Served(asgi(**parts)))  # type: ignore[arg-type]
        return running[-1].start()

    yield start
    for each in running:
        each.stop()


def echo(headers: Mapping[str, str], body: bytes) -> Answer:
    return said(200, size=str(len(body)), agent=headers["user-agent"])


def broken(headers: Mapping[str, str], body: bytes) -> Answer:
    raise RuntimeError("secret-token-in-a-message")


def test_a_body_up_to_the_limit_is_taken_and_one_byte_more_is_not(serve: Serve) -> None:
    url = serve(pagerduty=echo)
    assert httpx.post(f"{url}/webhooks/pagerduty", content=b"x" * MOST_BYTES).json()["size"] == str(MOST_BYTES)
    answer = httpx.post(f"{url}/webhooks/pagerduty", content=b"x" * (MOST_BYTES + 1))
    assert (answer.status_code, answer.json()) == (413, {"error": "the body is larger than 1048576 bytes"})


def test_a_body_without_a_length_is_cut_off_at_the_limit(serve: Serve) -> None:
    url = serve(pagerduty=echo)
    pieces = (b"x" * 65536 for _ in range(80))
    assert httpx.post(f"{url}/webhooks/pagerduty", content=pieces).status_code == 413


def test_a_length_that_is_no_number_is_refused(serve: Serve) -> None:
    url = httpx.URL(serve(pagerduty=echo))
    with socket.create_connection((url.host, url.port or 0), timeout=5) as raw:
        raw.sendall(b"POST /webhooks/pagerduty HTTP/1.1\r\nHost: x\r\nContent-Length: many\r\n\r\n")
        assert raw.recv(100).split()[1] in (b"400", b"413")


def test_a_failure_inside_is_one_line_outside(serve: Serve, caplog: pytest.LogCaptureFixture) -> None:
    url = serve(slack=broken)
    answer = httpx.post(f"{url}/slack/events", content=b"{}")
    assert (answer.status_code, answer.json()) == (500, {"error": "internal error; the log has it"})
    assert "secret-token-in-a-message" in caplog.text


def test_what_is_not_configured_does_not_exist(serve: Serve) -> None:
    url = serve()
    assert httpx.post(f"{url}/slack/events", content=b"{}").status_code == 404
    assert httpx.post(f"{url}/webhooks/pagerduty", content=b"{}").status_code == 404


def test_reading_a_webhook_address_is_not_allowed(serve: Serve) -> None:
    assert httpx.get(f"{serve(pagerduty=echo)}/webhooks/pagerduty").status_code == 405


def test_ready_says_what_is_missing(serve: Serve) -> None:
    missing = ["Slack's socket is not connected"]
    url = serve(ready=lambda: missing)
    answer = httpx.get(f"{url}/readyz")
    assert (answer.status_code, answer.json()) == (503, {"status": "not ready", "missing": "Slack's socket is not connected"})
    missing.clear()
    assert httpx.get(f"{url}/readyz").json() == {"status": "ready"}
    assert httpx.get(f"{url}/healthz").json() == {"status": "ok"}
