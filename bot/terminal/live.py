"""What `check` and `collect` share: their options, the way to the clusters and nodes that the settings name, and progress on a terminal.

Without clusters in the settings, the kubeconfig's contexts are the clusters: the one that `--cluster` names, else the current one.
"""

import argparse
import sys
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

from bot.clock import SystemClock
from bot.errors import BadInput
from bot.model import Bundle, ProgressLine, Target
from bot.ports import ClusterReader, Shells
from bot.settings import Access, ClusterSettings, Settings


def parser(name: str, description: str) -> argparse.ArgumentParser:
    """The options that both commands have."""
    options = argparse.ArgumentParser(prog=f"oombot {name}", description=description)
    options.add_argument("target", metavar="TARGET", help="pod-x, namespace/pod-x, deploy/name, sts/name, node/name or endpoint/name; a unique beginning is enough")
    options.add_argument("-n", "--namespace", help="namespace (default: all that may be looked at)")
    options.add_argument("--cluster", help="cluster as oombot.yaml names it, else a context of the kubeconfig")
    options.add_argument("-c", "--container", help="the server's container, when it is not found by itself")
    options.add_argument("--config", metavar="FILE", help="settings (default: $OOMBOT_CONFIG, else oombot.yaml where there is one)")
    return options


@dataclass(frozen=True, slots=True)
class Live:
    """A target, and what it is read with."""

    target: Target
    reader: ClusterReader
    shells: Shells | None
    budget_s: float


def find(asked: argparse.Namespace) -> Live:
    """The target that was asked for. Raises UserError or WorldError with one line."""
    from bot.evidence.locate import locate, query

    wanted = query(asked.target, asked.namespace, None, asked.container)  # before anything is read: a typing mistake costs no connection
    settings = Settings.load(asked.config)
    clusters = readers(settings, asked.cluster, wanted.workload_kind)
    target = locate(wanted, clusters)
    if wanted.kind != "pod" or wanted.name != target.pod:
        print(f"{wanted.text} is {target}" + (f" ({target.workload}, container {target.container})" if target.pod else ""), file=sys.stderr)
    return Live(target, clusters[target.cluster], shells(settings), settings.timings.collect_budget_s)


def readers(settings: Settings, named: str | None, kind: str | None = None) -> Mapping[str, ClusterReader]:
    """One reader a cluster: the named one, else the default one, else all. For a serving endpoint the Databricks workspaces."""
    from bot.clients import kubernetes_config
    from bot.evidence import commands, endpoint

    if kind == endpoint.KIND:
        return _workspaces(settings, named)
    return {cluster.name: kubernetes_config.reader(cluster, commands.in_pod) for cluster in _chosen(settings, named)}


def _workspaces(settings: Settings, named: str | None) -> Mapping[str, ClusterReader]:
    from bot.clients.databricks import DatabricksReader, Workspace

    found = [one for one in settings.databricks if named is None or one.name == named]
    if not found:
        there = ", ".join(sorted(one.name for one in settings.databricks))
        raise BadInput(f"no Databricks workspace {named!r}; there are: {there}" if there else "no Databricks workspace is configured: name `databricks` in oombot.yaml")
    return {one.name: DatabricksReader(Workspace(one.name, one.host, one.token_file)) for one in found}


def _chosen(settings: Settings, named: str | None) -> Sequence[ClusterSettings]:
    if not settings.clusters:
        return (_of_kubeconfig(named),)
    if named is None:
        return [cluster for cluster in settings.clusters if cluster.default] or settings.clusters
    found = [cluster for cluster in settings.clusters if cluster.name == named] or [cluster for cluster in settings.clusters if cluster.name.startswith(named)]
    if len(found) != 1:
        raise BadInput(f"no cluster {named!r}; there are: {', '.join(sorted(cluster.name for cluster in settings.clusters))}")
    return found


def _of_kubeconfig(context: str | None) -> ClusterSettings:
    from bot.clients.kubernetes_config import contexts

    name = context or contexts()[1] or "current"
    return ClusterSettings(name=name, read=Access(context=context))


def shells(settings: Settings) -> Shells | None:
    """SSH to nodes, where it is configured."""
    if not settings.ssh.user:
        return None
    from bot.clients.ssh import SshShells
    from bot.evidence import commands

    return SshShells(settings.ssh, commands.on_node)


def read(live: Live) -> Bundle:
    """Collects, with progress on a terminal."""
    from bot.evidence.collect import collect

    return collect(live.target, live.reader, live.shells, ProgressLines(sys.stderr), clock=SystemClock(), budget_s=live.budget_s)


class ProgressLines:
    """Implements `ports.Progress`: one line for each part that is finished, on a terminal only."""

    def __init__(self, out: TextIO) -> None:
        self._out = out
        self._shown = out.isatty()
        self._lock = threading.Lock()

    def report(self, line: ProgressLine) -> None:
        if not self._shown or line.state not in ("done", "failed"):
            return
        mark = "ok" if line.state == "done" else "no"
        with self._lock:
            self._out.write(f"  {mark}  {line.name:12}{printable(line.detail)}\n")
            self._out.flush()


def printable(text: str) -> str:
    """Somebody else's words for a terminal: no control characters."""
    return "".join(letter if letter.isprintable() else " " for letter in text)


def empty_folder(path: str) -> Path:
    """The folder for a bundle. Raises BadInput when something stands in it already (old files would be taken for new evidence)."""
    folder = Path(path)
    try:
        if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
            raise BadInput(f"{path}: is there already and not empty; name a new folder")
    except OSError as wrong:
        raise BadInput(f"{path}: cannot be used: {wrong.strerror}") from wrong
    return folder
