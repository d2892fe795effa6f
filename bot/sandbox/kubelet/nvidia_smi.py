"""What nvidia-smi prints of a node's cards, in the formats of driver 570."""

import time

from bot.sandbox.kubelet.machine import Gpu, GpuProcess
from bot.units import MIB

DRIVER, CUDA = "570.172.08", "12.8"
_RULE = "+-----------------------------------------------------------------------------------------+"
_COLUMNS = "|-----------------------------------------+------------------------+----------------------+"


def used_mib(gpu: Gpu) -> int:
    """Memory in use as the board counts it; an idle card holds a little for itself."""
    return min(gpu.board_mib - reserved_mib(gpu), 4 + sum(process.used_bytes // MIB for process in gpu.processes()))


def reserved_mib(gpu: Gpu) -> int:
    """What the driver keeps: the board's memory less what CUDA reports."""
    return gpu.board_mib - gpu.total_bytes // MIB


def listed(gpus: list[Gpu]) -> str:
    return "".join(f"GPU {gpu.index}: {gpu.name} (UUID: {gpu.uuid})\n" for gpu in gpus) or "No devices found.\n"


def table(gpus: list[Gpu]) -> str:
    """The table that `nvidia-smi` alone prints."""
    rows = [time.strftime("%a %b %e %H:%M:%S %Y"), _RULE, f"| NVIDIA-SMI {DRIVER:22} Driver Version: {DRIVER:14} CUDA Version: {CUDA:9}|", _COLUMNS]
    rows += ["| GPU  Name                 Persistence-M | Bus-Id          Disp.A | Volatile Uncorr. ECC |",
             "| Fan  Temp   Perf          Pwr:Usage/Cap |           Memory-Usage | GPU-Util  Compute M. |",
             "|                                         |                        |               MIG M. |",
             "|=========================================+========================+======================|"]  # fmt: skip
    for gpu in gpus:
        busy = bool(gpu.processes())
        memory = f"{used_mib(gpu):7d}MiB / {gpu.board_mib:6d}MiB"
        rows += [f"| {gpu.index:3d}  {gpu.name[:23]:23}    On  |   {_bus(gpu)} Off |                    0 |",
                 f"| N/A   {43 if busy else 31}C    P{0 if busy else 8}            {' 96' if busy else ' 32'}W /  350W |{memory:>23} | {'    41%' if busy else '     0%'}      Default |",
                 "|                                         |                        |                  N/A |", _COLUMNS.replace("|-", "+-", 1)]  # fmt: skip
    rows += ["", _RULE, "| Processes:                                                                              |",
             "|  GPU   GI   CI              PID   Type   Process name                        GPU Memory |",
             "|        ID   ID                                                               Usage      |",
             "|=========================================================================================|"]  # fmt: skip
    found = [(gpu, process) for gpu in gpus for process in gpu.processes()]
    rows += [f"|  {gpu.index:3d}   N/A  N/A   {process.pid:14d}      C   {_name(process)[:33]:33}{process.used_bytes // MIB:8d}MiB |" for gpu, process in found]
    rows += ["|  No running processes found                                                             |"] * (not found)
    return "\n".join([*rows, _RULE]) + "\n"


def memory(gpus: list[Gpu]) -> str:
    """`nvidia-smi -q -d MEMORY`."""
    rows = ["", "==============NVSMI LOG==============", "", f"Timestamp                                 : {time.strftime('%a %b %e %H:%M:%S %Y')}",
            f"Driver Version                            : {DRIVER}", f"CUDA Version                              : {CUDA}", "", f"Attached GPUs                             : {len(gpus)}"]  # fmt: skip
    for gpu in gpus:
        used, reserved = used_mib(gpu), reserved_mib(gpu)
        rows += [f"GPU {_bus(gpu)}", "    FB Memory Usage", f"        Total                             : {gpu.board_mib} MiB", f"        Reserved                          : {reserved} MiB",
                 f"        Used                              : {used} MiB", f"        Free                              : {gpu.board_mib - reserved - used} MiB",
                 "    BAR1 Memory Usage", "        Total                             : 65536 MiB", "        Used                              : 4 MiB",
                 "        Free                              : 65532 MiB", "    Conf Compute Protected Memory Usage", "        Total                             : 0 MiB",
                 "        Used                              : 0 MiB", "        Free                              : 0 MiB", ""]  # fmt: skip
    return "\n".join(rows) + "\n"


def apps(gpus: list[Gpu], fields: list[str], header: bool, units: bool) -> str:
    """`--query-compute-apps=...`."""
    known = {"gpu_uuid": "gpu_uuid", "pid": "pid", "process_name": "process_name", "name": "process_name", "used_memory": "used_gpu_memory [MiB]",
             "used_gpu_memory": "used_gpu_memory [MiB]", "gpu_name": "gpu_name", "gpu_bus_id": "gpu_bus_id"}  # fmt: skip
    if any(field not in known for field in fields):
        raise KeyError(next(field for field in fields if field not in known))
    rows = [", ".join(known[field] for field in fields)] if header else []
    for gpu in gpus:
        for process in gpu.processes():
            size = f"{process.used_bytes // MIB}{' MiB' if units else ''}"
            has = {"gpu_uuid": gpu.uuid, "pid": str(process.pid), "process_name": _name(process), "name": _name(process), "used_memory": size, "used_gpu_memory": size,
                   "gpu_name": gpu.name, "gpu_bus_id": _bus(gpu)}  # fmt: skip
            rows.append(", ".join(has[field] for field in fields))
    return "".join(f"{row}\n" for row in rows)


def cards(gpus: list[Gpu], fields: list[str], header: bool, units: bool) -> str:
    """`--query-gpu=...`."""
    rows = [", ".join(f"{field} [MiB]" if field.startswith("memory.") and units else field for field in fields)] if header else []
    unit = " MiB" if units else ""
    for gpu in gpus:
        used, reserved = used_mib(gpu), reserved_mib(gpu)
        has = {"index": str(gpu.index), "name": gpu.name, "gpu_name": gpu.name, "uuid": gpu.uuid, "gpu_uuid": gpu.uuid, "driver_version": DRIVER, "pci.bus_id": _bus(gpu),
               "memory.total": f"{gpu.board_mib}{unit}", "memory.used": f"{used}{unit}", "memory.reserved": f"{reserved}{unit}",
               "memory.free": f"{gpu.board_mib - reserved - used}{unit}", "utilization.gpu": f"{41 if gpu.processes() else 0}{' %' if units else ''}", "mig.mode.current": "Disabled"}  # fmt: skip
        rows.append(", ".join(has[field] for field in fields))
    return "".join(f"{row}\n" for row in rows)


def _bus(gpu: Gpu) -> str:
    return f"00000000:{0x17 + 0x22 * gpu.index:02X}:00.0"


def _name(process: GpuProcess) -> str:
    return process.name.rstrip("\0") if process.name else "python3"
