"""Every message of the playbooks is understood, with the same fields, in whatever its line is wrapped: each of its own examples in each wrap.

The wraps are those of servers, runtimes and collectors as they print them; what a wrap tells of process, rank, time and pod is kept.
"""

import json
from collections.abc import Callable, Iterator
from functools import cache
from io import BytesIO
from pathlib import Path

import pytest
import yaml

from bot.logs.events import Event, events
from bot.logs.prefixes import strip
from bot.logs.scan import Scanner
from bot.playbooks import folder, load
from tests.diagnosis.bundles import diagnose

CLOCK = (31 + 28 + 31 + 30 + 31 + 30 + 31 + 31 + 30 + 31 + 30) * 86400 + 10 * 3600  # 30 November, ten o'clock, since the start of the year
ISO = "2026-11-30T10:00:00.123456789Z"
BLOCK = 4096  # bytes: the buffers of a real scan are larger than all examples together


def before(text: str) -> Callable[[str], str]:
    return lambda line: text + line


def record(key: str, **others: object) -> Callable[[str], str]:
    """A JSON object with the line under `key`, behind what else it has."""
    return lambda line: json.dumps({**others, key: line}, ensure_ascii=False)


WRAPS: dict[str, tuple[Callable[[str], str], dict[str, object]]] = {
    "vllm": (before("(EngineCore_0 pid=12) ERROR 11-30 10:00:00 [core.py:1] "), {"process": "EngineCore_0", "pid": 12, "seconds": CLOCK}),
    "vllm's rank": (before("(Worker_TP3 pid=12) ERROR 11-30 10:00:00 [v1/worker/gpu_worker.py:451] "), {"process": "Worker_TP3", "rank": 3}),
    "vllm's bare rank": (before("(Worker_DP1_TP0 pid=12) "), {"process": "Worker_DP1_TP0", "rank": 0}),
    "vllm of old": (before("ERROR 11-30 10:00:00 core.py:1] "), {"level": "ERROR", "seconds": CLOCK}),
    "vllm's workers of old": (before("(VllmWorkerProcess pid=771) ERROR 11-30 10:00:00 multiproc_worker_utils.py:242] "), {"pid": 771}),
    "vllm in colours": (
        lambda line: f"\x1b[1;36m(EngineCore_DP0 pid=12)\x1b[0;0m \x1b[31mERROR 11-30 10:00:00 [core.py:1]\x1b[0m {line}",
        {"process": "EngineCore_DP0"},
    ),
    "a whole line in colour": (lambda line: f"\x1b[31m{line}\x1b[0m", {}),
    "ray": (before("(RayWorkerWrapper pid=77, ip=192.0.2.4) "), {"process": "RayWorkerWrapper", "pid": 77}),
    "ray in colours": (before("\x1b[36m(RayWorkerWrapper pid=77, ip=192.0.2.4)\x1b[0m "), {"pid": 77}),
    "ray around vllm": (
        before("(RayWorkerWrapper pid=77, ip=192.0.2.4) (Worker_TP1 pid=88) ERROR 11-30 10:00:00 [core.py:1] "),
        {"process": "Worker_TP1", "rank": 1},
    ),
    "ray that repeats": (lambda line: f"(RayWorkerWrapper pid=77) {line} [repeated 3x across cluster]", {"pid": 77}),
    "ray that repeats and explains": (
        lambda line: (
            f"(RayWorkerWrapper pid=77) {line}\x1b[32m [repeated 3x across cluster] (Ray deduplicates logs by default. "
            "Set RAY_DEDUP_LOGS=0 to disable log deduplication, or see https://docs.ray.io/.)\x1b[0m"
        ),
        {"pid": 77},
    ),
    "raylet": (before("(raylet, ip=192.0.2.4) "), {"process": "raylet"}),
    "ray serve": (
        before("(ServeReplica:default:LLM pid=77, ip=192.0.2.4) ERROR 2026-11-30 10:00:00,123 default_LLM ab12cd34 -- "),
        {"process": "ServeReplica:default:LLM", "seconds": CLOCK + 0.123},
    ),
    "docker": (record("log", stream="stderr", time=ISO), {"seconds": CLOCK}),
    "docker, line first": (lambda line: json.dumps({"log": line + "\n", "stream": "stderr", "time": ISO}, ensure_ascii=False), {"seconds": CLOCK}),
    "cri": (before(f"{ISO} stderr F "), {"seconds": CLOCK + 0.123456789}),
    "cri elsewhere": (before("2026-11-30T10:00:00.123456789+08:00 stdout F "), {"seconds": CLOCK + 0.123456789}),
    "cri, a part": (before(f"{ISO} stderr P "), {"seconds": CLOCK + 0.123456789}),
    "cri around json": (lambda line: f"{ISO} stderr F " + record("message", level="ERROR")(line), {"seconds": CLOCK + 0.123456789}),
    "klog": (before("E1130 10:00:00.000000   12345 server.go:12] "), {"seconds": CLOCK, "level": "E"}),
    "journald": (before("Nov 30 10:00:00 host prog[1]: "), {"seconds": CLOCK}),
    "journald, precise": (before("Nov 30 10:00:00.500000 host prog[1]: "), {"seconds": CLOCK + 0.5}),
    "journald, iso": (before("2026-11-30T10:00:00+0000 host prog[1]: "), {"seconds": CLOCK}),
    "journald, iso precise": (before("2026-11-30T10:00:00.500000+00:00 host kernel: "), {"seconds": CLOCK + 0.5}),
    "journald, unix": (before("1796032800.500000 host prog[1]: "), {"seconds": CLOCK + 0.5}),
    "journald, json": (record("MESSAGE", __REALTIME_TIMESTAMP="1796032800500000", PRIORITY="3"), {"seconds": CLOCK}),
    "dmesg": (before("[ 1234.567890] "), {}),
    "dmesg -T": (before("[Mon Nov 30 10:00:00 2026] "), {"seconds": CLOCK}),
    "kubectl --prefix": (before("[pod/chat-0/server] "), {"service": "chat-0/server"}),
    "kubectl --prefix --timestamps": (before(f"[pod/chat-0/server] {ISO} "), {"service": "chat-0/server", "seconds": CLOCK + 0.123456789}),
    "kubectl --timestamps": (before(f"{ISO} "), {"seconds": CLOCK + 0.123456789}),
    "stern": (before("chat-7c9d8f6b5-x2k4q server "), {"service": "chat-7c9d8f6b5-x2k4q/server"}),
    "stern in colours": (before("\x1b[36mchat-7c9d8f6b5-x2k4q\x1b[0m \x1b[35mserver\x1b[0m "), {"service": "chat-7c9d8f6b5-x2k4q/server"}),
    "stern of all namespaces": (before(f"models chat-7c9d8f6b5-x2k4q server {ISO} "), {"service": "chat-7c9d8f6b5-x2k4q/server"}),
    "stern of a stateful set": (before("chat-0 server (EngineCore pid=3) "), {"service": "chat-0/server", "process": "EngineCore"}),
    "stern, json": (record("message", podName="chat-0", containerName="server"), {"service": "chat-0/server"}),
    "kubetail": (before("[chat-7c9d8f6b5-x2k4q server] "), {"service": "chat-7c9d8f6b5-x2k4q/server"}),
    "fluent bit": (
        record("log", **{"@timestamp": ISO, "kubernetes": {"pod_name": "chat-0", "container_name": "server"}}),
        {"service": "chat-0/server", "seconds": CLOCK},
    ),
    "loki": (record("line", labels={"app": "chat"}, timestamp=ISO), {"seconds": CLOCK}),
    "logcli": (before('2026-11-30T10:00:00Z {app="chat", pod="chat-0"} '), {"seconds": CLOCK}),
    "datadog": (
        lambda line: json.dumps({"id": "A", "content": {"timestamp": ISO, "service": "chat", "message": line, "attributes": {}}}, ensure_ascii=False),
        {"seconds": CLOCK},
    ),
    "google cloud": (lambda line: json.dumps({"insertId": "1", "jsonPayload": {"message": line}, "timestamp": ISO}, ensure_ascii=False), {"seconds": CLOCK}),
    "google cloud's text": (record("textPayload", insertId="1", timestamp=ISO), {"seconds": CLOCK}),
    "elastic": (record("message", **{"@timestamp": ISO, "log.level": "error"}), {"seconds": CLOCK}),
    "cloudwatch": (record("message", timestamp=1796032800000), {"seconds": CLOCK}),
    "zap": (record("msg", level="error", ts=1796032800.5), {"seconds": CLOCK + 0.5}),
    "python's json": (record("message", asctime="2026-11-30 10:00:00", levelname="ERROR", processName="EngineCore_DP0"), {"process": "EngineCore_DP0"}),
    "json in a margin": (lambda line: "  " + record("log")(line), {}),
    "compose": (before("vllm-1  | "), {"service": "vllm-1"}),
    "compose in colour": (before("\x1b[33mvllm-1  | \x1b[0m"), {"service": "vllm-1"}),
    "compose --timestamps": (before(f"vllm-1  | {ISO} "), {"service": "vllm-1", "seconds": CLOCK + 0.123456789}),
    "windows": (lambda line: line + "\r", {}),
    "a mark of byte order": (before("\ufeff"), {}),
    "torch": (before("[rank2]: "), {"rank": 2}),
    "torchrun": (before("[default3]:"), {"rank": 3}),
    "torchrun around torch": (before("[default3]:[rank3]: "), {"rank": 3}),
    "sglang": (before("[2026-11-30 10:00:00 TP0] "), {"seconds": CLOCK, "rank": 0}),
    "pm2": (before("0|vllm     | "), {"service": "vllm"}),
    "srun": (before("3: "), {}),
    "logging": (before("2026-11-30 10:00:00,500 - __main__ - ERROR - vLLM: "), {"seconds": CLOCK + 0.5}),
    "loguru": (before("2026-11-30 10:00:00.500 | ERROR    | server:start:12 - "), {"seconds": CLOCK + 0.5, "level": "ERROR"}),
    "loguru, a short level": (before("2026-11-30 10:00:00.500 | INFO     | server:start:12 - "), {"level": "INFO", "service": ""}),
    "kserve": (before("2026-11-30 10:00:00.500 1 kserve ERROR [vllm_model.py:load():12] "), {"seconds": CLOCK + 0.5}),
}


