"""Who may do what in the simulated cluster: bearer tokens, and the RBAC objects that stand in the store, judged as the real authoriser judges them."""

import secrets
from collections.abc import Iterator
from dataclasses import dataclass

from bot.ports import Json
from bot.sandbox.cluster.resources import CLUSTER_ROLE_BINDINGS, CLUSTER_ROLES, ROLE_BINDINGS, ROLES
from bot.sandbox.cluster.store import Store

MASTERS = "system:masters"


@dataclass(frozen=True, slots=True)
class User:
    name: str
    groups: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Attempt:
    """One request, as the authoriser sees it."""

    verb: str
    group: str
    plural: str
    namespace: str = ""
    name: str = ""
    subresource: str = ""


def _rule(group: str, *plurals: str, verbs: tuple[str, ...] = ("get", "list")) -> Json:
    return {"apiGroups": [group], "resources": list(plurals), "verbs": list(verbs)}


# What the project's own deploy/rbac gives (a test compares them); that folder is not in an installed wheel, and the demo is.
_WATCH = ("get", "list", "watch")
READER_RULES: list[Json] = [
    _rule("", "pods", "events", "nodes", "namespaces", "limitranges", "resourcequotas", verbs=_WATCH),
    _rule("", "pods/log", verbs=("get",)),
    _rule("", "pods/exec", verbs=("get", "create")),
    _rule("apps", "deployments", "replicasets", "statefulsets", "daemonsets", verbs=_WATCH),
    _rule("batch", "jobs", "cronjobs", verbs=_WATCH),
    _rule("policy", "poddisruptionbudgets", verbs=_WATCH),
    _rule("autoscaling", "horizontalpodautoscalers", verbs=_WATCH),
    _rule("leaderworkerset.x-k8s.io", "leaderworkersets"),
    _rule("serving.kserve.io", "inferenceservices", "llminferenceservices", "servingruntimes"),
    _rule("serving.knative.dev", "services", "configurations", "revisions"),
    _rule("ray.io", "rayclusters", "rayservices", "rayjobs"),
    _rule("argoproj.io", "applications"),
    _rule("kustomize.toolkit.fluxcd.io", "kustomizations"),
    _rule("helm.toolkit.fluxcd.io", "helmreleases"),
    _rule("", "configmaps", verbs=("get",)),
]
REMEDIATOR_RULES: list[Json] = [
    _rule("apps", "deployments", "statefulsets", verbs=("get", "patch")),
    _rule("", "pods", verbs=("get", "list", "delete")),
    {**_rule("", "namespaces", verbs=("get",)), "resourceNames": ["kube-system"]},
    _rule("", "configmaps", verbs=("get", "patch")),
    _rule("apps", "daemonsets", verbs=("get", "patch")),
    _rule("batch", "cronjobs", verbs=("get", "create", "delete")),
    _rule("", "nodes", verbs=("get", "patch")),
    _rule("leaderworkerset.x-k8s.io", "leaderworkersets", verbs=("get", "patch")),
    _rule("ray.io", "rayclusters", "rayservices", verbs=("get", "patch")),
    _rule("serving.kserve.io", "inferenceservices", "llminferenceservices", verbs=("get", "patch")),
]


class Gate:
    """Knows the tokens. A role's token is made at the first asking; "admin" may do everything."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._users: dict[str, User] = {}
        self._tokens: dict[str, str] = {}

    def token(self, role: str) -> str:
        """The bearer token of a role: admin, reader, remediator, or a service account as `namespace:name`."""
        if role not in self._tokens:
            token = secrets.token_urlsafe(24)
            self._tokens[role], self._users[token] = token, user_of(role)
        return self._tokens[role]

    def who(self, authorization: str) -> User | None:
        scheme, _, token = authorization.partition(" ")
        return self._users.get(token.strip()) if scheme.lower() == "bearer" else None

    def allows(self, user: User, attempt: Attempt) -> bool:
        return MASTERS in user.groups or any(_covers(rule, attempt) for rule in self._rules(user, attempt.namespace))

    def _rules(self, user: User, namespace: str) -> Iterator[Json]:
        for binding in self._store.all(CLUSTER_ROLE_BINDINGS):
            if _binds(binding, user):
                yield from self._role_rules(binding, "")
        for binding in self._store.all(ROLE_BINDINGS, namespace) if namespace else ():
            if _binds(binding, user):
                yield from self._role_rules(binding, namespace)

    def _role_rules(self, binding: Json, namespace: str) -> list[Json]:
        ref = binding["roleRef"]
        cluster_wide = ref["kind"] == "ClusterRole"
        role = self._store.find(CLUSTER_ROLES if cluster_wide else ROLES, "" if cluster_wide else namespace, ref["name"])
        return list((role or {}).get("rules") or [])


def user_of(role: str) -> User:
    if role == "admin":
        return User("admin", (MASTERS, "system:authenticated"))
    account = role if ":" in role else f"oombot:oombot-{role}"
    namespace = account.partition(":")[0]
    return User(f"system:serviceaccount:{account}", ("system:serviceaccounts", f"system:serviceaccounts:{namespace}", "system:authenticated"))


def manifests() -> list[Json]:
    """The demo's own RBAC objects."""
    made: list[Json] = []
    for role, rules in (("reader", READER_RULES), ("remediator", REMEDIATOR_RULES)):
        name, api_version = f"oombot-{role}", "rbac.authorization.k8s.io/v1"
        account = {"kind": "ServiceAccount", "namespace": "oombot", "name": name}
        ref = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name}
        made.append({"apiVersion": api_version, "kind": "ClusterRole", "metadata": {"name": name}, "rules": rules})
        made.append({"apiVersion": api_version, "kind": "ClusterRoleBinding", "metadata": {"name": name}, "roleRef": ref, "subjects": [account]})
    return made


def _binds(binding: Json, user: User) -> bool:
    for subject in binding.get("subjects") or []:
        kind, name = subject["kind"], subject["name"]
        if kind == "User" and name == user.name:
            return True
        if kind == "Group" and name in user.groups:
            return True
        if kind == "ServiceAccount" and user.name == f"system:serviceaccount:{subject.get('namespace', '')}:{name}":
            return True
    return False


def _covers(rule: Json, attempt: Attempt) -> bool:
    resource = f"{attempt.plural}/{attempt.subresource}" if attempt.subresource else attempt.plural
    wanted = {"*", resource} | ({f"*/{attempt.subresource}"} if attempt.subresource else set())
    names = rule.get("resourceNames") or []
    return (
        bool({"*", attempt.verb} & set(rule.get("verbs") or []))
        and bool({"*", attempt.group} & set(rule.get("apiGroups") or []))
        and bool(wanted & set(rule.get("resources") or []))
        and (not names or attempt.name in names)
    )
