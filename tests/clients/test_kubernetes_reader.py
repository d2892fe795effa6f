"""The reading client against an API server that misbehaves. What a good one does is in tests/contracts."""

import itertools
import json
import time
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from websockets.sync.server import ServerConnection, serve

from bot.clients.kubernetes_reader import LEFT_OUT, KubernetesReader
from bot.clients.kubernetes_rest import Rest
from bot.errors import Conflict, Forbidden, NotFound, Permanent, Rejected, Temporary, TimedOut, Unreachable, WorldError
from tests.clients.odd_api import Handler, OddServer, client_for, odd_api

Query = dict[str, str]


def allow_all(argv: Sequence[str]) -> bool:
    return True


def allow_none(argv: Sequence[str]) -> bool:
    return False


@pytest.fixture
def reading(tmp_path: Path) -> Iterator[Callable[..., tuple[KubernetesReader, OddServer]]]:
    """`reading(answer)` gives a reader of a server that answers so."""
    stack: list[object] = []

    def make(answer: Callable[[Handler, str, Query], None], log_s: float = 8) -> tuple[KubernetesReader, OddServer]:
        context = odd_api(answer)
        server = context.__enter__()
        stack.append(context)
        return KubernetesReader("odd", client_for(f"http://127.0.0.1:{server.server_port}", tmp_path), allow_none, log_s=log_s), server

    yield make
    for context in stack:
        context.__exit__(None, None, None)  # type: ignore[attr-defined]


def refusal(status: int, message: str = "the server's words") -> Callable[[Handler, str, Query], None]:
    return lambda handler, path, query: handler.give({"kind": "Status", "message": message}, status)


@pytest.mark.parametrize(
    ("status", "error"),
    [
        (401, Forbidden),
        (403, Forbidden),
        (404, NotFound),
        (409, Conflict),
        (422, Rejected),
        (400, Rejected),
        (429, Temporary),
        (500, Temporary),
        (503, Temporary),
        (504, TimedOut),
    ],
)
def test_status_becomes_our_error_with_the_servers_words(
    reading: Callable[..., tuple[KubernetesReader, OddServer]], status: int, error: type[WorldError]
) -> None:
    reader, server = reading(refusal(status))
    with pytest.raises(error, match="odd: ") as wrong:
        reader.get("v1", "Pod", "llm", "chat")
    assert status == 401 or "the server's words" in str(wrong.value)
    assert len(server.asked) == 1, "no second try: the caller has a budget"


def test_words_of_the_server_are_one_short_line(reading: Callable[..., tuple[KubernetesReader, OddServer]]) -> None:
    reader, _ = reading(refusal(403, "a\nb\r\n" + "x" * 5000))
    with pytest.raises(Forbidden) as wrong:
        reader.get("v1", "Pod", "llm", "chat")
    assert "\n" not in str(wrong.value)
    assert len(str(wrong.value)) < 500


@pytest.mark.parametrize("body", [b"", b"<html>", b"[1]", b'{"a": ', b"\xff\xfe", b"[" * 100_000])
def test_answer_that_is_no_json_object_is_told(reading: Callable[..., tuple[KubernetesReader, OddServer]], body: bytes) -> None:
    reader, _ = reading(lambda handler, path, query: handler.give(body))
    with pytest.raises(Permanent, match="is not"):
        reader.get("v1", "Pod", "llm", "chat")


def test_nobody_listening_is_unreachable_in_one_line(tmp_path: Path) -> None:
    reader = KubernetesReader("gone", client_for("http://127.0.0.1:1", tmp_path), allow_none)
    with pytest.raises(Unreachable) as wrong:
        reader.uid()
    assert str(wrong.value) == "gone: cannot connect to the API server: [Errno 111] Connection refused" or "Connection refused" in str(wrong.value)
    assert "\n" not in str(wrong.value)
    assert "urllib3" not in str(wrong.value)


def test_unknown_host_is_unreachable(tmp_path: Path) -> None:
    with pytest.raises(Unreachable):
        KubernetesReader("gone", client_for("http://no-such-host.invalid:6443", tmp_path), allow_none).uid()


def test_server_that_never_answers_is_timed_out(tmp_path: Path) -> None:
    with odd_api(lambda handler, path, query: time.sleep(5)) as server:
        start = time.monotonic()
        with pytest.raises(TimedOut):
            Rest("odd", client_for(f"http://127.0.0.1:{server.server_port}", tmp_path)).json("GET", "/api", deadline_s=0.5)
        assert time.monotonic() - start < 2


