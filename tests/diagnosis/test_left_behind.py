"""An engine that holds its card after its server has stopped in order: known by number and clock, and by nothing less."""

import pytest

from tests.diagnosis.bundles import diagnose
from tests.diagnosis.test_fitting_advice import remedies

STOP = """(APIServer pid={front}) INFO 04-08 22:10:40 [launcher.py:99] Shutting down FastAPI HTTP server.
INFO:     Shutting down
INFO:     Application shutdown complete.
"""
LOOK = """{clock}
|   0  NVIDIA L40S                     On  |   00000000:3B:00.0 Off |                    0 |
| N/A   39C    P0             84W /  350W |   31044MiB /  46068MiB |      0%      Default |
| Processes:                                                                              |
|    0   N/A  N/A      {pid}      C   {name}                            {size}MiB |
"""


def look(clock: str = "Wed Apr  8 22:31:05 2026", pid: int = 60211, name: str = "VLLM::EngineCore", size: int = 31036, front: int = 60090) -> dict[str, str]:
    return {"container.log": STOP.format(front=front), "nvidia-smi.txt": LOOK.format(clock=clock, pid=pid, name=name, size=size)}


def test_an_engine_that_outlives_its_server_is_ended() -> None:
    found = diagnose(look())
    assert (found.cause, remedies(found)[0]) == ("other_process_on_gpu", "free_gpu_process")
    assert "60211" in found.recommendations[0].why.en


def test_a_process_that_the_log_itself_names_needs_no_title() -> None:
    assert diagnose(look(pid=60090, name="python3")).cause == "other_process_on_gpu"


@pytest.mark.parametrize(
    "files",
    [
        look(clock="Wed Apr  8 22:11:02 2026"),  # it may still be stopping
        look(clock="Wed Apr  8 21:40:00 2026"),  # before the stop
        look(clock="Fri Apr 10 09:00:00 2026"),  # much may have been started since
        look(clock=""),
        look(pid=48020),  # older than the server
        look(pid=71900),  # started much later
        look(name="python3"),
        look(size=120),
        look(front=1, pid=311),  # the numbers of a container
    ],
)
def test_nothing_less_makes_a_process_on_the_card_a_left_over_engine(files: dict[str, str]) -> None:
    assert diagnose(files).cause == "normal_termination"


def test_a_later_look_does_not_count_the_same_process_twice_nor_move_the_clock() -> None:
    files = look()
    files["nvidia-smi.txt"] += look(clock="Wed Apr  8 22:41:05 2026")["nvidia-smi.txt"]
    assert "30.31 GiB" in diagnose(files).summary.en
    early = look(clock="Wed Apr  8 22:10:00 2026")
    early["nvidia-smi.txt"] += look()["nvidia-smi.txt"]
    assert diagnose(early).cause == "normal_termination"
