"""Probes of a Databricks serving endpoint: its state and configuration, and the logs of its served entities. Reads only; there are no pods, nodes or kernels to ask.

Values of variables that are not the server's are covered: on this platform a variable may hold a secret in plain text, whatever it is called.
"""

import re
from collections.abc import Callable

from bot.errors import NotFound, WorldError
from bot.evidence.probe import Desk, reason_of
from bot.model import Target
from bot.ports import ClusterReader, Json

KIND, VERSION = "ServingEndpoint", "databricks/2.0"
COVERED = "[not shown]"
MAX_ENTITIES = 15
NOT_THERE = "Databricks model serving does not show it"
ELSEWHERE = ("pod.json", "events.json", "kernel.log", "nvidia-smi.txt", "node_readings.txt", "node.json", "workload.json", "args.txt")
SERVERS = re.compile(r"(?:VLLM|PYTORCH|NCCL|CUDA|TORCH|OMP|MAX_JOBS|HF_HOME|TRANSFORMERS_CACHE)[A-Z0-9_]*")
_SECRET = re.compile(r"TOKEN|KEY|SECRET|PASS|CREDENTIAL|AUTH", re.IGNORECASE)


def is_endpoint(target: Target) -> bool:
    return target.workload is not None and target.workload.kind == KIND


def failing(body: Json) -> str:
    """The served entity to look at: one that failed, else one that is not ready, else the first."""
    entities = [(str((one.get("state") or {}).get("deployment", "")), str(one.get("name") or "")) for one in (body.get("status") or {}).get("entities") or ()]
    order = ("DEPLOYMENT_FAILED", "DEPLOYMENT_ABORTED", "DEPLOYMENT_RECOVERING", "DEPLOYMENT_CREATING")
    return min(entities, key=lambda one: order.index(one[0]) if one[0] in order else len(order), default=("", ""))[1]


def covered(body: Json) -> Json:
    """The object without the values of variables that are not the server's own."""
    spec = dict(body.get("spec") or {})
    spec["served_entities"] = [_covered(one) for one in spec.get("served_entities") or ()]
    return {**body, "spec": spec}


def _covered(entity: Json) -> Json:
    if not entity.get("environment_vars"):
        return entity
    return {**entity, "environment_vars": {name: value if is_the_servers(name) else COVERED for name, value in entity["environment_vars"].items()}}


def is_the_servers(variable: str) -> bool:
    """Whether the variable is one of the server's own, which holds no secret."""
    return bool(SERVERS.fullmatch(variable)) and not _SECRET.search(variable)


def probes(target: Target, reader: ClusterReader, desk: Desk) -> list[tuple[str, tuple[str, ...], Callable[[], str]]]:
    """(progress line, files, work): the object first, then the logs, which need its entities."""
    for name in ELSEWHERE:
        desk.none(name, NOT_THERE)
    return [("endpoint", ("endpoint.json", "container.log"), lambda: _read(target, reader, desk))]


def _read(target: Target, reader: ClusterReader, desk: Desk) -> str:
    seen = target.workload
    if seen is None:
        return ""
    body = reader.get(VERSION, KIND, "", seen.name)
    if seen.uid and body["metadata"]["uid"] != seen.uid:
        desk.gap("endpoint.json", "the endpoint was replaced by another of the same name meanwhile")
        return "replaced"
    desk.put_json("endpoint.json", covered(body))
    names = [str(one.get("name") or "") for one in body["status"]["entities"]][:MAX_ENTITIES]
    server = target.container if target.container in names else failing(body)
    for name in names:
        _log(seen.name, name, "container.log" if name == server else f"logs/{_file(name)}.log", reader, desk)
        _log(seen.name, name, f"logs/{_file(name)}.build.log", reader, desk, build=True)
    return str(body["status"]["state"].get("ready") or "")


def _log(endpoint: str, entity: str, file: str, reader: ClusterReader, desk: Desk, *, build: bool = False) -> None:
    try:
        piece = reader.log("", endpoint, entity, previous=build)
    except NotFound as wrong:
        desk.none(file, str(wrong))
    except WorldError as wrong:
        desk.gap(file, reason_of(wrong), "how the model's container was built" if build else f"what the served entity {entity} printed")
    else:
        if piece.data.strip():
            desk.put(file, piece.data, cut=piece.cut_end or (piece.cut_start and not build))
        else:
            desk.none(file, "the log is empty")


def _file(entity: str) -> str:
    """The name of an entity as a part of a file's name."""
    return re.sub(r"[^A-Za-z0-9._-]", "_", entity).lstrip(".")[:80] or "entity"
