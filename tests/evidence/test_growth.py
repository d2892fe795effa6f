"""A use that only grows over several looks is told from one that moves up and down, and a use that no process is listed for is told."""

import pytest

from bot.evidence import node_readings, nvidia_smi

HEAD = "timestamp, index, name, memory.used [MiB], memory.total [MiB]\n"


def looks(*used: int) -> dict[str, object]:
    text = HEAD + "".join(f"2025/01/01 0{hour}:00:00.000, 0, NVIDIA H100, {amount} MiB, 81559 MiB\n" for hour, amount in enumerate(used))
    return {fact.name: fact.value for fact in nvidia_smi.read(text.encode(), "nvidia-smi.txt").facts}


def test_a_card_that_fills_over_several_looks_grows() -> None:
    assert looks(60_000, 62_000, 65_000, 70_000)["gpus.use_growth_bytes"] == 10_000 * 2**20


@pytest.mark.parametrize("used", [(60_000,), (60_000, 70_000), (60_000, 70_000, 61_000, 70_000), (70_000, 70_000, 70_000)])
def test_one_look_two_looks_and_ups_and_downs_are_no_growth(used: tuple[int, ...]) -> None:
    assert "gpus.use_growth_bytes" not in looks(*used)


def test_a_node_that_empties_is_told_from_a_busy_one() -> None:
    def sar(*free: int) -> set[str]:
        rows = "".join(f"0{hour}:00:01  {amount}  {amount}  1000  50.0\n" for hour, amount in enumerate(free))
        text = f"$ sar -r\n00:00:01  kbmemfree  kbavail  kbmemused  %memused\n{rows}"
        return {fact.name for fact in node_readings.read(text.encode(), "node_readings.txt").facts}

    assert "node.memory_fall_bytes" in sar(9_000_000, 8_000_000, 7_000_000, 5_000_000, 2_000_000)
    assert "node.memory_fall_bytes" not in sar(9_000_000, 3_000_000, 8_000_000, 2_000_000, 6_000_000)


def _told(text: str) -> dict[str, object]:
    return {fact.name: fact.value for fact in node_readings.read(text.encode(), "node_readings.txt").facts}


def top(*sizes: int) -> str:
    return "".join(f"$ date; kubectl top pod server-0\nSun Mar  1 1{hour}:00:00 UTC 2026\nNAME       CPU(cores)   MEMORY(bytes)\nserver-0   900m         {size}Mi\nproxy-0    4m           60Mi\n" for hour, size in enumerate(sizes))


@pytest.mark.parametrize(
    ("text", "name", "grown"),
    [
        (top(40_000, 42_000, 45_000, 49_000), "server-0", 9_000 << 20),
        ("NAME CPU(cores) MEMORY(bytes)\n" + "".join(f"server-0 1 {size}Gi\n" for size in (20, 22, 25, 25, 29)), "server-0", 9 << 30),
        ("POD NAME CPU(cores) MEMORY(bytes)\n" + "".join(f"p-0 server 1 {size}Gi\n" for size in (20, 22, 25, 29)), "p-0 server", 9 << 30),
        ("CONTAINER ID   NAME   CPU %   MEM USAGE / LIMIT   MEM %\n" + "".join(f"0123456789ab   chat   9.10%   {size}GiB / 64GiB   9.1%\n" for size in (10, 12.5, 14, 20)), "chat", 10 << 30),
        ("".join(f"$ ps -o pid,rss,comm\nPID RSS COMMAND\n71 {size} python3\n" for size in (10 << 20, 12 << 20, 14 << 20, 20 << 20)), "process 71", 10 << 30),
    ],
)
def test_memory_that_never_falls_over_four_looks_grows(text: str, name: str, grown: int) -> None:
    facts = _told(text)
    assert (facts["looks.growth_of"], facts["looks.growth_bytes"]) == (name, grown)


@pytest.mark.parametrize("sizes", [(40_000, 45_000, 49_000), (40_000, 45_000, 44_000, 49_000), (40_000, 40_000, 40_000, 49_000), (40_000, 40_100, 40_200, 40_300)])
def test_few_looks_falls_one_step_and_little_are_no_growth(sizes: tuple[int, ...]) -> None:
    assert "looks.growth_bytes" not in _told(top(*sizes))


def test_free_that_falls_from_look_to_look_tells_a_node_that_empties() -> None:
    def free(*available: int) -> str:
        return "".join(f"$ free -g\n       total   used   free   shared  buff/cache   available\nMem:     256     10      5        1          40         {size}\n" for size in available)

    assert _told(free(200, 160, 120, 80))["node.memory_fall_bytes"] == 120 << 30
    assert "node.memory_fall_bytes" not in _told(free(200, 120, 160, 80))


TABLE = """|   0  NVIDIA H100 80GB HBM3          On  |   00000000:1B:00.0 Off |                    0 |
| N/A   34C    P0            118W /  700W |  {used:>6}MiB /  81559MiB |      0%      Default |
+-----------------------------------------+------------------------+----------------------+
| Processes:                                                                              |
|  GPU   GI   CI              PID   Type   Process name                        GPU Memory |
|=========================================================================================|
{rows}
"""
NONE = "|  No running processes found                                                             |"
ONE = "|    0   N/A  N/A            4411      C   python3                           74400MiB |"


@pytest.mark.parametrize(("used", "rows", "unlisted"), [(74411, NONE, 74411 << 20), (540, NONE, None), (74411, ONE, None), (74411, "", 74411 << 20)])
def test_card_in_use_beside_an_empty_table_of_processes_is_told(used: int, rows: str, unlisted: int | None) -> None:
    facts = {fact.name: fact.value for fact in nvidia_smi.read(TABLE.format(used=used, rows=rows).encode(), "nvidia-smi.txt").facts}
    assert facts.get("gpus.unlisted_bytes") == unlisted


APPS = "pid, process_name, used_gpu_memory [MiB]\n"


def listed(text: str) -> dict[str, object]:
    return {fact.name: fact.value for fact in nvidia_smi.read(text.encode(), "nvidia-smi.txt").facts}


def test_a_process_counts_once_as_the_last_of_several_looks_shows_it() -> None:
    facts = listed(f"{APPS}7713, VLLM::EngineCore, 412 MiB\n\n{APPS}7713, VLLM::EngineCore, 5184 MiB\n")
    assert (facts["gpus.processes"], facts["gpus.process_bytes"]) == (1, 5184 * 2**20)
    assert facts["gpu.process.0.used_bytes"] == 5184 * 2**20


def test_a_process_on_two_cards_and_looks_at_two_cards_are_added() -> None:
    assert listed(f"{APPS}7713, python, 400 MiB\n7713, python, 600 MiB\n")["gpus.process_bytes"] == 1000 * 2**20
    one = "| Processes:  |\n|    {card}   N/A  N/A    7713      C   python      {used}MiB |\n"
    assert listed(one.format(card=0, used=400) + one.format(card=1, used=600))["gpus.process_bytes"] == 1000 * 2**20
    assert listed(one.format(card=0, used=400) + one.format(card=0, used=600))["gpus.process_bytes"] == 600 * 2**20
    assert listed(one.format(card=0, used=400) + f"{APPS}7713, python, 400 MiB\n")["gpus.processes"] == 1