def test_server_that_drips_is_ended_at_the_deadline(tmp_path: Path) -> None:
    def drip(handler: Handler, path: str, query: Query) -> None:
        handler.pour(piece for piece in itertools.chain(iter(lambda: time.sleep(0.1) or b" ", None)))

    with odd_api(drip) as server:
        start = time.monotonic()
        with pytest.raises(TimedOut, match="did not end within"):
            Rest("odd", client_for(f"http://127.0.0.1:{server.server_port}", tmp_path)).json("GET", "/api", deadline_s=1)
        assert time.monotonic() - start < 3


def test_broken_connection_is_unreachable(reading: Callable[..., tuple[KubernetesReader, OddServer]]) -> None:
    def broken(handler: Handler, path: str, query: Query) -> None:
        handler.send_response(200)
        handler.send_header("Content-Length", "1000")
        handler.end_headers()
        handler.wfile.write(b'{"a":')
        handler.close_connection = True

    with pytest.raises(Unreachable, match="broke"):
        reading(broken)[0].get("v1", "Pod", "llm", "chat")


def test_redirect_is_not_followed_so_that_the_token_goes_nowhere_else(reading: Callable[..., tuple[KubernetesReader, OddServer]]) -> None:
    def away(handler: Handler, path: str, query: Query) -> None:
        handler.send_response(302)
        handler.send_header("Location", "/elsewhere")
        handler.send_header("Content-Length", "0")
        handler.end_headers()

    reader, server = reading(away)
    with pytest.raises(WorldError):
        reader.get("v1", "Pod", "llm", "chat")
    assert server.asked == ["/api/v1/namespaces/llm/pods/chat"]


def test_names_cannot_leave_their_place_in_the_path(reading: Callable[..., tuple[KubernetesReader, OddServer]]) -> None:
    reader, server = reading(lambda handler, path, query: handler.give({}))
    reader.get("v1", "Pod", "../../x", "a/b?c")
    assert server.asked == ["/api/v1/namespaces/..%2F..%2Fx/pods/a%2Fb%3Fc"]


def test_list_is_read_page_by_page_and_each_item_says_what_it_is(reading: Callable[..., tuple[KubernetesReader, OddServer]]) -> None:
    def pages(handler: Handler, path: str, query: Query) -> None:
        number = int(query.get("continue", "0"))
        handler.give({"items": [{"metadata": {"name": f"p{number}"}}], "metadata": {"continue": str(number + 1) if number < 2 else ""}})

    reader, server = reading(pages)
    items = reader.list("v1", "Pod", "llm", label_selector="app=x", field_selector="a=b")
    assert [(item["metadata"]["name"], item["kind"], item["apiVersion"]) for item in items] == [("p0", "Pod", "v1"), ("p1", "Pod", "v1"), ("p2", "Pod", "v1")]
    assert "labelSelector=app%3Dx" in server.asked[0]


def test_names_are_asked_for_without_what_else_stands_in_the_objects(reading: Callable[..., tuple[KubernetesReader, OddServer]]) -> None:
    asked = []

    def answer(handler: Handler, path: str, query: Query) -> None:
        asked.append(handler.headers["Accept"])
        handler.give({"items": [{"metadata": {"name": "p"}}], "metadata": {}})

    reader, _ = reading(answer)
    assert [item["metadata"]["name"] for item in reader.names("v1", "Pod")] == ["p"]
    assert asked[0].startswith("application/json;as=PartialObjectMetadataList")


def test_list_ends_at_its_limit(reading: Callable[..., tuple[KubernetesReader, OddServer]]) -> None:
    reader, server = reading(lambda handler, path, query: handler.give({"items": [{"metadata": {}}] * int(query["limit"]), "metadata": {"continue": "more"}}))
    assert len(reader.list("v1", "Pod", limit=700)) == 700
    assert len(server.asked) == 2


