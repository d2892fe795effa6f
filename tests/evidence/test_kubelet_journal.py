"""A kubelet's own journal, pasted: what it says of its node counts, what it says of a pod only where there is one."""

from bot.evidence import kubelet_journal
from bot.evidence.sections import Line

HEAD = "Jan 14 09:31:07 node-a kubelet[911]: I0114 09:31:07.123456     911 "
PROBE = HEAD + 'kuberuntime_manager.go:1027] "Message for Container of pod" containerName="server" pod="{}" containerMessage="Container server failed liveness probe, will be restarted"'
DENIED = HEAD + 'kubelet.go:2400] "Pod admission denied" podUID="1" pod="llm/chat-0" reason="OutOfmemory" message="Node didn\'t have enough resource: memory, requested: 6, used: 2, capacity: 7"'


def told(*lines: str) -> dict[str, object]:
    return {fact.name: fact.value for fact in kubelet_journal.facts([Line(number, text) for number, text in enumerate(lines, 1)], "node_readings.txt")}


def test_kill_for_the_whole_node_is_read_in_both_wordings() -> None:
    for line in (
        HEAD + 'oom_watcher_linux.go:100] "Got sys oom event" event="&{Pid:4711 ProcessName:python3 ContainerName:/}"',
        HEAD + "event.go:289] System OOM encountered, victim process: python3, pid: 4711",
    ):
        assert told(line) == {"events.system_oom": True}


def test_probe_that_ended_a_container_counts_where_it_is_of_one_pod() -> None:
    assert told(PROBE.format("llm/chat-0"), PROBE.format("llm/chat-0")) == {"events.probe_kill": "liveness"}
    assert told(PROBE.format("llm/chat-0"), PROBE.format("llm/other-0")) == {}


def test_refusal_at_admission_gives_the_kubelets_reason() -> None:
    assert told(DENIED) == {"events.rejected": "Node didn't have enough resource: memory, requested: 6, used: 2, capacity: 7"}
