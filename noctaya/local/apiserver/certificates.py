"""The embedded cluster's certificate authority and the API server's certificate, made anew or kept in a state directory.

Private keys are written with mode 0600. Certificates last ten years: the cluster lives on one machine's loopback.
"""

from __future__ import annotations

import ipaddress
import os
import secrets
import ssl
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from noctaya.wire.x509_parts import key_usage, private_pem

_LIFETIME = timedelta(days=3650)


@dataclass(frozen=True, slots=True)
class Credentials:
    """Files and secrets that a client or the server needs."""

    ca_path: Path
    certificate_path: Path
    key_path: Path
    token: str

    def server_context(self) -> ssl.SSLContext:
        """TLS context of the server."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.load_cert_chain(self.certificate_path, self.key_path)
        return context


def ensure_credentials(directory: Path) -> Credentials:
    """Credentials in `directory`, made when they are missing."""
    directory.mkdir(parents=True, exist_ok=True, mode=0o700)
    found = Credentials(
        ca_path=directory / "ca.crt",
        certificate_path=directory / "apiserver.crt",
        key_path=directory / "apiserver.key",
        token="",
    )
    token_path = directory / "token"
    if not token_path.exists():
        _write_certificates(found)
        _write(token_path, secrets.token_urlsafe(32).encode())
    return Credentials(found.ca_path, found.certificate_path, found.key_path, token_path.read_text())


def _write(path: Path, content: bytes) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)


def _name(common: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common)])


def _write_certificates(paths: Credentials) -> None:
    now = datetime.now(UTC) - timedelta(minutes=5)
    ca_key = ec.generate_private_key(ec.SECP256R1())
    ca_identifier = x509.SubjectKeyIdentifier.from_public_key(ca_key.public_key())
    ca = (
        x509.CertificateBuilder()
        .subject_name(_name("noctaya-local-ca"))
        .issuer_name(_name("noctaya-local-ca"))
        .public_key(ca_key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now)
        .not_valid_after(now + _LIFETIME)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(key_usage(signs_certificates=True), critical=True)
        .add_extension(ca_identifier, critical=False)
        .sign(ca_key, hashes.SHA256())
    )
    key = ec.generate_private_key(ec.SECP256R1())
    alternatives = [
        x509.DNSName("localhost"),
        x509.DNSName("kubernetes.default.svc"),
        x509.IPAddress(ipaddress.ip_address("127.0.0.1")),
        x509.IPAddress(ipaddress.ip_address("::1")),
    ]
    leaf = (
        x509.CertificateBuilder()
        .subject_name(_name("noctaya-local-apiserver"))
        .issuer_name(ca.subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now)
        .not_valid_after(now + _LIFETIME)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(key_usage(signs_certificates=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(x509.SubjectAlternativeName(alternatives), critical=False)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(ca_identifier), critical=False
        )
        .sign(ca_key, hashes.SHA256())
    )
    _write(paths.ca_path, ca.public_bytes(serialization.Encoding.PEM))
    _write(paths.certificate_path, leaf.public_bytes(serialization.Encoding.PEM))
    _write(paths.key_path, private_pem(key))
