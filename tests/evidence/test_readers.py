"""No reader of a bundle file ever raises, whatever the bytes are, and what it says stands in the file."""

import json
from collections.abc import Callable
from io import BytesIO
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bot.clients.databricks import as_object
from bot.diagnosis import host
from bot.evidence import args_text, endpoint_json, events_json, kernel_log, node_readings, nvidia_smi, pod_json, ray_status
from bot.evidence.reading import Reading
from bot.facts import Facts
from bot.sandbox.databricks import Endpoint, entity, serving
from tests.diagnosis.scenes import container, event, killed, path, pod, status, terminated

READERS = {
    "pod.json": pod_json.read, "events.json": events_json.read, "kernel.log": kernel_log.read, "node_readings.txt": node_readings.read,
    "nvidia-smi.txt": nvidia_smi.read, "ray_status.txt": ray_status.read, "args.txt": args_text.read, "endpoint.json": endpoint_json.read,
}  # fmt: skip
POD = json.dumps(pod([container(), container("istio-proxy")], [status(last=terminated(137, "OOMKilled"))]), indent=1).encode()
EVENTS = json.dumps({"items": [event("Killing", "Container server failed liveness probe, will be restarted"), event("Evicted", "The node was low on resource: memory.")]}, indent=1).encode()
KERNEL = killed(path(), path(), group=True).encode() + b"[9.0] NVRM: Xid (PCI:0000:a1:00): 79, GPU has fallen off the bus.\n"
TEXTS = Path(__file__).parents[1] / "commands"
ENDPOINT = json.dumps(as_object(Endpoint("chat", serving(entity())).shown("CAN_VIEW")), indent=1).encode()
SAMPLES = [POD, EVENTS, KERNEL, ENDPOINT, *(file.read_bytes() for file in sorted(TEXTS.glob("*.yaml")))]
Reader = Callable[[bytes, str], Reading]


def holds(reading: Reading, data: bytes) -> None:
    lines = data.split(b"\n")
    for fact in reading.facts:
        assert isinstance(fact.value, str | int | float | bool | tuple)
        if fact.place is not None and fact.place.line is not None:
            line = lines[fact.place.line - 1].decode(errors="replace")
            assert all(part in line for part in fact.place.quote.split("..."))


@pytest.mark.parametrize("name", READERS)
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.binary(max_size=2000))
def test_any_bytes_give_a_reading(name: str, data: bytes) -> None:
    holds(READERS[name](data, name), data)


@pytest.mark.parametrize("name", READERS)
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.sampled_from(SAMPLES), st.data())
def test_real_output_with_a_piece_cut_or_changed_gives_a_reading(name: str, sample: bytes, data: st.DataObject) -> None:
    begin = data.draw(st.integers(0, len(sample)))
    end = data.draw(st.integers(begin, min(len(sample), begin + 200)))
    changed = sample[:begin] + data.draw(st.sampled_from([b"", b"\xff\xfe", b"\n", b"9" * 300, b"[[[[{", b'"', b"\x00", b"-1", b"null", b"kB"])) + sample[end:]
    holds(READERS[name](changed, name), changed)


ANY = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=12),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["name", "state", "terminated", "exitCode", "resources", "limits", "memory"]), inner, max_size=3),
    max_leaves=8,
)


def paths(value: object, here: tuple[str | int, ...] = ()) -> list[tuple[str | int, ...]]:
    found = [here] if here else []
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, child in items:
        found += paths(child, (*here, key))
    return found


PLACES = paths(json.loads(POD))


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.sampled_from(PLACES), ANY)
def test_wrong_type_at_any_key_of_a_pod_gives_facts_that_can_be_derived_from(where: tuple[str | int, ...], wrong: object) -> None:
    the_pod = json.loads(POD)
    parent = the_pod
    for step in where[:-1]:
        parent = parent[step]
    parent[where[-1]] = wrong
    reading = pod_json.read(json.dumps(the_pod).encode(), "pod.json")
    kernel = kernel_log.read(KERNEL, "kernel.log")
    assert isinstance(host.derive(Facts([*reading.facts, *kernel.facts], reading.looked + kernel.looked)), Facts)


