"""Logs and lists that somebody pasted among other outputs: kernel and journal lines, events of a container runtime, a table of Kubernetes events, a pod.

Read only where the command printed a log or is not known: a list of processes shows words that anybody on the machine may choose.
"""

import re
from functools import partial

from bot.evidence import events_text, kernel_log, kubelet_journal, pasted_pods, runtime_events
from bot.evidence.sections import MAX_BYTES, MAX_LINES, Section, sections
from bot.model import Fact

_LOGS = re.compile(
    r"\b(?:dmesg|journalctl|kubectl(?: -n \S+)? (?:get events|events|logs)|(?:docker|podman|nerdctl|ctr)(?: -n \S+)? (?:events|logs|service logs)|systemctl status|"
    r"(?:cat|tail|head|less|more|zcat|z?grep|egrep|rg|awk|sed)\b.{0,200}(?:kern|syslog|messages|\.log|journal)|talosctl)\b"
)

_STARTERS = re.compile(  # what starts a container or a job, or asks a cloud how one ended: a few lines, which say so in the words of a log
    r"^(?:sudo )?(?:(?:docker|podman|nerdctl)(?: compose)? (?:run|start|up)\b|docker-compose up\b|srun\b|sbatch\b|salloc\b|aws (?:ecs|sagemaker|batch|lambda|logs)\b"
    r"|gcloud\b|az (?:container|containerapp|ml)\b|heroku\b|fly(?:ctl)?\b|modal\b|pm2\b|supervisorctl\b)"
)
_FEW = 12


def facts(data: bytes, source: str) -> list[Fact]:
    """`kernel.*` where it tells of anything (what a filter left out was not looked at), `docker.*` of kills, `events.*` of a table, `pod.*` of a pod, and
    `said.<n>`, a line that what started a container or a job printed, or a cloud that was asked how it ended."""
    every = sections(data)
    logs = [section for section in every if not section.command or _LOGS.search(section.command)]
    lines = [line for section in logs for line in section.lines]
    kernel = [fact for fact in kernel_log.read(_only(data, logs), source).facts if fact.name.startswith("kernel.")]
    told = kernel if any(fact.name not in ("kernel.looked", "kernel.kills") for fact in kernel) else []
    pod = pasted_pods.facts(every, partial(_only, data), source)
    said = [line for section in every if len(section.lines) <= _FEW and _STARTERS.match(section.command) for line in section.lines]
    words = [Fact(f"said.{number}", line.text, line.place(source)) for number, line in enumerate(said[:50])]
    return [*told, *pod, *words, *kubelet_journal.facts(lines, source), *runtime_events.facts((line.number, line.text, line.place(source)) for line in lines), *events_text.facts(lines, source)]


def _only(data: bytes, kept: list[Section]) -> bytes:
    """The same text with all other lines empty, so that lines keep their numbers."""
    numbers = {line.number for section in kept for line in section.lines}
    lines = data[:MAX_BYTES].split(b"\n", MAX_LINES)[:MAX_LINES]  # a hostile file has nothing but line feeds
    return b"\n".join(line if number in numbers else b"" for number, line in enumerate(lines, 1))
