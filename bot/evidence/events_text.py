"""`kubectl get events` as a table, where somebody pasted it among other outputs. It is turned into the objects that the API server has and read as those, so
that nothing is known here of what they mean; every fact keeps its line. Ages stay out: nobody knows when the text was made.
"""

import re

from bot.evidence import events_json
from bot.evidence.described import Leaf, Tree, relocated, written
from bot.evidence.sections import Line
from bot.model import Fact

MOST = 400
_HEAD = re.compile(r"^(?:NAMESPACE +)?LAST SEEN +TYPE +REASON +OBJECT +(?:SUBOBJECT +)?(?:SOURCE +)?MESSAGE\b")
_ROW = re.compile(
    r"^(?:[a-z0-9-]+ +)?(?P<age>\d\S{0,30}|<unknown>)(?: \(x(?P<times>\d{1,7}) over \S{1,20}\))? +(?P<type>Normal|Warning) +(?P<reason>\S{1,80}) +"
    r"(?P<kind>[a-z]{1,40})/(?P<name>\S{1,253}) +(?P<message>\S.*)$"
)
_KINDS = {"pod": "Pod", "node": "Node"}


def facts(lines: list[Line], source: str) -> list[Fact]:
    """The facts of the tables in these lines; none without a table's head."""
    events: list[Tree] = []
    inside = False
    for line in lines:
        if _HEAD.match(line.text.strip()):
            inside = True
        elif inside and len(events) < MOST and (row := _ROW.match(line.text.strip())):
            events.append(_event(row, line.number))
    if not events:
        return []
    text, origin = written({"items": events})
    by_number = {line.number: line.text for line in lines}
    return [relocated(fact, origin, lambda number: by_number.get(number, "")) for fact in events_json.read(text.encode(), source).facts]


def _event(row: re.Match[str], number: int) -> Tree:
    return {
        "reason": Leaf(row["reason"], number), "message": Leaf(row["message"], number), "count": Leaf(int(row["times"] or 1), number),
        "involvedObject": {"kind": Leaf(_KINDS.get(row["kind"], row["kind"]), number), "name": Leaf(row["name"], number)},
    }  # fmt: skip
