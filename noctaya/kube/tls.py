"""The TLS context of one client: built once (it costs 20 ms), and refreshed in place when certificates rotate.

A live `SSLContext` takes new trust roots and a new client certificate for the connections made after that; `generation`
tells the transport that the connections it has are of the past. `refresh` is called when the server's certificate was not
trusted or our own was refused; it does nothing unless a file's content changed. It adds trust and never takes any away:
roots that were dropped from the bundle stay trusted until the process restarts.
"""

from __future__ import annotations

import ssl
import tempfile
from pathlib import Path

from noctaya.kube.config import ClientCertificate, ClusterConfig, Pem
from noctaya.kube.errors import ConfigError


class Tls:
    """Owner of the context; `context` is None for a plain http server."""

    def __init__(self, config: ClusterConfig) -> None:
        self._config = config
        self._loaded: dict[str, bytes] = {}
        self.generation = 0
        """Grows whenever new connections would be made with other certificates than older ones."""
        self.context: ssl.SSLContext | None = None
        if config.server.startswith("https:"):
            self.context = self._build()

    def refresh(self) -> None:
        """Load what changed on disk."""
        if self.context is not None:
            self._load_roots(self.context)
            self._load_certificate(self.context)

    def use_certificate_files(self, certificate: Path, key: Path) -> None:
        """Present this client certificate from now on (a credentials plugin gave it)."""
        if self.context is not None:
            self._load_pair(self.context, ClientCertificate(Pem(path=certificate), Pem(path=key)))

    def _build(self) -> ssl.SSLContext:
        # With a CA of its own the context trusts nothing else: the system's roots have no say about a cluster.
        context = ssl.create_default_context() if self._config.ca is None else _bare_context()
        # Python 3.13 turned RFC 5280 strictness on, and most home-made cluster CAs fail it; other clients do not ask.
        context.verify_flags &= ~ssl.VERIFY_X509_STRICT
        if self._config.insecure:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        else:
            self._load_roots(context)
        self._load_certificate(context)
        return context

    def _load_roots(self, context: ssl.SSLContext) -> None:
        if self._config.ca is None or self._config.insecure:
            return
        pem = self._config.ca.read()
        if self._loaded.get("ca") == pem:
            return
        try:
            context.load_verify_locations(cadata=pem.decode("ascii"))
        except (ssl.SSLError, ValueError) as cause:
            raise ConfigError(f"{self._config.source}: the cluster's CA is not a PEM certificate") from cause
        self._loaded["ca"] = pem
        self.generation += 1

    def _load_certificate(self, context: ssl.SSLContext) -> None:
        if self._config.client_certificate is not None:
            self._load_pair(context, self._config.client_certificate)

    def _load_pair(self, context: ssl.SSLContext, pair: ClientCertificate) -> None:
        pem = pair.certificate.read() + b"\n" + pair.key.read()
        if self._loaded.get("client") == pem:
            return
        if pair.certificate.path is not None and pair.key.path is not None:
            _load_chain(context, pair.certificate.path, pair.key.path)
        else:
            _load_chain_from_data(context, pair)
        self._loaded["client"] = pem
        self.generation += 1


def _bare_context() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    return context


def _load_chain(context: ssl.SSLContext, certificate: Path, key: Path) -> None:
    try:
        context.load_cert_chain(certificate, key)
    except (OSError, ssl.SSLError) as cause:
        raise ConfigError(f"client certificate {certificate} and key {key} do not load: {cause}") from cause


def _load_chain_from_data(context: ssl.SSLContext, pair: ClientCertificate) -> None:
    # OpenSSL's Python door takes files only. The folder is 0700 and gone before this returns.
    with tempfile.TemporaryDirectory(prefix="noctaya-") as folder:
        certificate, key = Path(folder, "tls.crt"), Path(folder, "tls.key")
        certificate.write_bytes(pair.certificate.read())
        key.touch(mode=0o600)
        key.write_bytes(pair.key.read())
        _load_chain(context, certificate, key)