def test_kind_that_is_not_built_in_is_asked_of_the_server_once(reading: Callable[..., tuple[KubernetesReader, OddServer]]) -> None:
    resources = [
        {"name": "leaderworkersets", "kind": "LeaderWorkerSet", "namespaced": True},
        {"name": "leaderworkersets/status", "kind": "LeaderWorkerSet", "namespaced": True},
    ]

    def answer(handler: Handler, path: str, query: Query) -> None:
        handler.give({"resources": resources} if path.endswith("/v1") else {"metadata": {"name": "big"}})

    reader, server = reading(answer)
    for _ in range(2):
        reader.get("leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet", "llm", "big")
    assert [path.rpartition("/apis/")[2] for path in server.asked] == [
        "leaderworkerset.x-k8s.io/v1",
        *["leaderworkerset.x-k8s.io/v1/namespaces/llm/leaderworkersets/big"] * 2,
    ]
    with pytest.raises(NotFound, match="no kind Nothing"):
        reader.get("leaderworkerset.x-k8s.io/v1", "Nothing", "llm", "big")


# ---------------------------------------------------------------- logs


def test_short_log_comes_back_byte_by_byte(reading: Callable[..., tuple[KubernetesReader, OddServer]]) -> None:
    data = b"a\n\xff\xfe\r\n\x00no end"
    reader, server = reading(lambda handler, path, query: handler.give(data))
    piece = reader.log("llm", "chat", "server", previous=True)
    assert (piece.data, piece.cut_start, piece.cut_end) == (data, False, False)
    assert server.asked == ["/api/v1/namespaces/llm/pods/chat/log?container=server&previous=true"]


def test_long_log_keeps_whole_lines_of_its_start_and_end_and_says_what_is_missing(reading: Callable[..., tuple[KubernetesReader, OddServer]]) -> None:
    lines = [b"line %07d %s\n" % (number, b"x" * 80) for number in range(100_000)]
    reader, _ = reading(lambda handler, path, query: handler.pour(iter([b"".join(lines)])))
    piece = reader.log("llm", "chat", "server", limit_bytes=1 << 20)
    kept = piece.data.splitlines(keepends=True)
    assert (piece.cut_start, piece.cut_end) == (True, False)
    assert len(piece.data) <= (1 << 20) + 100
    assert kept[0] == lines[0]
    assert kept[-1] == lines[-1]
    marks = [line for line in kept if line.startswith(b"[oombot left out")]
    assert marks == [LEFT_OUT % (len(b"".join(lines)) - len(piece.data) + len(marks[0]))]
    assert all(line in {*marks} or line.startswith(b"line ") for line in kept)
    assert kept.index(marks[0]) < len(kept) / 2, "more of the end is kept than of the start"


def test_log_that_never_ends_is_cut_and_its_last_lines_are_asked_for(reading: Callable[..., tuple[KubernetesReader, OddServer]]) -> None:
    def answer(handler: Handler, path: str, query: Query) -> None:
        if "tailLines" in query:
            handler.give(b"the very last line\n")
        else:
            handler.pour(b"start\n" * 1000 + (time.sleep(0.05) or b"") for _ in itertools.count())

    reader, _ = reading(answer, log_s=0.6)
    start = time.monotonic()
    piece = reader.log("llm", "chat", "server", limit_bytes=1 << 20)
    assert time.monotonic() - start < 3
    assert piece.data.startswith(b"start\n")
    assert piece.data.endswith(b"left out a part of this log here]\nthe very last line\n")
    assert piece.cut_start


def test_no_previous_container_is_not_found(reading: Callable[..., tuple[KubernetesReader, OddServer]]) -> None:
    reader, _ = reading(refusal(400, 'previous terminated container "server" in pod "chat" not found'))
    with pytest.raises(NotFound, match="previous terminated container"):
        reader.log("llm", "chat", "server", previous=True)


# ---------------------------------------------------------------- exec


@pytest.fixture
def executing(tmp_path: Path) -> Iterator[Callable[..., KubernetesReader]]:
    """`executing(play)` gives a reader whose exec reaches `play(connection)`."""
    servers = []

    def make(play: Callable[[ServerConnection], None], allowed: Callable[[Sequence[str]], bool] = allow_all) -> KubernetesReader:
        server = serve(play, "127.0.0.1", 0, subprotocols=["v5.channel.k8s.io", "v4.channel.k8s.io"])  # type: ignore[list-item]
        import threading

        threading.Thread(target=server.serve_forever, daemon=True).start()
        servers.append(server)
        return KubernetesReader("odd", client_for(f"http://127.0.0.1:{server.socket.getsockname()[1]}", tmp_path), allowed)

    yield make
    for server in servers:
        server.shutdown()


