"""Certificate authorities, leaves and the service accounts' signing key of one cluster, as files.

Keys are P-256 where nobody asks for RSA (a whole set takes milliseconds) and files with keys have mode 0600. Everything ends after a year: a
test cluster lives for hours, but KEDA renews what ends within 90 days. Invariant: a leaf names its issuer by key identifier, so that Python's strict verification accepts it.
"""

import ipaddress
import os
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

LIFETIME = timedelta(days=365)
Key = ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey
CLOCK_SLACK = timedelta(minutes=5)


@dataclass(frozen=True, slots=True)
class Pair:
    """A certificate and its key, as PEM files."""

    certificate: Path
    key: Path


class Authority:
    """A certificate authority that writes itself and its leaves into a folder."""

    def __init__(
        self,
        folder: Path,
        name: str,
        common_name: str,
        *,
        dns_names: Iterable[str] = (),
        with_rsa: bool = False,
    ) -> None:
        """KEDA's rotation accepts only an authority that has its own name among `dns_names` and an RSA key."""
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._folder = folder
        self._key: Key = _rsa_key() if with_rsa else ec.generate_private_key(ec.SECP256R1())
        builder = (
            _builder(_name(common_name), _name(common_name), self._key.public_key())
            .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
            .add_extension(_usage(signs_certificates=True), critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(self._key.public_key()), critical=False)
        )
        if names := [x509.DNSName(entry) for entry in dns_names]:
            builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
        self._certificate = builder.sign(self._key, hashes.SHA256())
        self.pair = _write(folder, name, self._certificate, self._key)

    def leaf(
        self,
        name: str,
        common_name: str,
        *,
        groups: Iterable[str] = (),
        server_names: Iterable[str] = (),
        folder: Path | None = None,
    ) -> Pair:
        """A certificate for a client, and for a server too when it has server names (DNS names or addresses)."""
        names = list(server_names)
        key = ec.generate_private_key(ec.SECP256R1())
        purposes = [ExtendedKeyUsageOID.CLIENT_AUTH, *([ExtendedKeyUsageOID.SERVER_AUTH] if names else [])]
        issuer = self._certificate.extensions.get_extension_for_class(x509.SubjectKeyIdentifier).value
        builder = (
            _builder(_name(common_name, groups), self._certificate.subject, key.public_key())
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(_usage(signs_certificates=False), critical=True)
            .add_extension(x509.ExtendedKeyUsage(purposes), critical=False)
            .add_extension(
                x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(issuer), critical=False
            )
        )
        if names:
            builder = builder.add_extension(
                x509.SubjectAlternativeName([_general_name(entry) for entry in names]), critical=False
            )
        return _write(folder or self._folder, name, builder.sign(self._key, hashes.SHA256()), key)


def signing_key(folder: Path) -> Pair:
    """The key that signs service accounts' tokens, and its public half (as `certificate`)."""
    key = _rsa_key()
    pair = Pair(folder / "service-accounts.pub", folder / "service-accounts.key")
    _write_file(pair.key, _pem(key))
    pair.certificate.write_bytes(
        key.public_key().public_bytes(
            serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
        )
    )
    return pair


def _rsa_key() -> rsa.RSAPrivateKey:
    return rsa.generate_private_key(public_exponent=65537, key_size=2048)


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey | rsa.RSAPublicKey
) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - CLOCK_SLACK)
        .not_valid_after(now + LIFETIME)
    )


def _usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs_certificates,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _name(common_name: str, groups: Iterable[str] = ()) -> x509.Name:
    """Kubernetes reads the user from CN and its groups from O."""
    return x509.Name(
        [
            *(x509.NameAttribute(NameOID.ORGANIZATION_NAME, group) for group in groups),
            x509.NameAttribute(NameOID.COMMON_NAME, common_name),
        ]
    )


def _general_name(entry: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(entry))
    except ValueError:
        return x509.DNSName(entry)


def _write(folder: Path, name: str, certificate: x509.Certificate, key: Key) -> Pair:
    pair = Pair(folder / f"{name}.crt", folder / f"{name}.key")
    pair.certificate.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    _write_file(pair.key, _pem(key))
    return pair


def _pem(key: Key) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.TraditionalOpenSSL,
        serialization.NoEncryption(),
    )


def _write_file(path: Path, content: bytes) -> None:
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
        file.write(content)
