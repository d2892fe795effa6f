"""Sums over the files of a host."""

from bot.facts import ABSENT
from tests.diagnosis.scenes import container, derived, pod, status, terminated


def test_code_of_a_container_that_nobody_saw_end_is_invented() -> None:
    lost = pod([container()], [status(last=terminated(137, "ContainerStatusUnknown", at="0001-01-01T00:00:00Z"))])
    facts = derived(lost)
    assert (facts.get("termination.invented"), facts.get("container.lifetime_s")) == (True, ABSENT)
    assert "termination.signal" not in facts


def test_signal_is_read_from_the_exit_code() -> None:
    assert [derived(pod([container()], [status(last=terminated(code))])).get("termination.signal") for code in (134, 135, 137, 139, 143)] == [6, 7, 9, 11, 15]


def test_page_cache_share_leaves_shared_memory_out() -> None:
    text = "# cat /sys/fs/cgroup/memory.current\n1000\n# cat /sys/fs/cgroup/memory.stat\nanon 100\nfile 900\nshmem 400\n"
    assert derived(node=text).get("cgroup.cache_share") == 0.5


def test_kill_without_a_hit_limit_was_for_the_node() -> None:
    facts = derived(node="# cat /sys/fs/cgroup/memory.events\noom 0\noom_kill 2\n")
    assert facts.get("cgroup.killed_by_node") is True


def shm(volume: bool, restarts: int, percent: int) -> object:
    mount = {"volumeMounts": [{"name": "dshm", "mountPath": "/dev/shm"}]} if volume else {}
    spec = {"volumes": [{"name": "dshm", "emptyDir": {"medium": "Memory", "sizeLimit": "20Gi"}}]} if volume else {}
    the_pod = pod([container(**mount)], [status(last=terminated(135), restartCount=restarts)], spec=spec)
    return derived(the_pod, node=f"Filesystem Size Used Avail Use% Mounted on\ntmpfs {'20G' if volume else '64M'} 1G 1G {percent}% /dev/shm\n").get("shm.left_over")


def test_full_memory_volume_after_a_restart_holds_what_an_earlier_process_left() -> None:
    assert shm(volume=True, restarts=3, percent=100) is True


def test_first_start_or_default_volume_or_free_room_is_no_left_over() -> None:
    assert [shm(True, 0, 100), shm(False, 3, 100), shm(True, 3, 20)] == [False, False, False]


def test_ray_misses_gpus_only_when_more_is_asked_for_than_there_is() -> None:
    def missing(total: str) -> object:
        text = f"======== Autoscaler status: x ========\nUsage:\n 0.0/{total} GPU\n\nDemands:\n {{'GPU': 1.0}} * 4 (PACK): 1+ pending placement groups\n"
        return derived(ray=text).get("ray_status.gpus_missing")

    assert [missing("3.0"), missing("4.0")] == [True, False]


def test_ray_cluster_that_lists_no_gpu_has_none() -> None:
    text = "======== Autoscaler status: x ========\nUsage:\n 0.0/12.0 CPU\n\nDemands:\n {'GPU': 1.0, 'CPU': 1.0} * 1 (PACK): 2+ pending placement groups\n"
    assert derived(ray=text).get("ray_status.gpu_total") == 0.0


def test_nothing_at_all_derives_nothing() -> None:
    assert list(derived()) == []