@pytest.mark.parametrize("name", ["pod.json", "events.json"])
def test_cut_json_becomes_a_gap_and_says_nothing_about_what_is_missing(name: str) -> None:
    whole = {"pod.json": POD, "events.json": EVENTS}[name]
    reading = READERS[name](whole[: len(whole) * 2 // 3], name)
    assert [gap.reason for gap in reading.gaps] == ["damaged or cut"]
    assert reading.facts
    assert reading.looked == ()


@pytest.mark.parametrize("name", READERS)
def test_hostile_sizes_end_in_time(name: str) -> None:
    for hostile in (b"x" * 3_000_000, b"(" * 300_000, b'{"items":[' * 50_000, b"oom-kill:constraint=" * 20_000, b"GPU 0: " * 50_000, b"Killed process " * 50_000 + b"\n"):
        READERS[name](hostile, name)


def test_a_million_kills_stay_bounded() -> None:
    one = killed(path(), path()).encode()
    reading = kernel_log.read(one * 20_000, "kernel.log")
    assert len(reading.facts) < 5_000


def test_a_kill_in_the_middle_of_a_large_log_is_found_with_its_line() -> None:
    noise = b"[1.0] usb 1-1: new high-speed USB device number 4\n" * 200_000
    reading = kernel_log.read(noise + KERNEL + noise, "kernel.log")
    kill = next(fact for fact in reading.facts if fact.name == "kernel.kill.0.task")
    assert (kill.value, kill.place.line if kill.place else None) == ("VLLM::EngineCor", 200_004)


def test_several_pods_in_one_file_choose_the_one_that_failed() -> None:
    quiet, failed = pod(), pod(metadata={"name": "chat-1"}, status={"phase": "Failed", "reason": "Evicted", "message": "The node was low on resource: memory. "})
    reading = pod_json.read(json.dumps({"kind": "List", "items": [quiet, failed]}).encode(), "pod.json")
    assert {fact.name: fact.value for fact in reading.facts}["pod.name"] == "chat-1"


def test_kill_at_the_end_of_a_log_that_does_not_fit_keeps_its_line() -> None:
    line = b"[1.0] usb 1-1: " + b"x" * 985 + b"\n"
    whole = line * 150_000 + KERNEL
    loaded = kernel_log.load(BytesIO(whole))
    assert len(loaded) < len(whole)
    reading = kernel_log.read(loaded, "kernel.log")
    kill = next(fact for fact in reading.facts if fact.name == "kernel.kill.0.task")
    assert kill.place is not None
    assert kill.place.line == 150_004
    assert [gap.reason for gap in reading.gaps] == ["only its last 64 MiB were read"]


EVENT_TABLE = (
    "$ kubectl get events -n llm\n"
    "LAST SEEN   TYPE      REASON      OBJECT       MESSAGE\n"
    "8m          Normal    Pulled      pod/chat-0   Container image already present on machine\n"
    "5m (x3 over 9m)   Warning   Evicted   pod/chat-0   The node was low on resource: memory. Threshold quantity: 100Mi, available: 60Mi.\n"
    "4m          Warning   SystemOOM   node/node-1  System OOM encountered, victim process: python3, pid: 4\n"
)


def test_table_of_events_among_other_outputs_is_read_at_its_lines() -> None:
    facts = {fact.name: fact for fact in node_readings.read(EVENT_TABLE.encode(), "node_readings.txt").facts}
    kinds = {fact.value: fact.place.line for name, fact in facts.items() if name.startswith("events.") and name.endswith(".kind") and fact.place}
    assert kinds == {"evicted": 4, "system-oom": 5}


def test_list_of_pods_tells_the_one_that_is_not_well() -> None:
    text = "$ kubectl get pods\nNAME     READY   STATUS      RESTARTS      AGE\nweb-0    1/1     Running     0             9d\nchat-0   0/1     OOMKilled   4 (30s ago)   5m\n"
    facts = {fact.name: fact for fact in node_readings.read(text.encode(), "node_readings.txt").facts}
    assert facts["listing.pod_status"].value == "OOMKilled"
    assert facts["listing.pod_status"].place is not None
    assert facts["listing.pod_status"].place.line == 4
