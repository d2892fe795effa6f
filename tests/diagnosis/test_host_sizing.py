"""From what to what on a host, and never more than the node has."""

import pytest

from bot.diagnosis.host_sizing import peak, rounded, size_for
from bot.diagnosis.sizing import Impossible, Sized
from bot.facts import Facts
from bot.model import Fact, Value
from bot.units import GIB, MIB


def sized(remedy: str, **facts: Value) -> Sized | Impossible | None:
    name, direction = remedy.split(":")
    return size_for(name, direction, Facts([Fact(key.replace("__", "."), value) for key, value in facts.items()]))


def change(remedy: str, **facts: Value) -> tuple[object, object] | None:
    found = sized(remedy, **facts)
    return (found.from_value, found.to_value) if isinstance(found, Sized) else None


@pytest.mark.parametrize(("limit", "to"), [(500 * MIB, "768Mi"), (2 * 10**9, "3Gi"), (32 * GIB, "48Gi"), (200 * GIB, "300Gi")])
def test_limit_that_was_hit_grows_by_half_to_a_round_size(limit: int, to: str) -> None:
    assert change("memory_limit:raise", container__memory_limit_bytes=limit) == ({2 * 10**9: "2G", 500 * MIB: "500Mi", 32 * GIB: "32Gi", 200 * GIB: "200Gi"}[limit], to)


def test_limit_never_exceeds_the_node() -> None:
    found = sized("memory_limit:raise", container__memory_limit_bytes=64 * GIB, node__memory_total_bytes=80 * GIB)
    assert isinstance(found, Impossible)
    assert "80 GiB" in found.why.en


@pytest.mark.parametrize(("left", "share", "possible"), [(GIB, 0.004, False), (60 * GIB, 0.24, True), (40 * GIB, 0.02, True)])
def test_limit_is_not_raised_on_a_machine_that_has_nothing_left(left: int, share: float, possible: bool) -> None:
    limit = {"container__memory_limit_bytes": 16 * GIB, "node__memory_total_bytes": 251 * GIB}
    found = sized("memory_limit:raise", **limit, node__memory_available_bytes=left, node__available_share=share)
    assert isinstance(found, Sized) is possible


def test_first_limit_is_a_third_above_the_request_and_needs_one() -> None:
    assert change("memory_limit:set", container__memory_request_bytes=56 * GIB) == (None, "76Gi")
    assert change("memory_limit:set") is None


def test_request_becomes_what_the_evicted_container_used() -> None:
    assert change("memory_request:raise", pod__evicted_use="43536Ki") == ("0", "128Mi")
    assert change("memory_request:raise", pod__evicted_use="9Gi", container__memory_request_bytes=GIB) == ("1Gi", "11Gi")
    assert change("memory_request:raise", pod__evicted_use="9" * 40) is None


def test_request_becomes_the_limit_when_the_use_is_not_known() -> None:
    assert change("memory_request:raise", container__memory_request_bytes=128 * MIB, container__memory_limit_bytes=8 * GIB) == ("128Mi", "8Gi")
    assert change("memory_request:raise", container__memory_request_bytes=8 * GIB, container__memory_limit_bytes=8 * GIB) is None


def test_shared_memory_is_sized_by_what_was_asked_for_else_doubled() -> None:
    assert change("shm_size:raise", container__shm_volume="default") == ("64Mi", "2Gi")
    assert change("shm_size:raise", container__shm_limit_bytes=8 * 10**9, **{"ray__store_exceeds_shm__store_bytes": 10_240_000_000}) == ("8G", "10Gi")
    assert change("shm_size:raise", shm__size_bytes=16 * GIB) == ("16Gi", "32Gi")
    assert change("shm_size:raise", shm__size_bytes=GIB, vllm__offload_region__region_bytes=64 * GIB) == ("1Gi", "68Gi")
    assert change("shm_size:raise", container__shm_volume="default", vllm__shm_refused__required_bytes=240 * MIB) == ("64Mi", "2Gi")
    assert change("shm_size:raise", vllm__shm_refused__required_bytes=30 * GIB) == (None, "32Gi")


def test_probe_that_ends_a_server_while_it_loads_gets_the_time_that_loading_still_needs() -> None:
    probe = {"events__probe_kill": "liveness", "container__liveness_failures": 3, "container__liveness_period_s": 10, "vllm__loading_shards__left": "08:14"}
    facts = [Fact(key.replace("__", "."), value) for key, value in probe.items()]
    found = size_for("probe", "relax", Facts([*facts, Fact("failure.after_phase", "weights")]))
    assert isinstance(found, Sized)
    assert isinstance(found.to_value, int)
    assert 10 * (found.to_value - 3) >= 494 * 1.5, "a number that does not outlast the load only repeats the kill"
    later = size_for("probe", "relax", Facts([*facts, Fact("failure.after_phase", "serving")]))
    assert isinstance(later, Sized)
    assert later.to_value == 9, "a load that has ended has nothing to go"


