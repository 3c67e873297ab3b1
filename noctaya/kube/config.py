"""Where the cluster is and who we are: a frozen description, read once, shared by any number of clients and threads.

Nothing here opens a connection or runs a program. Found in this order: the path given, $KUBECONFIG, ~/.kube/config, the
pod's service account. Files are named rather than read where they rotate (tokens, certificates), so that `credentials.py`
and `tls.py` can read them again. No file is ever written. Fails with ConfigError, which names the file and the entry.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from noctaya.kube.errors import ConfigError

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")


@dataclass(frozen=True, slots=True)
class StaticToken:
    """A bearer token that stands in the kubeconfig itself."""

    value: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class TokenFile:
    """A bearer token in a file that somebody else rotates (the kubelet rewrites a service account's)."""

    path: Path


@dataclass(frozen=True, slots=True)
class PluginToken:
    """Credentials that only a program or an identity provider can give: exec plugins, `oidc`, `gcp`."""

    kubeconfig: str
    """One path, or several joined by the path separator, as $KUBECONFIG takes them."""
    context: str
    described: str
    """What it is, for messages: `exec aws`, `auth-provider oidc`."""


TokenSource = StaticToken | TokenFile | PluginToken


@dataclass(frozen=True, slots=True)
class Pem:
    """PEM content, either held here or in a file that may be replaced."""

    data: bytes | None = field(default=None, repr=False)
    path: Path | None = None

    def read(self) -> bytes:
        if self.data is not None:
            return self.data
        if self.path is None:
            raise ConfigError("a certificate has neither data nor a file")
        try:
            return self.path.read_bytes()
        except OSError as cause:
            raise ConfigError(f"cannot read {self.path}: {cause.strerror}") from cause


@dataclass(frozen=True, slots=True)
class ClientCertificate:
    certificate: Pem
    key: Pem


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterConfig:
    """How to reach and authenticate to one API server. Safe to print: no secret is in its repr."""

    server: str
    """`https://host:port`, possibly with a path prefix; no trailing slash."""
    ca: Pem | None = None
    """The cluster's CA; None means the system's."""
    client_certificate: ClientCertificate | None = None
    token: TokenSource | None = None
    namespace: str = "default"
    insecure: bool = False
    """Do not verify the server's certificate (`insecure-skip-tls-verify`)."""
    tls_server_name: str | None = None
    """The name to verify the server's certificate against, when it is not the host in `server`."""
    proxy_url: str | None = field(default=None, repr=False)
    source: str = ""
    """Where this was read from, for messages."""

    def __post_init__(self) -> None:
        parts = urlsplit(self.server)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ConfigError(f"{self.source or 'cluster'}: server {self.server!r} is not an http(s) URL")
        loopback = parts.hostname in ("localhost", "127.0.0.1", "::1")
        if parts.scheme == "http" and self.token is not None and not loopback:
            raise ConfigError(
                f"{self.source or 'cluster'}: credentials would travel in the clear to {self.server}; use https"
            )
        if self.proxy_url is not None and urlsplit(self.proxy_url).scheme not in ("http", "https"):
            raise ConfigError(f"{self.source or 'cluster'}: proxy-url must be http or https")

    @classmethod
    def load(cls, kubeconfig: str | None = None, context: str | None = None) -> ClusterConfig:
        """Find and read the configuration.

        `kubeconfig` is a path (or several, as $KUBECONFIG); `context` picks one other than the current. An explicit
        path or $KUBECONFIG that names no existing file is an error and never falls through to the next place.
        """
        # Imported here because the pod of a worker never needs yaml: it has a service account.
        explicit = kubeconfig or os.environ.get("KUBECONFIG") or None
        default = Path.home() / ".kube" / "config"
        if explicit is not None or default.is_file():
            from noctaya.kube.kubeconfig import read_kubeconfig

            return read_kubeconfig(explicit or str(default), context)
        if "KUBERNETES_SERVICE_HOST" not in os.environ:
            raise ConfigError(
                f"no cluster: no kubeconfig was given, $KUBECONFIG is not set, {default} does not exist and this is "
                "not a pod; set KUBECONFIG"
            )
        if context is not None:
            raise ConfigError(f"context {context!r} was asked for, but a service account has no contexts")
        return in_cluster()


def in_cluster(directory: Path = SERVICE_ACCOUNT) -> ClusterConfig:
    """The pod's service account, as the kubelet mounts it."""
    host = os.environ.get("KUBERNETES_SERVICE_HOST", "")
    port = os.environ.get("KUBERNETES_SERVICE_PORT", "443")
    if not host:
        raise ConfigError("KUBERNETES_SERVICE_HOST is not set: this is not a pod")
    token = directory / "token"
    if not token.is_file():
        raise ConfigError(f"{token} does not exist: is automountServiceAccountToken off for this pod?")
    namespace = directory / "namespace"
    return ClusterConfig(
        server=f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}",
        ca=Pem(path=directory / "ca.crt"),
        token=TokenFile(token),
        namespace=namespace.read_text().strip() if namespace.is_file() else "default",
        source="service account",
    )
