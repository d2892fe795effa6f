"""Who else writes this object: Argo CD, Flux, Helm, or an operator of which it is only a part.

A change in place would be put back by them (or lost at the next release), so the planner hands out a patch for their source instead.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from bot.model import Remediation, StepKind, Text
from bot.ports import ClusterReader
from bot.remediation.bound import read
from bot.remediation.workload import controller_of, metadata


@dataclass(frozen=True, slots=True)
class Owner:
    """`kind`: argocd | flux | helm | controller. `name` is the Application, Kustomization, release or owning object."""

    kind: str
    name: str
    reverts: bool  # whether it puts a change back by itself, rather than at the next release

    @property
    def says(self) -> Text:
        return _SAYS[self.kind](self.name)

    @property
    def called(self) -> str:
        """The keeper by its name, for a refusal."""
        return f"{_CALLED[self.kind]}{self.name}"

    def forbids(self, *, in_place: bool) -> bool:
        """Whether its object is left alone. `in_place`: policy allows a change; what an operator made of its own object is put back at once all the same."""
        return not in_place or self.kind == "controller"


_CALLED = {"argocd": "Argo CD ", "flux": "Flux ", "helm": "Helm release ", "controller": ""}


_SAYS = {
    "argocd": lambda name: Text(
        f"Argo CD ({name}) keeps this object as it stands in Git and would put a change in place back. Change it in Git.",
        f"该对象由 Argo CD（{name}）按 Git 维护，直接修改会被还原。请在 Git 里修改。",
    ),
    "flux": lambda name: Text(
        f"Flux ({name}) keeps this object as it stands in Git and would put a change in place back. Change it in Git.",
        f"该对象由 Flux（{name}）按 Git 维护，直接修改会被还原。请在 Git 里修改。",
    ),
    "helm": lambda name: Text(
        f"The Helm release {name} made this object; the next upgrade would undo a change in place. Change the release's values (helm get values {name}).",
        f"该对象由 Helm release {name} 创建，下次升级会覆盖直接修改。请修改该 release 的 values（helm get values {name}）。",
    ),
    "controller": lambda name: Text(
        f"{name} made this object and would put a change in place back. Change it there.",
        f"该对象由 {name} 创建，直接修改会被还原。请在那里修改。",
    ),
}


def keeper(remediation: Remediation, reader: ClusterReader, *, in_place: bool) -> str:
    """Who keeps what a plan changes, now, where it is therefore left alone; "" where nothing stands against it. A plain restart changes nothing that anybody
    keeps, and an undo puts back what they had. Raises NotFound, Forbidden, Temporary."""
    patched = dict.fromkeys(step.object for step in remediation.steps if step.kind is StepKind.PATCH)
    if remediation.direction == "undo" or (not remediation.before and set(patched) <= {remediation.object}):
        return ""
    found = (owner(read(ref, reader)) for ref in patched if ref.kind != "Node")
    return next((one.called for one in found if one is not None and one.forbids(in_place=in_place)), "")


def owner(body: Mapping[str, Any]) -> Owner | None:
    """The strongest owner that the object's metadata shows."""
    controller = controller_of(body)
    if controller is not None:
        return Owner("controller", f"{controller.get('kind', 'object')} {controller.get('name', '')}", reverts=True)
    meta = metadata(body)
    labels, annotations = meta.get("labels") or {}, meta.get("annotations") or {}
    return _argocd(labels, annotations, body) or _flux(labels, body) or _helm(labels, annotations, body)


def _argocd(labels: Mapping[str, str], annotations: Mapping[str, str], body: Mapping[str, Any]) -> Owner | None:
    tracked = annotations.get("argocd.argoproj.io/tracking-id", "").partition(":")[0] or labels.get("argocd.argoproj.io/instance", "")
    if tracked:
        return Owner("argocd", tracked, reverts=True)
    if _managed_by(body, "argocd"):
        return Owner("argocd", labels.get("app.kubernetes.io/instance", "application"), reverts=True)
    return None


def _flux(labels: Mapping[str, str], body: Mapping[str, Any]) -> Owner | None:
    for prefix, kind in (("kustomize.toolkit.fluxcd.io", "Kustomization"), ("helm.toolkit.fluxcd.io", "HelmRelease")):
        name = labels.get(f"{prefix}/name")
        if name:
            return Owner("flux", f"{kind} {labels.get(f'{prefix}/namespace', '')}/{name}".replace(" /", " "), reverts=True)
    if _managed_by(body, "kustomize-controller") or _managed_by(body, "helm-controller"):
        return Owner("flux", "managed fields", reverts=True)
    return None


def _helm(labels: Mapping[str, str], annotations: Mapping[str, str], body: Mapping[str, Any]) -> Owner | None:
    release = annotations.get("meta.helm.sh/release-name", "")
    if release:
        return Owner("helm", release, reverts=False)
    if labels.get("app.kubernetes.io/managed-by") == "Helm" or _managed_by(body, "helm"):
        return Owner("helm", labels.get("app.kubernetes.io/instance", metadata(body).get("name", "")), reverts=False)
    return None


def _managed_by(body: Mapping[str, Any], manager: str) -> bool:
    """Whether a tool of that name has written the object itself (not only its status)."""
    entries = metadata(body).get("managedFields") or []
    return any(str(one.get("manager", "")).startswith(manager) and not one.get("subresource") for one in entries)
