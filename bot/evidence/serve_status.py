"""`serve status` (YAML) as it stands in `ray_status.txt`: how Ray Serve's applications are. The errors that its messages quote are read as a log elsewhere.

Facts: `ray_status.serve` (the worst application's status), `ray_status.serve_starting` (replicas that have not started).
"""

import re

from bot.evidence.sections import Line
from bot.model import Fact

_STATUS = re.compile(r"^( {1,12})status: ['\"]?(NOT_STARTED|DEPLOYING|DEPLOY_FAILED|RUNNING|UNHEALTHY|DELETING)['\"]?$")
_STARTING = re.compile(r"^ {1,16}STARTING: (\d{1,6})$")
_WORST = ("DEPLOY_FAILED", "UNHEALTHY", "NOT_STARTED", "DEPLOYING", "DELETING", "RUNNING")


def facts(lines: list[Line], source: str) -> list[Fact]:
    """Facts of the applications below `applications:`; none where there is no such list. An application's own status is the least indented one."""
    start = next((index for index, line in enumerate(lines) if line.text.rstrip() == "applications:"), None)
    if start is None:
        return []
    found = [(len(match[1]), match[2], line) for line in lines[start:] if (match := _STATUS.match(line.text.rstrip()))]
    outer = [(status, line) for indent, status, line in found if indent == min(indent for indent, _, _ in found)]
    made = []
    if outer:
        status, line = min(outer, key=lambda pair: _WORST.index(pair[0]))
        made.append(Fact("ray_status.serve", status, line.place(source)))
    starting = [(int(match[1]), line) for line in lines[start:] if (match := _STARTING.match(line.text.rstrip()))]
    if starting:
        made.append(Fact("ray_status.serve_starting", sum(count for count, _ in starting), starting[0][1].place(source)))
    return made