def status(code: int) -> bytes:
    body = (
        {"status": "Success"}
        if not code
        else {"status": "Failure", "reason": "NonZeroExitCode", "details": {"causes": [{"reason": "ExitCode", "message": str(code)}]}}
    )
    return b"\x03" + json.dumps(body).encode()


def test_exec_gives_both_streams_and_the_exit_status(executing: Callable[..., KubernetesReader]) -> None:
    def play(connection: ServerConnection) -> None:
        assert connection.request is not None
        assert "command=df&command=-k" in connection.request.path
        for frame in (b"\x01out\xff", b"\x02err", status(3)):
            connection.send(frame)

    output = executing(play).run("llm", "chat", "server", ["df", "-k"])
    assert (output.stdout, output.stderr, output.status, output.cut) == (b"out\xff", b"err", 3, False)


def test_exec_of_what_nobody_allowed_is_refused_before_anything_is_sent(executing: Callable[..., KubernetesReader]) -> None:
    reached = []
    reader = executing(reached.append, allow_none)
    with pytest.raises(Forbidden, match="not an allowed command: sh -c id"):
        reader.run("llm", "chat", "server", ["sh", "-c", "id"])
    assert reached == []


def test_exec_that_never_stops_printing_is_cut(executing: Callable[..., KubernetesReader]) -> None:
    def play(connection: ServerConnection) -> None:
        while True:
            connection.send(b"\x01" + b"y" * 65536)

    start = time.monotonic()
    output = executing(play).run("llm", "chat", "server", ["df"], limit_bytes=1 << 20)
    assert (len(output.stdout), output.cut) == (1 << 20, True)
    assert time.monotonic() - start < 5


def test_exec_that_says_nothing_is_timed_out(executing: Callable[..., KubernetesReader]) -> None:
    start = time.monotonic()
    with pytest.raises(TimedOut):
        executing(lambda connection: time.sleep(4)).run("llm", "chat", "server", ["df"], timeout_s=0.5)
    assert time.monotonic() - start < 3


def test_program_that_the_container_lacks_is_not_found(executing: Callable[..., KubernetesReader]) -> None:
    def play(connection: ServerConnection) -> None:
        connection.send(b"\x03" + json.dumps({"status": "Failure", "message": 'exec: "ray": executable file not found in $PATH'}).encode())

    with pytest.raises(NotFound, match="executable file not found"):
        executing(play).run("llm", "chat", "server", ["ray", "status"])


def test_exec_without_the_right_is_forbidden(reading: Callable[..., tuple[KubernetesReader, OddServer]], tmp_path: Path) -> None:
    with odd_api(refusal(403, "pods/exec is forbidden")) as server:
        reader = KubernetesReader("odd", client_for(f"http://127.0.0.1:{server.server_port}", tmp_path), allow_all)
        with pytest.raises(Forbidden, match="pods/exec is forbidden"):
            reader.run("llm", "chat", "server", ["df"])


# ---------------------------------------------------------------- the server's clock


def dated(date: str | None) -> Callable[[Handler, str, Query], None]:
    """The server's own header stands in the place of the one that the library would send."""

    def answer(handler: Handler, path: str, query: Query) -> None:
        handler.date_time_string = lambda timestamp=None: date or ""  # type: ignore[method-assign]
        handler.give({"metadata": {"uid": "u"}})

    return answer


def test_the_clusters_clock_goes_on_from_its_last_answer(reading: Callable[..., tuple[KubernetesReader, OddServer]]) -> None:
    reader, _ = reading(dated("Mon, 30 Nov 2037 10:00:00 GMT"))
    assert abs(reader.now() - datetime.now(UTC)) < timedelta(minutes=1)  # nobody has told yet
    reader.uid()
    told = datetime(2037, 11, 30, 10, tzinfo=UTC)
    first, second = reader.now(), reader.now()
    assert told <= first <= second < told + timedelta(minutes=1)


@pytest.mark.parametrize("date", ["", "yesterday", "Mon, 99 Nov 2037 10:00:00 GMT"])
def test_a_server_that_tells_no_time_leaves_us_with_our_own(reading: Callable[..., tuple[KubernetesReader, OddServer]], date: str) -> None:
    reader, _ = reading(dated(date))
    assert reader.uid() == "u"
    assert abs(reader.now() - datetime.now(UTC)) < timedelta(minutes=1)