@cache
def examples() -> tuple[tuple[str, str], ...]:
    """Id and line of every example."""
    return tuple(_examples())


def _examples() -> Iterator[tuple[str, str]]:
    for path in sorted(folder().glob("log_messages/*.yaml")):
        document = yaml.safe_load(path.read_text())
        for message in document.get("messages") or [document]:
            proofs = document["examples"][message["id"]] if "messages" in document else document["examples"]
            yield from ((message["id"], proof["line"].rstrip("\n")) for proof in proofs)


@cache
def scanners() -> dict[str, Scanner]:
    return {message.id: Scanner([message]) for message in load().messages}


def read(message: str, line: str) -> list[Event]:
    return events(scanners()[message].scan(BytesIO(line.encode() + b"\n"), BLOCK).hits, "container.log")


@cache
def bare(message: str, line: str) -> list[dict[str, object]]:
    return [dict(event.fields) for event in read(message, line)]


@pytest.mark.parametrize("name", WRAPS)
def test_every_message_is_understood_in_this_wrap_with_the_same_fields(name: str) -> None:
    wrap, _ = WRAPS[name]
    wrong = [
        f"{message}: {line[:120]}"
        for message, line in examples()
        if not bare(message, line) or [dict(e.fields) for e in read(message, wrap(line))] != bare(message, line)
    ]
    assert wrong == []


