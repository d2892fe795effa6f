"""A pod that somebody pasted among other outputs: what `kubectl describe pod` and `kubectl get pod NAME -o json` printed, or the sentence of its status.
Read by the readers of the objects themselves; knows nothing of what they mean. Lists of several pods are no pod of ours and stay unread here.
"""

import re
from collections.abc import Callable

from bot.evidence import describe_text, pod_json
from bot.evidence.sections import Section
from bot.model import Fact

_DESCRIBE = re.compile(r"\b(?:kubectl|oc)\b.{0,200}\bdescribe\b.{0,200}\bpo(?:ds?)?\b")
_GET = re.compile(r"\b(?:kubectl|oc)\b.{0,200}\bget\b.{0,100}\bpo(?:ds?)?(?:/| +(?:-n +\S+ +)?)[a-z0-9][a-z0-9.-]{0,252}\b(?! *=)")
_EVICTED = re.compile(r"\b(The node was low on resource: .*|Pod ephemeral local storage usage exceeds .*|Usage of EmptyDir volume .*|.{0,80}exceeds its local ephemeral storage .*)")


def facts(every: list[Section], only: Callable[[list[Section]], bytes], source: str) -> list[Fact]:
    """Facts of the first pod; `only` gives the file with all lines but those of some sections empty, so that lines keep their numbers."""
    for section in every:
        text = "\n".join(line.text for line in section.lines)
        if _DESCRIBE.search(section.command) or (not section.command and describe_text.looks_like(text.encode())):
            found = describe_text.read(only([section]), source).facts
        elif _GET.search(section.command) and text.lstrip().startswith("{") and '"kind": "Pod"' in text:
            found = pod_json.read(only([section]), source).facts
        elif _GET.search(section.command):
            found = _status(section, source)
        else:
            found = ()
        if found:
            return list(found)
    return []


def _status(section: Section, source: str) -> tuple[Fact, ...]:
    """The sentence of a status that was asked for alone."""
    for line in section.lines:
        told = _EVICTED.search(line.text)
        if told:
            return (Fact("pod.evicted", pod_json.eviction(told[1]), line.place(source)),)
    return ()
