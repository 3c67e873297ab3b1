"""Kubeconfig files of the cluster's own clients."""

import base64
import json
import os
from pathlib import Path

from tests.cluster.certificates import Pair

NAME = "noctaya-test"


def write(
    path: Path, server: str, authority: Path, *, identity: Pair | None = None, token: str | None = None
) -> Path:
    """Write one whose user is a client certificate or a token; mode 0600. (JSON is YAML.)"""
    user = {"token": token}
    if identity is not None:
        user = {
            "client-certificate-data": _encoded(identity.certificate),
            "client-key-data": _encoded(identity.key),
        }
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": NAME,
        "clusters": [
            {"name": NAME, "cluster": {"server": server, "certificate-authority-data": _encoded(authority)}}
        ],
        "users": [{"name": NAME, "user": user}],
        "contexts": [{"name": NAME, "context": {"cluster": NAME, "user": NAME}}],
    }
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
        json.dump(document, file, indent=1)
    return path


def _encoded(path: Path) -> str:
    return base64.b64encode(path.read_bytes()).decode()
