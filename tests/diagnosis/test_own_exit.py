"""Programs that ended by themselves: a worker, a Go program, an abort under Open MPI, a store of objects that was full."""

import pytest

from bot.model import Diagnosis
from tests.diagnosis.bundles import diagnose
from tests.diagnosis.scenes import container, pod, status, terminated


def remedies(found: Diagnosis) -> list[str]:
    return [f"{each.remedy}:{each.direction}".rstrip(":") for each in found.recommendations]


FAILED = "[2026-02-03 11:00:02 +0000] [9] [ERROR] Worker (pid:33) exited with code {code}\n"
GO = 'E0203 11:00:02.041990       1 main.go:31] "failed to start the scheduler" err="dial tcp [::1]:9000: connect: connection refused"\n'


def test_worker_that_gave_up_has_failed_by_itself() -> None:
    found = diagnose({"container.log": "[2026-02-03 11:00:00 +0000] [33] [INFO] Booting worker with pid: 33\n" + FAILED.format(code=3)})
    assert (found.cause, remedies(found)[0]) == ("application_error", "application:fix")


@pytest.mark.parametrize("code", [0, 137])
def test_worker_that_ended_well_or_was_killed_has_not(code: int) -> None:
    assert diagnose({"container.log": FAILED.format(code=code)}).cause != "application_error"


def test_last_error_of_a_go_program_that_ended_with_a_code_of_its_own_is_its_reason() -> None:
    def ended(code: int) -> Diagnosis:
        return diagnose({"pod.json": pod([container()], [status(last=terminated(code))]), "previous.log": GO})

    assert (ended(1).cause, remedies(ended(1))[0]) == ("application_error", "application:fix")
    assert "failed to start the scheduler" in ended(1).summary.en
    assert ended(137).cause == "unknown"


def test_abort_that_open_mpi_tells_of_is_one() -> None:
    told = "[node-1:00017] *** Process received signal ***\n[node-1:00017] Signal: {signal}\n"
    assert diagnose({"container.log": told.format(signal="Aborted (6)")}).cause == "abort"
    assert diagnose({"container.log": told.format(signal="Segmentation fault (11)")}).cause == "segfault"


def test_store_that_is_full_explains_the_object_that_is_missing() -> None:
    missing = "ray.worker.RayGetError: Could not get objectid ObjectID(2d19). It was created by remote function load which failed with:\n"
    full = "pyarrow.lib.PlasmaStoreFull: /src/plasma/client.cc:298 code: ReadCreateReply(buffer.data(), buffer.size(), &id)\n"
    found = diagnose({"container.log": missing + full})
    assert (found.cause, remedies(found)[0]) == ("ray_object_store", "ray_object_store:raise")
    assert diagnose({"container.log": missing}).cause != "ray_object_store"


@pytest.mark.parametrize(("unused", "first"), [("3.69 GiB", "expandable_segments:enable"), ("11.20 MiB", "gpu_memory_utilization:lower")])
def test_unused_pieces_are_used_first_where_no_stage_is_known(unused: str, first: str) -> None:
    text = (
        "OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 MiB. GPU 0 has a total capacty of 23.67 GiB of which 2.25 MiB is free. "
        f"Process 4063 has 23.66 GiB memory in use. Of the allocated memory 19.78 GiB is allocated by PyTorch, and {unused} is reserved by PyTorch but unallocated.\n"
    )
    found = diagnose({"container.log": text})
    assert (found.cause, remedies(found)[0]) == ("gpu_oom", first)
