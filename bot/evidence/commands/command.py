"""What one allowed command is: its words, where it runs, and which file of the bundle its output joins."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

# The only parameters that a command may have, each with all that it may be. Nothing here can be an option or leave its word.
PARAMETERS = {
    "pod_uid_glob": r"[0-9a-f]{8}\?[0-9a-f]{4}\?[0-9a-f]{4}\?[0-9a-f]{4}\?[0-9a-f]{12}|[0-9a-f]{32}",
    "container_id": r"[0-9a-f]{64}",
}
_HOLE = re.compile(r"\{([a-z_]+)\}")


class Place(StrEnum):
    NODE = "node"  # over SSH
    POD = "pod"  # exec in the server's container


@dataclass(frozen=True, slots=True)
class Command:
    """`argv` may hold `{parameter}`; `timeout_s` is whole seconds, since the far side's forced command sees it too."""

    place: Place
    argv: tuple[str, ...]
    file: str
    would_tell: str
    timeout_s: int = 5
    limit_bytes: int = 256 << 10

    def filled(self, parameters: Mapping[str, str]) -> tuple[str, ...]:
        """The argv list with its parameters. Raises ValueError when one is not what it may be."""
        for name, value in parameters.items():
            if name in self.holes and not re.fullmatch(PARAMETERS[name], value):
                raise ValueError(f"{name} may not be {value[:60]!r}")
        return tuple(_HOLE.sub(lambda hole: parameters[hole[1]], word) for word in self.argv)

    @property
    def holes(self) -> frozenset[str]:
        """The parameters that it needs."""
        return frozenset(name for word in self.argv for name in _HOLE.findall(word))

    def is_this(self, argv: Sequence[str]) -> bool:
        """Whether `argv` is this command with parameters that it may have."""
        return len(argv) == len(self.argv) and all(_fits(template, word) for template, word in zip(self.argv, argv, strict=True))

    def __str__(self) -> str:
        return " ".join(self.argv)


def known_parameters(values: Mapping[str, str]) -> dict[str, str]:
    """Those of `values` that are what a parameter may be; the others count as not known."""
    return {name: value for name, value in values.items() if re.fullmatch(PARAMETERS[name], value)}


def _fits(template: str, word: str) -> bool:
    if "{" not in template or template == "{}":
        return template == word
    pattern, position = "", 0
    for hole in _HOLE.finditer(template):
        pattern += re.escape(template[position : hole.start()]) + f"(?:{PARAMETERS[hole[1]]})"
        position = hole.end()
    return re.fullmatch(pattern + re.escape(template[position:]), word) is not None
