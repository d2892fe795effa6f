"""Where the server's container stands in an object of each kind that a person edits, and the way back from a pointer that was bound.

Pure. What each kind's controller does with a change is in `rollouts.py`.
"""

from bot.remediation.canonical import COUNTS
from bot.remediation.pointer import under
from bot.remediation.workload import Shape

NODE = Shape("/spec/none", "/spec/none", "", "/spec/none")  # a node has no template and no containers


ENDPOINT = "ServingEndpoint"  # of a Databricks workspace: all of its configuration is bound, and the served entity stands in the container's place
STRATEGY = "/spec/predictor/deploymentStrategy"


def rolls(pointer: str, template: str) -> bool:
    """Whether a change there makes new pods: it is of the template, and neither a number of replicas nor the strategy (KServe keeps both beside it)."""
    return under(pointer, template) and pointer.rpartition("/")[2] not in COUNTS and not under(pointer, STRATEGY)


def shape_of(kind: str, container: str) -> tuple[int, Shape]:
    """The index in the list of containers and the shape, from the pointer of the container ("/spec/template/spec/containers/0")."""
    if kind == "Node":
        return 0, NODE
    if kind == ENDPOINT:
        return 0, Shape("/spec", "/spec", "", container)
    pod_spec, _, index = container.rpartition("/containers/")
    if not pod_spec:
        return 0, Shape(container.rpartition("/")[0], container.rpartition("/")[0], f"{container.rpartition('/')[0]}/annotations", container)
    if pod_spec.endswith("/spec") and pod_spec != "/spec":  # a template with metadata of its own
        template = pod_spec.removesuffix("/spec")
        return int(index), Shape(template, pod_spec, f"{template}/metadata/annotations")
    annotations = f"{pod_spec}/annotations" if kind == "InferenceService" else ""
    return int(index), Shape(pod_spec, pod_spec, annotations)
