"""How a change is written: as it is typed, from what to what."""

import pytest

from bot import knobs
from bot.model import Recommendation, Text


def _advice(remedy: str, direction: str, old: str | int | float | None, new: str | int | float | None, option: str = "") -> Recommendation:
    return Recommendation(remedy, direction, Text("why", "因"), Text("effect", "果"), "low", old, new, option=option)


@pytest.mark.parametrize(
    ("remedy", "option", "old", "new", "typed"),
    [
        ("max_model_len", "--max-model-len", 131072, 57344, "--max-model-len 131072 -> 57344"),
        ("gpu_memory_utilization", "--gpu-memory-utilization", None, 0.85, "--gpu-memory-utilization 0.85"),
        ("tensor_parallel_size", "--tensor-parallel-size", 1, 2, "--tensor-parallel-size 1 -> 2"),
        ("cpu_offload", "--cpu-offload-gb", 0, 8, "--cpu-offload-gb 0 -> 8"),
        ("enforce_eager", "--enforce-eager", False, True, "--enforce-eager"),
        ("max_model_len", "--max-model-len", 131072, None, ""),
        ("memory_limit", "", "2G", "3Gi", ""),
        ("gpu_memory_utilization", "--mem-fraction-static", 0.88, 0.83, "--mem-fraction-static 0.88 -> 0.83"),
    ],
)
def test_an_option_is_written_as_it_is_typed(remedy: str, option: str, old: str | int | float | None, new: str | int | float | None, typed: str) -> None:
    assert knobs.typed(_advice(remedy, "", old, new, option)) == typed


@pytest.mark.parametrize(
    ("remedy", "old", "new", "change"),
    [
        ("memory_limit", "2G", "3Gi", "2G -> 3Gi"),
        ("memory_limit", 2 << 30, 3 << 30, "2Gi -> 3Gi"),
        ("probe", 3, 9, "failureThreshold 3 -> 9"),
        ("grace_period", 30, 60, "terminationGracePeriodSeconds 30 -> 60"),
        ("memory_limit", None, "76Gi", "76Gi"),
        ("bigger_gpu", None, None, ""),
    ],
)
def test_a_field_of_the_pod_says_from_what_to_what(remedy: str, old: str | int | float | None, new: str | int | float | None, change: str) -> None:
    assert knobs.change(_advice(remedy, "", old, new)) == change
