"""Prometheus' HTTP API: one instant query, bounded, to one address with one token; failures as ours."""

import math
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from starlette.responses import RedirectResponse, Response, StreamingResponse

from bot.clients.prometheus import Prometheus
from bot.errors import BadInput, Forbidden, Permanent, Temporary, TimedOut, Unreachable, WorldError
from bot.ports import Sample
from bot.sandbox.loopback import Served, certificate
from bot.settings import PrometheusSettings
from tests.clients.fake_prometheus import FakePrometheus, failure, vector

AT = datetime(2026, 11, 30, 10, 0, tzinfo=UTC)


@pytest.fixture
def server() -> Iterator[FakePrometheus]:
    fake = FakePrometheus()
    fake.start()
    yield fake
    fake.stop()


def client(fake: FakePrometheus, token_file: Path | None = None, timeout_s: float = 5, prefix: str = "") -> Prometheus:
    return Prometheus("prod", PrometheusSettings(url=fake.url + prefix, token_file=token_file, timeout_s=timeout_s))


def test_a_vector_is_read_row_by_row(server: FakePrometheus) -> None:
    server.answer = lambda _: vector(({"pod": "chat-1"}, "0.41"), ({}, "NaN"), ({}, "+Inf"), infos=["PromQL info: metric might not be a counter"])
    rows = client(server).query('sum(up{pod="a&b"})', AT)
    assert rows[0] == Sample({"pod": "chat-1"}, 0.41)
    assert math.isnan(rows[1].value)
    assert rows[2].value == math.inf
    assert (server.queries, server.times) == (['sum(up{pod="a&b"})'], ["1796032800.000"])


def test_a_server_below_a_path_is_reached(server: FakePrometheus) -> None:
    assert client(server, prefix="/prometheus/").query("up", AT) == ()


def test_the_token_is_read_anew_for_each_query(server: FakePrometheus, tmp_path: Path) -> None:
    file = tmp_path / "token"
    asks = client(server, file)
    for token in ("first", "second"):
        file.write_text(f"{token}\n")
        asks.query("up", AT)
    assert server.tokens == ["Bearer first", "Bearer second"]
    file.unlink()
    with pytest.raises(Permanent, match="the token of Prometheus of prod cannot be read"):
        asks.query("up", AT)


@pytest.mark.parametrize(
    ("answer", "kind", "words"),
    [
        (failure(400, "bad_data", 'invalid parameter "query": 1:5: parse error'), Permanent, "parse error"),
        (failure(422, "execution", "query processing would load too many samples"), Permanent, "too many samples"),
        (failure(503, "timeout", "query timed out in expression evaluation"), Temporary, "timed out in expression"),
        (failure(401, "x", "x"), Forbidden, "refuses the token"),
        (Response("<html>502 Bad Gateway</html>", status_code=502), Temporary, "HTTP 502"),
        (Response("[" * 100_000), Permanent, "HTTP 200"),
        (Response('{"status":"success","data":{"resultType":"matrix","result":[]}}'), Permanent, "no vector"),
        (vector(({}, "1"), warnings=["a store did not answer"]), Permanent, "partial answer"),
        (RedirectResponse("http://elsewhere.example/api/v1/query"), Permanent, "HTTP 307"),
    ],
)
def test_failures_are_ours_with_the_servers_words(server: FakePrometheus, answer: Response, kind: type[WorldError], words: str) -> None:
    server.answer = lambda _: answer
    with pytest.raises(kind, match=words):
        client(server).query("up", AT)
    assert len(server.queries) == 1  # asked once, and nobody else


def test_a_row_without_a_number_is_none(server: FakePrometheus) -> None:
    body = '{"status":"success","data":{"resultType":"vector","result":[{"metric":{},"histogram":[1,{}]},7,{"metric":3,"value":[1]}]}}'
    server.answer = lambda _: Response(body)
    assert [math.isnan(row.value) for row in client(server).query("up", AT)] == [True, True, True]


def test_an_endless_answer_is_cut(server: FakePrometheus) -> None:
    server.answer = lambda _: Response("x" * (2 << 20))
    with pytest.raises(Permanent, match="larger than 1 MiB"):
        client(server).query("up", AT)


def test_a_server_that_drips_does_not_hold_us(server: FakePrometheus) -> None:
    def drip() -> Iterator[bytes]:
        for _ in range(100):
            time.sleep(0.05)
            yield b" "

    server.answer = lambda _: StreamingResponse(drip())
    with pytest.raises(TimedOut, match="did not end within 0 s"):
        client(server, timeout_s=0.2).query("up", AT)


def test_nobody_there_is_worth_another_try() -> None:
    fake = FakePrometheus()
    url = fake.start()
    fake.stop()
    with pytest.raises(Unreachable):
        Prometheus("prod", PrometheusSettings(url=url)).query("up", AT)


def test_a_certificate_counts_only_with_its_ca(tmp_path: Path) -> None:
    made = certificate(tmp_path)
    served = Served(FakePrometheus().application, tls=made)
    url = served.start()
    try:
        with pytest.raises(Unreachable):
            Prometheus("prod", PrometheusSettings(url=url)).query("up", AT)
        assert Prometheus("prod", PrometheusSettings(url=url, ca=made.cert)).query("up", AT) == ()
    finally:
        served.stop()
    with pytest.raises(BadInput, match="the CA file"):
        Prometheus("prod", PrometheusSettings(url=url, ca=tmp_path / "none.pem"))