def test_probe_gets_more_failures_and_late_answers_get_more_time() -> None:
    startup = {"events__probe_kill": "startup", "container__startup_failures": 60, "container__startup_period_s": 10}
    assert change("probe:relax", **startup) == (60, 120)
    late = {"events__probe_kill": "liveness", "events__probe_answer": "timeout", "container__liveness_failures": 3, "container__liveness_timeout_s": 1}
    found = sized("probe:relax", **late)
    assert isinstance(found, Sized)
    assert found.why is not None
    assert (found.from_value, found.to_value, "timeoutSeconds 1 to 5" in found.why.en) == (3, 9, True)
    longer = sized("probe:relax", **late | {"container__liveness_timeout_s": 5})
    assert isinstance(longer, Sized)
    assert longer.why is not None
    assert "timeoutSeconds 5 to 10" in longer.why.en  # more tries of the same five seconds fail as these did
    assert change("probe:relax", events__probe_kill="startup") is None


def test_a_larger_shm_says_how_it_is_mounted_and_what_it_counts_against() -> None:
    found = sized("shm_size:raise", shm__size_bytes=64 * 2**20)
    assert isinstance(found, Sized)
    assert "emptyDir" in found.effect.en
    assert "memory limit" in found.effect.en
    assert "emptyDir" in found.effect.zh


def test_grace_period_doubles() -> None:
    assert change("grace_period:raise", termination__grace_s=30) == (30, 60)
    assert change("grace_period:raise", termination__grace_s=0) == (0, 30)


def test_remedies_without_numbers_have_none() -> None:
    assert sized("application:fix") is None


def test_sizes_are_rounded_upwards_to_what_people_write() -> None:
    assert [rounded(size) for size in (1, 2 * GIB + 1, 33 * GIB)] == [128 * MIB, 3 * GIB, 36 * GIB]


@pytest.mark.parametrize(
    ("facts", "most"),
    [
        ({}, None),
        ({"cgroup.peak_bytes": 30 * GIB, "cgroup.current_bytes": 12 * GIB}, 30 * GIB),
        ({"cgroup.current_bytes": 12 * GIB}, 12 * GIB),
        ({"kernel.usage_bytes": 32 * GIB, "kernel.kill_matches_container": True, "cgroup.current_bytes": GIB}, 32 * GIB),
        ({"kernel.usage_bytes": 32 * GIB, "kernel.kill_matches_container": False, "cgroup.current_bytes": GIB}, GIB),  # somebody else's
        ({"kernel.usage_bytes": 32 * GIB}, None),
        ({"pod.evicted_use": "9Gi"}, 9 * GIB),
    ],
)
def test_the_most_that_was_seen_in_use_is_of_this_container(facts: dict[str, Value], most: int | None) -> None:
    assert peak(Facts([Fact(name, value) for name, value in facts.items()])) == most


@pytest.mark.parametrize(("gib", "asks"), [(120, True), (1, False)])
def test_a_huge_shm_that_is_full_is_looked_into_before_it_is_doubled(gib: int, asks: bool) -> None:
    found = sized("shm_size:raise", shm__size_bytes=gib * GIB)
    assert found is not None
    assert (found.why is not None and "ls -lS" in found.why.en) is asks


def test_first_limit_is_never_below_what_the_killed_process_held() -> None:
    killed: dict[str, Value] = {"kernel__kill_matches_container": True, "kernel__victim_bytes": 19 * GIB}
    assert change("memory_limit:set", container__memory_request_bytes=6 * GIB, **killed) == (None, "19Gi")
    assert change("memory_limit:set", container__memory_request_bytes=32 * GIB, **killed) == (None, "44Gi")
    assert change("memory_limit:set", container__memory_request_bytes=6 * GIB, kernel__victim_bytes=19 * GIB) == (None, "8Gi")
    assert change("memory_request:raise", container__memory_request_bytes=6 * GIB, **killed) == ("6Gi", "19Gi")


def test_request_never_passes_the_limit() -> None:
    assert change("memory_request:raise", pod__evicted_use="7680Mi", container__memory_request_bytes=2 * GIB, container__memory_limit_bytes=8 * GIB) == ("2Gi", "8Gi")
    assert change("memory_request:raise", pod__evicted_use="7680Mi", container__memory_request_bytes=8 * GIB, container__memory_limit_bytes=8 * GIB) is None


def test_disk_that_an_evicted_pod_used_is_no_memory() -> None:
    assert peak(Facts([Fact("pod.evicted_use", "20Gi"), Fact("pod.evicted", "ephemeral-storage")])) is None
    assert peak(Facts([Fact("pod.evicted_use", "20Gi"), Fact("pod.evicted", "memory")])) == 20 * GIB


@pytest.mark.parametrize(("level", "to"), [("docker", ("512Mi", "768Mi")), ("container", ("512Mi", "768Mi")), ("pod", None)])
def test_limit_that_only_the_kernel_names_is_raised_from_there(level: str, to: tuple[str, str] | None) -> None:
    hit: dict[str, Value] = {"kernel__kill_matches_container": True, "kernel__level": level, "kernel__limit_bytes": 512 * MIB}
    assert change("memory_limit:raise", **hit) == to
    assert change("memory_limit:raise", container__name="server", **hit) is None
