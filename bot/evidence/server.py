"""Which container of a pod is the inference server, and with which words it was started. Reads pods as plain JSON; asks nobody.

A container may be named by a person; else the likeliest one is taken: its command, image, GPUs and port are looked at, and sidecars
that everybody knows are passed over. It will not say what the arguments mean (`bot/evidence/args_text.py`).
"""

import re
import shlex
from collections.abc import Mapping, Sequence

from bot.errors import BadInput
from bot.ports import Json

_COMMAND = re.compile(
    r"\bvllm\b|vllm\.entrypoints|sglang|text-generation-launcher|tritonserver|trtllm-serve|lmdeploy|llama-server|huggingfaceserver|ray\s+start|serve\s+run",
    re.IGNORECASE,
)
_IMAGE = re.compile(
    r"vllm|sglang|text-generation-inference|tritonserver|tensorrt.?llm|lmdeploy|llama\.cpp|huggingfaceserver|ray-llm|rayproject|llm-d|aphrodite|kserve",
    re.IGNORECASE,
)
_SIDECAR = re.compile(
    r"istio|envoy|linkerd|fluent|filebeat|promtail|vector|otel|opentelemetry|queue-proxy|sidecar|exporter|vault|oauth2?-proxy|kube-rbac-proxy|jaeger|datadog|router|"
    r"gateway|routing-proxy|autoscaler|pause|log-?(?:agent|tail|shipper)|nginx",
    re.IGNORECASE,
)
_GPU = re.compile(r"(?:^|[./])(?:gpu|mig-[0-9a-z.]+|npu|hpu|neuron|neuroncore|xpu)$", re.IGNORECASE)
_NAMES = frozenset({"vllm", "server", "model", "main", "engine", "kserve-container", "inference", "llm", "worker-container", "ray-worker", "ray-head"})
_PORTS = frozenset({8000, 8080, 30000, 8001, 5000})
_REFERENCE = re.compile(r"\$\$|\$\(([A-Za-z_][A-Za-z0-9_.-]*)\)")


def server_container(pod: Json, named: str | None = None) -> str:
    """The name of the server's container. Raises BadInput when a person named one that the pod does not have; "" for a pod without any."""
    spec = pod.get("spec") or {}
    containers: list[Json] = [*(spec.get("containers") or ())]
    if named:
        every = [str(each.get("name")) for each in (*containers, *(spec.get("initContainers") or ()), *(spec.get("ephemeralContainers") or ()))]
        if named not in every:
            raise BadInput(f"{pod['metadata']['namespace']}/{pod['metadata']['name']} has no container {named!r}; it has: {', '.join(every)}")
        return named
    default = ((pod.get("metadata") or {}).get("annotations") or {}).get("kubectl.kubernetes.io/default-container")
    # max() keeps the first of equals: the order in the pod decides then.
    best = max(containers, key=lambda each: _likeness(each) + (1 if each.get("name") == default else 0), default=None)
    return str(best.get("name", "")) if best else ""


def _likeness(container: Json) -> int:
    words = " ".join([*map(str, container.get("command") or ()), *map(str, container.get("args") or ())])
    image, name = str(container.get("image", "")), str(container.get("name", ""))
    score = 16 if gpus(container) else 0
    score += 8 if _COMMAND.search(words) else 0
    score += 4 if _IMAGE.search(image.rsplit("/", 1)[-1]) or _IMAGE.search(image) else 0
    score += 2 if name.lower() in _NAMES else 0
    score += 1 if any(port.get("containerPort") in _PORTS for port in container.get("ports") or ()) else 0
    return score - (12 if _SIDECAR.search(name) or _SIDECAR.search(image.rsplit("/", 1)[-1]) else 0)


def gpus(container: Json) -> int:
    """How many GPUs (or MIG slices) a container asks for."""
    resources = container.get("resources") or {}
    wanted: Mapping[str, object] = {**(resources.get("requests") or {}), **(resources.get("limits") or {})}
    return sum(int(str(value)) for name, value in wanted.items() if _GPU.search(name) and str(value).isdigit())


def container_of(pod: Json, name: str) -> Json:
    """The container's part of the specification, init containers too; {} when there is none."""
    spec = pod.get("spec") or {}
    every: Sequence[Json] = [*(spec.get("containers") or ()), *(spec.get("initContainers") or ()), *(spec.get("ephemeralContainers") or ())]
    return next((each for each in every if each.get("name") == name), {})


def args_text(container: Json) -> str:
    """The server's environment and command line as a person would type them: `NAME=value` lines, then the command with `$(NAME)` filled in."""
    environment = {str(each.get("name")): str(each["value"]) for each in container.get("env") or () if each.get("value") is not None}
    words = [fill(str(word), environment) for word in (*(container.get("command") or ()), *(container.get("args") or ()))]
    # One line each: a line feed in a value must not look like another line.
    lines = [f"{name}={shlex.quote(' '.join(value.split())) if value else ''}" for name, value in environment.items()]
    return "\n".join([*lines, shlex.join(words)]) + "\n" if words or lines else ""


def fill(word: str, environment: Mapping[str, str]) -> str:
    """Kubernetes' own expansion: `$(NAME)` where the name is known, `$$` for a dollar."""
    return _REFERENCE.sub(lambda found: "$" if found[0] == "$$" else environment.get(found[1], found[0]), word)
