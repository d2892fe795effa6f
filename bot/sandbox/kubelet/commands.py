"""Answers diagnostic commands from the state of a simulated node, as argv lists. Executes nothing; what it does not know is not found (127)."""

import fnmatch
import time
from collections.abc import Callable, Sequence

from bot.ports import Json
from bot.sandbox.kubelet import kernel, nvidia_smi
from bot.sandbox.kubelet.container import Container
from bot.sandbox.kubelet.machine import Gpu, Machine
from bot.sandbox.kubelet.pod import PodWorker
from bot.units import KIB, quantity

Output = tuple[bytes, bytes, int]

CGROUP = "/sys/fs/cgroup"


def on_node(machine: Machine, argv: Sequence[str]) -> Output:
    """What a command says on the node itself."""
    words, workers = list(argv), list(machine.pods.values())
    if words[:2] == ["sudo", "-n"]:
        words = words[2:]
    if not words:
        return b"", b"", 0
    name, rest = words[0].rpartition("/")[2], words[1:]
    known: dict[str, Callable[[], Output]] = {
        "nvidia-smi": lambda: _nvidia_smi(machine.gpus, rest),
        "dmesg": lambda: _said(kernel.dmesg(machine.kernel, machine.booted, _dmesg_style(rest))),
        "journalctl": lambda: _journal(machine, rest),
        "free": lambda: _said(_free(machine, workers, rest)),
        "cat": lambda: _cat(_node_files(machine, workers), rest),
        "tail": lambda: _tail(_node_files(machine, workers), rest),
        "find": lambda: _find(_node_files(machine, workers), rest),
        "oombot-shm": lambda: _segments(machine, rest),
        **{verb: lambda: _segments(machine, words) for verb in ("segments", "check", "drop")},  # by the account that may drop
        "uptime": lambda: _said(f" {time.strftime('%H:%M:%S')} up {int(time.time() - machine.booted) // 86400} days,  load average: 2.11, 2.04, 1.98\n"),
        "hostname": lambda: _said(f"{machine.name}\n"),
        "uname": lambda: _said("6.8.0-60-generic\n" if "-r" in rest else "Linux\n"),
        "df": lambda: _said("Filesystem     1K-blocks      Used Available Use% Mounted on\n/dev/nvme0n1p1 1887436800 812646400 978844672  46% /\n"),
    }
    return known[name]() if name in known else _unknown(name)


def in_container(machine: Machine, worker: PodWorker, container: str, argv: list[str]) -> Output:
    """What a command says inside a container: its own cards, its own control group, no processes of others."""
    found = worker.find(container)
    if found is None or not argv:
        return b"", b"no such container\n", 126
    name, rest = argv[0].rpartition("/")[2], argv[1:]
    gpus = [machine.gpus[index] for index in worker.cards]
    files = {path.replace(_scope(worker, found), CGROUP): text for path, text in _container_files(worker, found).items()}
    shm = next((size for size in _shm(worker, container)), 64 << 20)
    known: dict[str, Callable[[], Output]] = {
        "nvidia-smi": lambda: _nvidia_smi(gpus, rest) if gpus else _unknown("nvidia-smi"),
        "tail": lambda: _tail(files, rest),
        "cat": lambda: _cat({**files, **_proc(machine, [worker])}, rest),
        "df": lambda: _said(
            f"Filesystem     1K-blocks  Used Available Use% Mounted on\n{'shm' if shm == 64 << 20 else 'tmpfs':14} {shm // KIB:9d} 12288 {shm // KIB - 12288:9d}   1% /dev/shm\n"
        ),
        "free": lambda: _said(_free(machine, [worker], rest)),
        "echo": lambda: _said(" ".join(rest) + "\n"),
        "true": lambda: _said(""),
        "false": lambda: (b"", b"", 1),
        "ls": lambda: (b"", f"ls: cannot access '{rest[-1] if rest else ''}': No such file or directory\n".encode(), 2),
    }
    return known[name]() if name in known else _unknown(name)


def _said(text: str) -> Output:
    return text.encode(), b"", 0


def _unknown(name: str) -> Output:
    return b"", f"bash: line 1: {name}: command not found\n".encode(), 127


