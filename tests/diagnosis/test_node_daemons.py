"""What nvidia-smi, the fabric manager, DCGM, the MIG manager, the device plugin and problem detectors say of a card: what it proves, and how sure that is."""

import json

import pytest

from bot.model import Certainty
from tests.diagnosis.bundles import diagnose
from tests.diagnosis.scenes import event


@pytest.mark.parametrize(
    ("line", "cause", "first"),
    [
        ("NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. Make sure that the latest NVIDIA driver is installed and running.", "gpu_fault", "driver"),
        ("pynvml.NVMLError_ResetRequired: GPU requires reset", "gpu_fault", "drain_node"),
        ("nv-fabricmanager[911]: fabric manager NVIDIA GPU driver interface version 550.54.15 don't match with driver version 550.90.07. Please update with matching NVIDIA driver package.", "gpu_fault", "driver"),
        ("[Jan 14 2026 09:31:07] [ERROR] [tid 841] detected NVSwitch fatal error 20034 on fid 0 on NVSwitch pci bus id 00000000:C5:00.0 physical id 2 port 30", "gpu_fault", "drain_node"),
        ("GPU 3 had uncorrectable memory errors and row remapping failed. Run a field diagnostic on the GPU.", "gpu_fault", "drain_node"),
        ("|                           | GPU 0's NvLink link 3 is currently down", "gpu_fault", "drain_node"),
        ("Error setting MIGConfig: error attempting multiple config orderings: all orderings failed", "application_error", "free_gpu_process"),
        ("E0114 09:31:07.1 1 factory.go:112] If this is a GPU node, did you configure the NVIDIA Container Toolkit?", "application_error", "scheduling"),
        ("A pending retired page has been detected in GPU 2. Monitor - this GPU can still perform workload", "unknown", ""),
        ("nv-fabricmanager[911]: request to query NVSwitch device information from NVSwitch driver failed with error:WARNING Nothing to do [NV_WARN_NOTHING_TO_DO]", "unknown", ""),
    ],
)
def test_line_of_a_daemon_proves_this_and_is_never_certain(line: str, cause: str, first: str) -> None:
    found = diagnose({"container.log": line + "\n"})
    assert (found.cause, found.certainty is Certainty.CERTAIN) == (cause, False)
    assert [each.remedy for each in found.recommendations[:1]] == ([first] if first else [])


def details(*lines: str) -> dict[str, str]:
    return {"nvidia-smi.txt": "\n".join(("==============NVSMI LOG==============", "GPU 00000000:18:00.0", *lines)) + "\n"}


@pytest.mark.parametrize(("asked", "cause"), [("Reset", "gpu_fault"), ("Drain and Reset", "gpu_fault"), ("Reboot", "gpu_fault"), ("None", "unknown"), ("N/A", "unknown")])
def test_card_whose_driver_asks_for_a_reset_is_at_fault(asked: str, cause: str) -> None:
    assert diagnose(details(f"    GPU Recovery Action                   : {asked}")).cause == cause


@pytest.mark.parametrize(
    ("state", "status", "cause"), [("In Progress", "N/A", "gpu_fault"), ("Completed", "Insufficient Resources", "gpu_fault"), ("Completed", "Success", "unknown"), ("N/A", "N/A", "unknown")]
)
def test_card_that_has_not_joined_the_fabric_is_told(state: str, status: str, cause: str) -> None:
    found = diagnose(details("    Fabric", f"        State                             : {state}", f"        Status                            : {status}"))
    assert (found.cause, found.certainty) == (cause, Certainty.POSSIBLE)


@pytest.mark.parametrize(
    ("message", "cause"),
    [("GPU Xid error detected: 79 GPU has fallen off the bus", "gpu_fault"), ("ErrorCode:DCGM_FR_NVLINK_DOWN GPU:0 Recommended Action=RESTART_VM;", "gpu_fault"), ("ErrorCode:DCGM_FR_CLOCK_THROTTLE_THERMAL GPU:0 Recommended Action=NONE;", "unknown")],
)
def test_problem_detectors_word_of_a_card_counts_where_it_asks_for_something(message: str, cause: str) -> None:
    assert diagnose({"events.json": json.dumps({"kind": "List", "items": [event("GpuWatch", message, kind="Node", name="node-a")]})}).cause == cause
