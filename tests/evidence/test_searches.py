"""A search for kills that printed nothing says so; one that found something, that excludes kills or that failed does not."""

import pytest

from bot.evidence import node_readings
from tests.diagnosis.bundles import diagnose
from tests.diagnosis.scenes import ID, container, pod, status

EVENT = f'time="2026-01-14T09:31:07Z" level=info msg="TaskOOM event &TaskOOM{{ContainerID:{ID},XXX_unrecognized:[],}}"'
KILL = "[812201.440188] Memory cgroup out of memory: Killed process 90213 (python3) total-vm:2000kB, anon-rss:1000kB, file-rss:0kB, shmem-rss:0kB"


def searched(text: str) -> bool:
    return any(fact.name == "kernel.search_empty" for fact in node_readings.read(text.encode(), "node_readings.txt").facts)


@pytest.mark.parametrize(
    "text",
    [
        '# dmesg -T | grep -i -E "oom|out of memory"\n# \n',
        "$ sudo dmesg | grep -i killed\n$ free -g\n",
        "root@node-1:~# journalctl -k --since today | grep -i oom\nroot@node-1:~# \n",
    ],
)
def test_search_for_kills_that_printed_nothing_is_known(text: str) -> None:
    assert searched(text)


@pytest.mark.parametrize(
    "text",
    [
        f"# dmesg -T | grep -i oom\n{KILL}\n",
        "# dmesg | grep -v oom\n# \n",
        "# dmesg | grep -i oom\ndmesg: read kernel buffer failed: Operation not permitted\n",
        "# journalctl -u docker | grep -i oom\n# \n",
        "# dmesg | grep -i xid\n# \n",
        "dmesg | grep -i oom\n",
    ],
)
def test_search_that_found_something_or_sought_something_else_proves_nothing(text: str) -> None:
    assert not searched(text)


@pytest.mark.parametrize(("search", "cause"), [("# dmesg -T | grep -i oom\n# \n", "unknown"), ("", "child_killed_in_container")])
def test_runtimes_event_alone_is_no_kill_where_the_kernel_tells_of_none(search: str, cause: str) -> None:
    found = diagnose({"pod.json": pod([container()], [status(container_id=ID, restartCount=0)]), "node_readings.txt": f"# journalctl -u containerd | grep OOM\n{EVENT}\n{search}"})
    assert found.cause == cause
    assert ("memory_limit:raise" in [advice.id for advice in found.recommendations]) is (not search)