def _segments(machine: Machine, rest: Sequence[str]) -> Output:
    """deploy/node/oombot-shm: lists, and takes away what it is told, all or none."""
    free = {one.word(): one for one in machine.segments if not one.held}
    if rest == ["segments"]:
        lines = [
            f"file\t{one.inode}\t{one.size}\t{one.size}\t1767000000.0000000000\t0\troot\t90000\t{'used' if one.held else 'free'}\t{one.name}\n"
            for one in machine.segments
        ]
        sums = f"sum\tfree\t{len(free)}\t{sum(one.size for one in free.values())}\n"
        return _said("".join(lines) + sums)
    gone = {word for word in rest[1:] if word.rpartition(":")[2] not in {one.name for one in machine.segments}} if rest[0] == "drop" else set()
    wrong = next((word for word in rest[1:] if word not in free and word not in gone), "")
    if wrong:
        return b"", f"oombot-shm: {wrong} is not what it was, or somebody holds it\n".encode(), 3
    if rest[0] == "drop":
        machine.segments = [one for one in machine.segments if one.word() not in rest]
    return _said(f"{rest[0]}: {len(rest) - 1}\n")


def _nvidia_smi(gpus: list[Gpu], rest: Sequence[str]) -> Output:
    query = next((word for word in rest if word.startswith("--query-")), "")
    shape = next((word for word in rest if word.startswith("--format=")), "")
    header, units = "noheader" not in shape, "nounits" not in shape
    try:
        if query:
            what, _, fields = query.partition("=")
            show = nvidia_smi.apps if "compute-apps" in what else nvidia_smi.cards
            return _said(show(gpus, fields.split(","), header, units))
    except KeyError as wrong:
        return _said(f"Field {wrong} is not a valid field to query.\n")[0], b"", 2
    if "-L" in rest:
        return _said(nvidia_smi.listed(gpus))
    chosen = [gpu for gpu in gpus if "-i" not in rest or str(gpu.index) == rest[list(rest).index("-i") + 1]]
    return _said(nvidia_smi.memory(chosen) if "-q" in rest else nvidia_smi.table(chosen))


def _dmesg_style(rest: Sequence[str]) -> str:
    return "iso" if "iso" in rest else "ctime" if "-T" in rest or "--ctime" in rest else ""


def _journal(machine: Machine, rest: Sequence[str]) -> Output:
    since = next((rest[at + 1] for at, word in enumerate(rest[:-1]) if word == "--since"), "")
    hours = int(since[1:-1]) if since.startswith("-") and since.endswith("h") and since[1:-1].isdigit() else None
    records = [row for row in machine.kernel if hours is None or row[0] >= time.time() - hours * 3600]
    text = kernel.journal(records, machine.name, iso="short-iso" in rest)
    return _said(text or "-- No entries --\n")


