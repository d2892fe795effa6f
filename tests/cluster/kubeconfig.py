"""Writes a kubeconfig file."""

import base64
from pathlib import Path

import yaml


def write(path: Path, name: str, url: str, ca: bytes, token: str) -> Path:
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": name,
        "clusters": [{"name": name, "cluster": {"server": url, "certificate-authority-data": base64.b64encode(ca).decode()}}],
        "users": [{"name": name, "user": {"token": token}}],
        "contexts": [{"name": name, "context": {"cluster": name, "user": name}}],
    }
    path.touch(mode=0o600)
    path.write_text(yaml.safe_dump(document))
    return path
