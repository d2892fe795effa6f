"""`endpoint.json`: a Databricks serving endpoint as an object - whether it serves, how its update went, and what the served entity that failed was given.

Facts: `endpoint.<name>`, and `env.<NAME>` of that entity. A failed update stands beside a configuration that goes on serving: both are said.
"""

from bot.evidence.args_text import from_environment
from bot.evidence.document import Document, Node
from bot.evidence.reading import Reading
from bot.model import Fact, Gap, Value

_WOULD_TELL = "the state and the configuration of the endpoint"
_WORST = ("DEPLOYMENT_FAILED", "DEPLOYMENT_ABORTED", "DEPLOYMENT_RECOVERING", "DEPLOYMENT_CREATING")


def read(data: bytes, source: str) -> Reading:
    """Facts of the endpoint and of its worst served entity."""
    document = Document(data, source)
    root, found = document.root, list[Fact]()
    gaps = () if document.complete else (Gap(source, "damaged or cut", _WOULD_TELL),)

    def add(name: str, value: Value | None, where: Node) -> None:
        if value not in (None, ""):
            found.append(Fact(f"endpoint.{name}", value, document.place(where)))

    state = root.at("status", "state")
    add("name", root.text("metadata", "name"), root.at("metadata", "name"))
    add("ready", state.text("ready") == "READY" if state.text("ready") else None, state.at("ready"))
    add("update", state.text("config_update"), state.at("config_update"))
    worst = min(root.each("status", "entities"), key=_badness, default=Node())
    add("deployment", worst.text("state", "deployment"), worst.at("state", "deployment"))
    add("message", worst.text("state", "deployment_state_message"), worst.at("state", "deployment_state_message"))
    said = worst.at("state", "deployment_state_message")
    add("scaled_to_zero", said.text().strip().lower() == "scaled to zero" if said else None, said)
    entity = next((one for one in root.each("spec", "served_entities") if one.text("name") == worst.text("name")), Node())
    for name in ("workload_type", "workload_size"):
        add(name, entity.text(name), entity.at(name))
    add("scale_to_zero", entity.flag("scale_to_zero_enabled"), entity.at("scale_to_zero_enabled"))
    variables = entity.at("environment_vars")
    pairs = tuple(f"{name}={value.text()}" for name, value in entity.items("environment_vars") if value.text())
    found += from_environment(pairs, document.place(variables)) if pairs else ()
    return Reading(
        tuple(found), ("endpoint.",) if document.complete and found else (), gaps or (() if found else (Gap(source, "no endpoint in it", _WOULD_TELL),))
    )


def _badness(entity: Node) -> int:
    deployment = entity.text("state", "deployment")
    return _WORST.index(deployment) if deployment in _WORST else len(_WORST)
