"""One ApiClient a cluster and purpose, from a kubeconfig context or from inside a cluster.

Never the library's global default: several clusters stand side by side, and reading and writing credentials stay apart (each
call makes a client of its own). Reads no setting itself; `Access` says what it needs of one.
"""

from collections.abc import Callable, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Protocol

import urllib3
import yaml
from kubernetes import config
from kubernetes.client import ApiClient, Configuration
from kubernetes.config.config_exception import ConfigException
from kubernetes.config.incluster_config import SERVICE_CERT_FILENAME, SERVICE_TOKEN_FILENAME, InClusterConfigLoader

from bot.clients.kubernetes_reader import KubernetesReader
from bot.errors import BadInput

POOL = 32  # connections: more than the threads of one check


class Access(Protocol):
    """Credentials for one API server: those of the pod that we run in, or a context of a kubeconfig."""

    @property
    def in_cluster(self) -> bool: ...
    @property
    def token_file(self) -> Path | None: ...
    @property
    def kubeconfig(self) -> Path | None: ...
    @property
    def context(self) -> str | None: ...


class Cluster(Protocol):
    """A cluster as the settings name it."""

    @property
    def name(self) -> str: ...
    @property
    def read(self) -> Access: ...


def reader(cluster: Cluster, allowed: Callable[[Sequence[str]], bool]) -> KubernetesReader:
    """Reads `cluster` with its reading credentials; `allowed` decides which commands may be run in a pod (`bot.evidence.commands.in_pod`)."""
    return KubernetesReader(cluster.name, api_client(cluster.read), allowed)


def api_client(access: Access) -> ApiClient:
    """A client of its own for these credentials. Raises BadInput (one line: what is missing, which contexts there are)."""
    settings = Configuration()
    if access.in_cluster:
        _load_in_cluster(settings, access.token_file)
    else:
        _load_kubeconfig(settings, access.kubeconfig, access.context)
    settings.retries = urllib3.Retry(total=1, connect=1, read=0, redirect=0, status=0, backoff_factor=0.2)
    settings.connection_pool_maxsize = POOL
    return ApiClient(configuration=settings)


def contexts(kubeconfig: Path | None = None) -> tuple[tuple[str, ...], str]:
    """The names of the contexts and the current one ("" when none is set)."""
    try:
        found, current = config.list_kube_config_contexts(str(kubeconfig) if kubeconfig else None)
    except (ConfigException, yaml.YAMLError, OSError, KeyError, TypeError) as wrong:
        raise BadInput(_no_config(kubeconfig, wrong)) from wrong
    return tuple(str(context["name"]) for context in found), str(current["name"]) if current else ""


def _load_kubeconfig(settings: Configuration, kubeconfig: Path | None, context: str | None) -> None:
    names, current = contexts(kubeconfig)
    if context and context not in names:
        raise BadInput(f"no context {context!r} in {_where(kubeconfig)}; there are: {', '.join(names) or 'none'}")
    if not context and not current:
        raise BadInput(f"no current context in {_where(kubeconfig)}; name one of: {', '.join(names) or 'none'}")
    try:
        config.load_kube_config(str(kubeconfig) if kubeconfig else None, context=context, client_configuration=settings, persist_config=False)
    except (ConfigException, yaml.YAMLError, OSError, KeyError, TypeError, ValueError) as wrong:
        raise BadInput(f"context {context or current!r} of {_where(kubeconfig)} cannot be used: {_line(wrong)}") from wrong


def _load_in_cluster(settings: Configuration, token_file: Path | None) -> None:
    loader = InClusterConfigLoader(token_filename=str(token_file or SERVICE_TOKEN_FILENAME), cert_filename=SERVICE_CERT_FILENAME)
    loader._token_refresh_period = timedelta(minutes=1)  # tokens of service accounts rotate
    try:
        loader.load_and_set(settings)
    except (ConfigException, OSError) as wrong:
        raise BadInput(f"in_cluster is set, but this is not a pod with a service account: {_line(wrong)}") from wrong


def _no_config(kubeconfig: Path | None, wrong: Exception) -> str:
    if isinstance(wrong, FileNotFoundError) or "No configuration found" in str(wrong):
        return f"no kubeconfig at {_where(kubeconfig)}: set KUBECONFIG, or name `clusters` in oombot.yaml ({_line(wrong)})"
    return f"the kubeconfig {_where(kubeconfig)} cannot be read: {_line(wrong)}"


def _where(kubeconfig: Path | None) -> str:
    return str(kubeconfig or config.kube_config.KUBE_CONFIG_DEFAULT_LOCATION)


def _line(wrong: Exception) -> str:
    return " ".join(str(wrong).split())[:300]
