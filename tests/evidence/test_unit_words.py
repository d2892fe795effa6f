"""systemd's words of a unit's end, in the status of a unit and in a whole journal."""

import pytest

from bot.evidence import kernel_log, unit_words
from bot.model import Place

HEAD = "Jan 14 09:31:07 node-a systemd[1]: {}.service: "
SAID = {
    "Main process exited, code=killed, status=9/KILL": ("unit.killed", True),
    "Main process exited, code=dumped, status=11/SEGV": ("unit.crashed", "SEGV"),
    "State 'stop-sigterm' timed out. Killing.": ("unit.stop_timed_out", True),
    "start operation timed out. Terminating.": ("unit.start_timed_out", True),
    "Watchdog timeout (limit 30s)!": ("unit.watchdog", "30s"),
    "Failed to spawn 'start' task: Cannot allocate memory": ("unit.refused", "Cannot allocate memory"),
    "Main process exited, code=exited, status=203/EXEC": ("unit.not_executed", "203/EXEC"),
}


@pytest.mark.parametrize("line", SAID)
def test_each_end_is_told_apart(line: str) -> None:
    found = unit_words.facts([(1, HEAD.format("chat") + line, Place("node_readings.txt", 1))])
    assert [(fact.name, fact.value) for fact in found] == [SAID[line]]


def test_end_by_its_own_code_tells_nothing() -> None:
    assert unit_words.facts([(1, HEAD.format("chat") + "Main process exited, code=exited, status=1/FAILURE", Place("node_readings.txt", 1))]) == []


def test_whole_journal_counts_only_where_it_tells_of_one_unit() -> None:
    line = "start operation timed out. Terminating.\n"
    one, two = HEAD.format("chat") + line, HEAD.format("printer") + line
    assert "unit.start_timed_out" in {fact.name for fact in kernel_log.read(one.encode(), "kernel.log").facts}
    assert "unit.start_timed_out" not in {fact.name for fact in kernel_log.read((one + two).encode(), "kernel.log").facts}
