"""Clients by context, side by side, and one clear line for whatever is wrong with the configuration."""

from pathlib import Path
from types import SimpleNamespace

import pytest
import yaml
from kubernetes.client import Configuration

from bot.clients.kubernetes_config import api_client, contexts
from bot.errors import BadInput


def kubeconfig(path: Path, current: str = "eu", **users: str) -> Path:
    """Two clusters, eu and us, each with a user of its own token."""
    users = users or {"eu": "t-eu", "us": "t-us"}
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": current,
        "clusters": [{"name": name, "cluster": {"server": f"https://{name}.example:6443"}} for name in users],
        "users": [{"name": name, "user": {"token": token}} for name, token in users.items()],
        "contexts": [{"name": name, "context": {"cluster": name, "user": name}} for name in users],
    }
    path.write_text(yaml.safe_dump(document))
    return path


def access(path: Path | None, context: str | None = None, in_cluster: bool = False) -> SimpleNamespace:
    return SimpleNamespace(in_cluster=in_cluster, token_file=None, kubeconfig=path, context=context)


def test_each_context_has_a_client_of_its_own_and_the_global_default_stays_untouched(tmp_path: Path) -> None:
    path, default = kubeconfig(tmp_path / "k"), Configuration.get_default_copy().host
    eu, us = (api_client(access(path, name)).configuration for name in ("eu", "us"))
    assert (eu.host, us.host) == ("https://eu.example:6443", "https://us.example:6443")
    assert eu.api_key != us.api_key
    assert Configuration.get_default_copy().host == default


def test_current_context_is_taken_when_none_is_named(tmp_path: Path) -> None:
    path = kubeconfig(tmp_path / "k", "us")
    assert api_client(access(path)).configuration.host == "https://us.example:6443"
    assert contexts(path) == (("eu", "us"), "us")


def test_reads_are_hardly_retried_and_the_pool_holds_all_threads_of_a_check(tmp_path: Path) -> None:
    settings = api_client(access(kubeconfig(tmp_path / "k"))).configuration
    assert (settings.retries.total, settings.retries.read, settings.retries.redirect) == (1, 0, 0)
    assert settings.connection_pool_maxsize >= 32


def test_unknown_context_lists_those_there_are(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=r"no context 'mars' in .*; there are: eu, us"):
        api_client(access(kubeconfig(tmp_path / "k"), "mars"))


def test_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=f"no kubeconfig at {tmp_path}/none"):
        api_client(access(tmp_path / "none"))


@pytest.mark.parametrize(
    "text",
    ["", "{", "[]", "a: 1", "\x00", "contexts: 3\ncurrent-context: x\n", "- \n", "contexts:\n- name: a\ncurrent-context: a\n", "!!python/object:os.system x"],
)
def test_damaged_file_is_one_line(tmp_path: Path, text: str) -> None:
    path = tmp_path / "k"
    path.write_text(text)
    with pytest.raises(BadInput) as wrong:
        api_client(access(path))
    assert "\n" not in str(wrong.value)


def test_context_whose_cluster_is_missing_is_one_line(tmp_path: Path) -> None:
    document = yaml.safe_load(kubeconfig(tmp_path / "k").read_text())
    document["clusters"] = []
    (tmp_path / "k").write_text(yaml.safe_dump(document))
    with pytest.raises(BadInput, match=r"the kubeconfig .* cannot be read: .*Expected object with name eu"):
        api_client(access(tmp_path / "k"))


def test_in_cluster_outside_of_one_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    with pytest.raises(BadInput, match="in_cluster is set, but this is not a pod"):
        api_client(access(None, in_cluster=True))
