"""`playbooks/metrics/<id>.yaml`: which metric shows that a cause was bad and a remedy helped, as PromQL with the pods left open. Reads and checks the files, asks nobody.

A query is a template of four names: `$container` (labels namespace, pod, container), `$pod` (namespace, pod), `$exported` (the same under the names that
exporters give them which keep their own) and `$window`. Values are escaped here, so that no name of a pod can end a matcher.
"""

import functools
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from string import Template
from typing import Any

import yaml

from bot.errors import KnowledgeError
from bot.model import Text

UNITS = ("share", "bytes", "count", "per_minute")
NAMES = ("container", "pod", "exported", "window")
_KEYS = ("metric", "says", "unit", "bad_above", "causes", "remedies", "queries", "gone")
_ID = re.compile(r"[a-z][a-z0-9_]{2,40}")


@dataclass(frozen=True, slots=True)
class Metric:
    """Less of it is better. `queries`: the first that has an answer counts (names change between versions). `bad_above`: a value up to there is nothing to mend.
    `gone`: what it means when it was there before and is not any more."""

    id: str
    says: Text
    unit: str
    bad_above: float
    causes: tuple[str, ...]
    remedies: tuple[str, ...]
    queries: tuple[str, ...]
    gone: Text | None = None


@dataclass(frozen=True, slots=True)
class Pods:
    """Whose metric it is. `labels` stand in every matcher besides: those that tell clusters apart on a server for several."""

    namespace: str
    names: Sequence[str]
    container: str
    labels: Mapping[str, str]


def folder() -> Path:
    """`playbooks/metrics` beside the `bot` package, in a checkout and in an installed wheel alike."""
    return Path(__file__).resolve().parents[2] / "playbooks" / "metrics"


@functools.cache
def load(where: Path | None = None) -> Mapping[str, Metric]:
    """All metrics by id. Raises KnowledgeError with every mistake."""
    found, wrong = read(where or folder())
    if wrong:
        raise KnowledgeError(wrong)
    return found


def meant(cause: str, remedy: str, known: Mapping[str, Metric]) -> tuple[Metric, ...]:
    """Those that say something of this cause, then those of this remedy ("max_num_seqs:lower")."""
    found = [one for one in known.values() if cause in one.causes or remedy in one.remedies]
    return tuple(sorted(found, key=lambda one: cause not in one.causes))


def filled(query: str, pods: Pods, window_s: float) -> str:
    """The query for these pods over that time."""
    whose = {"namespace": _exact(pods.namespace), "pod": _any_of(pods.names)}
    more = {name: _exact(value) for name, value in pods.labels.items()}
    container = {"container": _exact(pods.container)} if pods.container else {"container": '!=""'}  # cAdvisor's row without one is the whole pod
    exported = {f"exported_{name}": value for name, value in whose.items()}
    matchers = {"container": {**whose, **container, **more}, "pod": {**whose, **more}, "exported": {**exported, **more}}
    texts = {name: ",".join(f"{label}{matcher}" for label, matcher in one.items()) for name, one in matchers.items()}
    return Template(query).substitute(texts, window=f"{max(1, round(window_s))}s")


def _exact(value: str) -> str:
    return f'="{_quoted(value)}"'


def _any_of(values: Sequence[str]) -> str:
    return f'=~"{_quoted("|".join(map(_literal, values)))}"'


def _literal(value: str) -> str:
    """As a regular expression that fits only itself; matchers are anchored at both ends."""
    return re.sub(r"([^A-Za-z0-9_-])", r"\\\1", value)


def _quoted(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


# ---------------------------------------------------------------- the files


def read(where: Path) -> tuple[dict[str, Metric], list[str]]:
    """All metrics of a folder and all mistakes, each `file:line: what`."""
    found: dict[str, Metric] = {}
    wrong: list[str] = []
    for path in sorted(where.glob("*.yaml")):
        try:
            body = yaml.safe_load(path.read_text(encoding="utf-8"))
        except yaml.YAMLError as broken:
            mark = getattr(broken, "problem_mark", None)
            wrong.append(f"{path}:{mark.line + 1 if mark else 1}: not YAML")
            continue
        mistakes = list(_mistakes(body, path.stem))
        wrong += [f"{path}:1: {one}" for one in mistakes]
        if not mistakes:
            found[path.stem] = _metric(body)
    return found, wrong


def mistakes(where: Path, causes: Collection[str] = (), remedies: Collection[str] = ()) -> list[str]:
    """For `oombot lint`: every mistake under `playbooks/metrics`, and every cause or remedy that is none, if those are given."""
    found, wrong = read(where)
    for name, metric in found.items():
        wrong += [f"{where / name}.yaml:1: no cause is called {one}" for one in metric.causes if causes and one not in causes]
        wrong += [f"{where / name}.yaml:1: no remedy is called {one}" for one in metric.remedies if remedies and one not in remedies]
    return wrong


def _metric(body: Mapping[str, Any]) -> Metric:
    gone = Text(body["gone"]["en"], body["gone"]["zh"]) if "gone" in body else None
    says = Text(body["says"]["en"], body["says"]["zh"])
    lists = (tuple(body.get("causes") or ()), tuple(body.get("remedies") or ()), tuple(body["queries"]))
    return Metric(body["metric"], says, body["unit"], float(body["bad_above"]), *lists, gone)


def _mistakes(body: Any, stem: str) -> Iterator[str]:
    if not isinstance(body, Mapping):
        yield "a metric is a mapping"
        return
    for name in body:
        if name not in _KEYS:
            yield f"unknown key {name}; one of: {', '.join(_KEYS)}"
    if body.get("metric") != stem or not _ID.fullmatch(stem):
        yield "`metric` is the name of the file, in small letters"
    if body.get("unit") not in UNITS:
        yield f"`unit` is one of: {', '.join(UNITS)}"
    if isinstance(body.get("bad_above"), bool) or not isinstance(body.get("bad_above"), int | float):
        yield "`bad_above` is a number: a value up to there is nothing to mend"
    for name in ("says", "gone"):
        if (name in body or name == "says") and not _is_text(body.get(name)):
            yield f"`{name}` has the texts `en` and `zh`"
    for name in ("causes", "remedies", "queries"):
        if name in body and not _are_words(body[name]):
            yield f"`{name}` is a list of texts"
    if not body.get("causes") and not body.get("remedies"):
        yield "it belongs to no cause and to no remedy"
    yield from _query_mistakes(body.get("queries"))


def _is_text(value: Any) -> bool:
    return isinstance(value, Mapping) and set(value) == {"en", "zh"} and all(isinstance(one, str) and one for one in value.values())


def _are_words(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(one, str) for one in value)


def _query_mistakes(queries: Any) -> Iterator[str]:
    if not queries:
        yield "it has no `queries`"
    for query in queries if isinstance(queries, list) else []:
        if not isinstance(query, str):
            continue
        used = set(Template(query).get_identifiers())
        if unknown := sorted(used - set(NAMES)):
            yield f"${unknown[0]} is none of: {', '.join(NAMES)}"
        if not used - {"window"}:
            yield "a query names neither $container nor $pod nor $exported: it would ask about everybody's pods"
        if not re.match(r"(sum|max|avg|min)\b(?! *by)", query):
            yield "a query begins with sum, max, min or avg over all its rows, so that there is one answer"