def _free(machine: Machine, workers: Sequence[PodWorker], rest: Sequence[str]) -> str:
    now = time.time()
    used = machine.used_bytes + sum(worker.host_bytes(now) for worker in workers)
    cache = min(machine.memory_bytes - used, machine.memory_bytes // 3)
    divisor = {"-b": 1, "-k": KIB, "-m": KIB**2, "-g": KIB**3}.get(next(iter(rest), "-k"), KIB)
    sizes = [machine.memory_bytes, used, machine.memory_bytes - used - cache, 48 << 20, cache, machine.memory_bytes - used]
    cells = "".join(f"{size // divisor:12d}" for size in sizes)
    head = "".join(f"{name:>12}" for name in ("total", "used", "free", "shared", "buff/cache", "available"))
    return f"{'':7}{head}\n{'Mem:':7}{cells}\n{'Swap:':7}{0:12d}{0:12d}{0:12d}\n"


# ---------------------------------------------------------------- files


def _scope(worker: PodWorker, container: Container) -> str:
    run = container.run
    return CGROUP + kernel.container_scope(worker.uid, run.id if run else "", worker.quality)


def _container_files(worker: PodWorker, container: Container) -> dict[str, str]:
    """The control group's files of a running container (version 2); none once it has ended, as on a real node."""
    run = container.run
    if run is None or not run.running:
        return {}
    limits = (container.spec.get("resources") or {}).get("limits") or {}
    most = int(quantity(limits["memory"])) if "memory" in limits else None
    cpu = f"{int(quantity(limits['cpu']) * 100_000)} 100000" if "cpu" in limits else "max 100000"
    held = run.play.host_bytes(run.age(time.time()))
    peak = max((size for at, size in run.play.host if at <= run.age(time.time())), default=0)
    texts = {
        "memory.max": str(most) if most is not None else "max",
        "memory.current": str(held),
        "memory.peak": str(peak),
        "memory.events": "low 0\nhigh 0\nmax 0\noom 0\noom_kill 0\noom_group_kill 0",
        "memory.stat": f"anon {held * 9 // 10}\nfile {held // 10}\nkernel 31457280\nshmem 12582912",
        "cpu.max": cpu,
        "cpu.stat": "usage_usec 83120457\nuser_usec 71002113\nsystem_usec 12118344\nnr_periods 4210\nnr_throttled 0\nthrottled_usec 0",
    }
    return {f"{_scope(worker, container)}/{name}": text + "\n" for name, text in texts.items()}


def _node_files(machine: Machine, workers: Sequence[PodWorker]) -> dict[str, str]:
    found = _proc(machine, workers)
    for worker in workers:
        for container in worker.containers:
            files = _container_files(worker, container)
            found |= files
            pod = _scope(worker, container).rpartition("/")[0]
            found |= {f"{pod}/{path.rpartition('/')[2]}": text for path, text in files.items()}
    return found


def _proc(machine: Machine, workers: Sequence[PodWorker]) -> dict[str, str]:
    now = time.time()
    up = now - machine.booted
    used = machine.used_bytes + sum(worker.host_bytes(now) for worker in workers)
    sizes = {
        "MemTotal": machine.memory_bytes,
        "MemFree": (machine.memory_bytes - used) // 2,
        "MemAvailable": machine.memory_bytes - used,
        "SwapTotal": 0,
        "SwapFree": 0,
    }
    return {
        "/proc/uptime": f"{up:.2f} {up * machine.cpus * 0.9:.2f}\n",
        "/proc/meminfo": "".join(f"{name + ':':16}{size // KIB:8d} kB\n" for name, size in sizes.items()),
    }


def _cat(files: dict[str, str], paths: Sequence[str]) -> Output:
    wrong = "".join(f"cat: {path}: No such file or directory\n" for path in paths if path not in files)
    return "".join(files.get(path, "") for path in paths).encode(), wrong.encode(), 1 if wrong else 0


def _tail(files: dict[str, str], rest: Sequence[str]) -> Output:
    paths = [word for word in rest if word.startswith("/")]
    wrong = "".join(f"tail: cannot open '{path}' for reading: No such file or directory\n" for path in paths if path not in files)
    return _headed(files, [path for path in paths if path in files]), wrong.encode(), 1 if wrong else 0


def _headed(files: dict[str, str], paths: Sequence[str]) -> bytes:
    return "\n".join(f"==> {path} <==\n{files[path]}" for path in paths).encode()


def _find(files: dict[str, str], rest: Sequence[str]) -> Output:
    """Knows `-path`, `-not -path`, `-name`, `-o` among alternatives, and `-exec tail`: enough for the allow-list."""
    names = [rest[at + 1] for at, word in enumerate(rest) if word == "-name"]
    wanted = [rest[at + 1] for at, word in enumerate(rest) if word == "-path" and rest[at - 1] != "-not"]
    unwanted = [rest[at + 1] for at, word in enumerate(rest) if word == "-path" and rest[at - 1] == "-not"]

    def fits(path: str) -> bool:
        named = not names or any(fnmatch.fnmatchcase(path.rpartition("/")[2], name) for name in names)
        there = not wanted or any(fnmatch.fnmatchcase(path, pattern) for pattern in wanted)
        return named and there and not any(fnmatch.fnmatchcase(path, pattern) for pattern in unwanted)

    found = [path for path in sorted(files) if path.startswith(rest[0] if rest else "/") and fits(path)]
    return _headed(files, found) if "-exec" in rest else "".join(f"{path}\n" for path in found).encode(), b"", 0


def _shm(worker: PodWorker, container: str) -> list[int]:
    """The size of a memory volume at /dev/shm, when there is one."""
    spec = worker.pod["spec"]
    row: Json = next((each for each in spec["containers"] if each["name"] == container), {})
    names = [mount["name"] for mount in row.get("volumeMounts") or [] if mount["mountPath"] == "/dev/shm"]
    volumes = [each.get("emptyDir") or {} for each in spec.get("volumes") or [] if each["name"] in names]
    return [int(quantity(each["sizeLimit"])) if "sizeLimit" in each else worker.machine.memory_bytes // 2 for each in volumes]
