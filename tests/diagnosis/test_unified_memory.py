"""Where the card's memory is the host's: what a kernel's kill, a driver's refusal and a child's SIGKILL ask for, and what they do not."""

from bot.model import Certainty, Diagnosis
from tests.diagnosis.bundles import diagnose

BOARD = "GPU 0: NVIDIA GB10 (UUID: GPU-5f0c2b1e-77aa-5d1b-9c0e-0f3e1a7c4400)\n"
CARD = "GPU 0: NVIDIA L40S (UUID: GPU-5f0c2b1e-77aa-5d1b-9c0e-0f3e1a7c4400)\n"
LOADED = "(Worker_TP1 pid=310) INFO 06-02 09:14:10 [gpu_model_runner.py:4820] Model loading took 61.02 GiB memory and 88.10 seconds\n"
KILL = (
    "[11021.512007] VLLM::Worker_TP invoked oom-killer: gfp_mask=0x102cc2(GFP_HIGHUSER), order=0, oom_score_adj=0\n"
    "[11021.514100] oom-kill:constraint=CONSTRAINT_NONE,nodemask=(null),cpuset=/,mems_allowed=0,global_oom,task_memcg=/system.slice/docker-5d.scope,"
    "task=VLLM::Worker_TP,pid=310,uid=0\n"
    "[11021.514180] Out of memory: Killed process 310 (VLLM::Worker_TP) total-vm:241120344kB, anon-rss:9120440kB, file-rss:201344kB, shmem-rss:4096kB, UID:0\n"
)
REFUSED = "[ 1811.220010] NVRM: nvCheckOkFailedNoLog: Check failed: Out of memory [NV_ERR_NO_MEMORY] (0x00000051) returned from _memdescAllocInternal(pMemDesc)\n"
DIED = "RuntimeError: Rank 0 scheduler died during initialization (exit code: -9). If exit code is -9 (SIGKILL), a common cause is the OS OOM killer.\n"


def advised(found: Diagnosis) -> list[str]:
    return [f"{each.remedy}:{each.direction}" if each.direction else each.remedy for each in found.recommendations]


def test_a_kill_for_the_whole_machine_asks_for_less_of_the_memory_that_card_and_host_share() -> None:
    shared = advised(diagnose({"container.log": LOADED, "kernel.log": KILL, "nvidia-smi.txt": BOARD}))
    assert shared[:2] == ["drop_page_cache", "gpu_memory_utilization:lower"]
    apart = advised(diagnose({"container.log": LOADED, "kernel.log": KILL, "nvidia-smi.txt": CARD}))
    assert not {"drop_page_cache", "gpu_memory_utilization:lower"} & set(apart)


def test_a_cache_that_is_fixed_already_is_not_advised_to_be_fixed_instead_of_a_share() -> None:
    found = diagnose({"kernel.log": REFUSED, "nvidia-smi.txt": BOARD, "args.txt": "vllm serve /models/m --kv-cache-memory-bytes 9663676416"})
    [reason] = [each.why.en for each in found.recommendations if each.remedy == "kv_cache_memory_bytes"]
    assert "smaller" in reason


def test_a_scheduler_that_was_killed_is_no_exception_of_the_program() -> None:
    found = diagnose({"container.log": "[2026-09-04 10:12:41 TP0] Load weight begin. avail mem=116.20 GB\n" + DIED, "nvidia-smi.txt": BOARD})
    assert (found.cause, found.certainty) == ("node_out_of_memory", Certainty.POSSIBLE)
    alone = diagnose({"container.log": DIED})
    assert alone.cause == "unknown"
    assert advised(alone) == []


def test_less_for_the_card_is_not_called_useless_for_the_host_where_both_have_one_memory() -> None:
    line = "Jun 02 09:15:01 node systemd-oomd[811]: Killed /system.slice/model.service due to memory used (123000000000) / total (127000000000) being more than 90.00%\n"
    for listing, useless in ((CARD, True), (BOARD, False)):
        found = diagnose({"container.log": LOADED + line, "nvidia-smi.txt": listing})
        assert found.cause == "node_out_of_memory"
        assert (("gpu_memory_utilization", "lower") in {(each.remedy, each.direction) for each in found.will_not_help}) is useless


def test_a_serving_board_with_hardly_any_memory_left_is_not_called_healthy() -> None:
    serving = LOADED + "(APIServer pid=1) INFO:     Application startup complete.\n"
    free = "$ free -m\n               total        used        free      shared  buff/cache   available\nMem:          124546      {used}        1913          52        4352        {left}\n"
    full = diagnose({"container.log": serving, "nvidia-smi.txt": BOARD, "node_readings.txt": free.format(used=118280, left=6266)})
    assert (full.cause, full.certainty) == ("node_out_of_memory", Certainty.POSSIBLE)
    for card, left in ((BOARD, 60266), (CARD, 6266)):
        assert diagnose({"container.log": serving, "nvidia-smi.txt": card, "node_readings.txt": free.format(used=50000, left=left)}).cause == "healthy"
