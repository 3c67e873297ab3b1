"""Reads kubeconfig files: merge, pick a context, and turn cluster and user into a `ClusterConfig`.

Follows kubectl's rules: of several files the first to name an entry (or a current-context) wins, paths are relative to the
file that says them, `…-data` beats the file variant, `tokenFile` beats `token`. What is not supported (impersonation,
passwords) is refused by name rather than ignored: a client that silently is somebody else is worse than none.
"""

from __future__ import annotations

import base64
import binascii
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from noctaya.kube.config import (
    ClientCertificate,
    ClusterConfig,
    Pem,
    PluginToken,
    StaticToken,
    TokenFile,
    TokenSource,
)
from noctaya.kube.errors import ConfigError

_PLUGIN_PROVIDERS = ("oidc", "gcp")


@dataclass(slots=True)
class _Entry:
    """One cluster, user or context, and the folder that its relative paths start from."""

    body: dict[str, Any]
    folder: Path
    where: str

    def text(self, key: str) -> str | None:
        value = self.body.get(key)
        return None if value is None or value == "" else str(value)

    def path(self, key: str) -> Path | None:
        value = self.text(key)
        return None if value is None else self.folder / Path(value).expanduser()

    def pem(self, key: str) -> Pem | None:
        encoded = self.text(f"{key}-data")
        if encoded is not None:
            try:
                return Pem(data=base64.b64decode(encoded, validate=True))
            except (binascii.Error, ValueError) as cause:
                raise ConfigError(f"{self.where}: {key}-data is not base64") from cause
        path = self.path(key)
        return None if path is None else Pem(path=path)


@dataclass(slots=True)
class _Merged:
    current_context: str | None = None
    clusters: dict[str, _Entry] = field(default_factory=dict)
    users: dict[str, _Entry] = field(default_factory=dict)
    contexts: dict[str, _Entry] = field(default_factory=dict)

    def find(self, kind: str, name: str) -> _Entry:
        known: dict[str, _Entry] = getattr(self, f"{kind}s")
        if name not in known:
            raise ConfigError(
                f"kubeconfig: no {kind} {name!r}; there are: {', '.join(sorted(known)) or 'none'}"
            )
        return known[name]


def read_kubeconfig(paths: str, context: str | None = None) -> ClusterConfig:
    """The cluster and user of `context` (default: the current one) in the file or files at `paths`."""
    merged = _merge(paths)
    chosen = context or merged.current_context
    if chosen is None:
        raise ConfigError(
            f"{paths}: no current-context; name one of {', '.join(sorted(merged.contexts)) or 'none'}"
        )
    entry = merged.find("context", chosen)
    cluster = merged.find("cluster", entry.text("cluster") or "")
    user_name = entry.text("user")
    user = merged.find("user", user_name) if user_name else _Entry({}, Path(), "no user")
    server = cluster.text("server")
    if server is None:
        raise ConfigError(f"{cluster.where}: no server")
    return ClusterConfig(
        server=server.rstrip("/"),
        ca=cluster.pem("certificate-authority"),
        client_certificate=_certificate(user),
        token=_token(user, paths, chosen),
        namespace=entry.text("namespace") or "default",
        insecure=bool(cluster.body.get("insecure-skip-tls-verify", False)),
        tls_server_name=cluster.text("tls-server-name"),
        proxy_url=cluster.text("proxy-url"),
        source=entry.where,
    )


def _certificate(user: _Entry) -> ClientCertificate | None:
    certificate, key = user.pem("client-certificate"), user.pem("client-key")
    if certificate is None and key is None:
        return None
    if certificate is None or key is None:
        raise ConfigError(f"{user.where}: client-certificate and client-key only work together")
    return ClientCertificate(certificate, key)


def _token(user: _Entry, paths: str, context: str) -> TokenSource | None:
    for key in ("as", "as-uid", "as-groups", "as-user-extra"):
        if user.body.get(key):
            raise ConfigError(f"{user.where}: impersonation ({key!r}) is not supported")
    if user.text("username") or user.text("password"):
        raise ConfigError(f"{user.where}: passwords are not supported; Kubernetes dropped them in 1.19")
    path = user.path("tokenFile")
    if path is not None:
        return TokenFile(path)
    value = user.text("token")
    if value is not None:
        return StaticToken(value)
    if "exec" in user.body:
        command = (user.body["exec"] or {}).get("command", "?")
        return PluginToken(paths, context, f"exec {command}")
    if "auth-provider" in user.body:
        name = (user.body["auth-provider"] or {}).get("name", "?")
        if name not in _PLUGIN_PROVIDERS:
            raise ConfigError(f"{user.where}: auth-provider {name!r} is not supported; use an exec plugin")
        return PluginToken(paths, context, f"auth-provider {name}")
    return None


def _merge(paths: str) -> _Merged:
    files = [Path(part).expanduser() for part in paths.split(os.pathsep) if part]
    present = [file for file in files if file.is_file()]
    if not present:
        raise ConfigError(f"kubeconfig {paths} does not exist")
    merged = _Merged()
    for file in present:
        document = _read(file)
        if merged.current_context is None:
            merged.current_context = document.get("current-context") or None
        for kind in ("cluster", "user", "context"):
            known: dict[str, _Entry] = getattr(merged, f"{kind}s")
            for item in document.get(f"{kind}s") or []:
                if not isinstance(item, dict) or "name" not in item:
                    raise ConfigError(f"{file}: an entry of {kind}s has no name")
                where = f"{file}: {kind} {item['name']!r}"
                known.setdefault(item["name"], _Entry(item.get(kind) or {}, file.resolve().parent, where))
    return merged


def _read(file: Path) -> dict[str, Any]:
    try:
        document = yaml.safe_load(file.read_text())
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as cause:
        raise ConfigError(f"cannot read kubeconfig {file}: {cause}") from cause
    if document is None:
        return {}
    if not isinstance(document, dict):
        raise ConfigError(f"kubeconfig {file} is not a mapping")
    return document
