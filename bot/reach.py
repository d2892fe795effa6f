"""A part of the world by name: clusters and namespaces by shell patterns. What a rule of the policy covers. Pure."""

from dataclasses import dataclass
from fnmatch import fnmatchcase


@dataclass(frozen=True, slots=True)
class Reach:
    """Clusters and namespaces by shell patterns, as `*` and `team-*`."""

    clusters: tuple[str, ...] = ("*",)
    namespaces: tuple[str, ...] = ("*",)

    def covers(self, cluster: str | None, namespace: str | None) -> bool:
        """None stands for "not known yet": then it is covered when anything is."""
        return fits(self.clusters, cluster) and fits(self.namespaces, namespace)


EVERYWHERE = Reach()


def fits(patterns: tuple[str, ...], name: str | None) -> bool:
    return bool(patterns) if name is None else any(fnmatchcase(name, pattern) for pattern in patterns)