@pytest.mark.parametrize("name", WRAPS)
def test_what_the_wrap_tells_is_kept(name: str) -> None:
    wrap, told = WRAPS[name]
    prefix, text = strip(wrap("Available KV cache memory: 10.58 GiB"))
    assert text == "Available KV cache memory: 10.58 GiB"
    assert {key: getattr(prefix, key) for key in told} == {key: pytest.approx(value) if key == "seconds" else value for key, value in told.items()}


WHOLE = [
    name for name, (_, told) in WRAPS.items() if not told.keys() & {"process", "pid", "rank", "level"}
]  # what wraps a file from its first line to its last
CASES = sorted(path.parent for path in (Path(__file__).parents[1] / "cases").glob("*/container.log"))


def wrapped(wrap: Callable[[str], str], log: str) -> str:
    """The log in that wrap, whose clock goes with that of the lines where they have one."""
    lines, day_second = [], 36000
    for line in log.rstrip("\n").split("\n"):
        day_second = int(strip(line)[0].seconds or day_second) % 86400
        minutes, seconds = divmod(day_second, 60)
        lines.append(wrap(line).replace("10:00:00", f"{minutes // 60:02d}:{minutes % 60:02d}:{seconds:02d}") if line else line)
    return "\n".join(lines) + "\n"


@pytest.mark.parametrize("name", WHOLE)
def test_a_log_that_is_wrapped_as_a_whole_gets_the_same_answer(name: str) -> None:
    wrong = []
    for case in CASES[WHOLE.index(name) % 6 :: 6]:
        files = {file.name: file.read_text(errors="replace") for file in case.iterdir() if file.name != "expected.yaml"}
        first, second = diagnose(files), diagnose({**files, "container.log": wrapped(WRAPS[name][0], files["container.log"])})
        before, after = ((found.cause, found.certainty.value, [advice.id for advice in found.recommendations]) for found in (first, second))
        wrong += [f"{case.name}: {before} became {after}"] if before != after else []
    assert wrong == []


@pytest.mark.parametrize(
    "line",
    [
        '{"object":"error","message":"CUDA out of memory.","type":"InternalServerError","param":null,"code":500}',
        '{"kind": "Status", "reason": 3}',
        "gpt-4 model failed to answer in time",
        '{"log": 3, "time": "2026-11-30"}',
        '{"ts": 1e400, "level": "error"}',
    ],
)
def test_what_only_looks_like_a_wrap_stays(line: str) -> None:
    assert strip(line)[1] == line


@pytest.mark.parametrize("logger", ["INFO 11-30 10:00:00 [logger.py:39] ", "INFO:     ", "2026-11-30 10:00:00.500 | INFO     | server:log:12 - "])
def test_a_request_that_a_server_logs_is_no_record(logger: str) -> None:
    """A client could speak in the name of the server."""
    body = '{"message": "Killed", "role": "user"}'
    assert strip(logger + body)[1] == body


@pytest.mark.parametrize("stamp", ["1e999", "-1", "12345678901234567890", "NaN", '"9999999999999999999"', "true", "[]", '"2026-99-99T10:00:00Z"'])
def test_a_time_that_is_none_is_no_time(stamp: str) -> None:
    prefix, text = strip('{"timestamp": ' + stamp + ', "message": "x"}')
    assert (prefix.seconds, text) == (None, "x")
