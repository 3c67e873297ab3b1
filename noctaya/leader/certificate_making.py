"""New CAs and leaves for the control link, as PEM. Keys are ECDSA P-256 and made here, for one Secret each.

A leaf may be a client; only a worker's may be a server too, and only it carries the name that clients ask workers for.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from noctaya.wire.identity import WORKER_NAME, Role, identity_uri
from noctaya.wire.x509_parts import key_usage, private_pem


@dataclass(frozen=True, slots=True, repr=False)
class Pair:
    """A certificate and its private key, PEM."""

    certificate: bytes
    key: bytes

    def __repr__(self) -> str:
        return f"Pair({len(self.certificate)} bytes)"  # never the key


def make_authority(*, begins: float, ends: float) -> Pair:
    """A CA of its own, valid between two Unix times. Each has a name of its own: a verifier looks an issuer up by name."""
    key = ec.generate_private_key(ec.SECP256R1())
    serial = x509.random_serial_number()
    name = _name(f"noctaya-ca-{serial:040x}"[:32])
    certificate = (
        _builder(key, begins, ends)
        .subject_name(name)
        .issuer_name(name)
        .serial_number(serial)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(key_usage(signs_certificates=True), critical=True)
        .sign(key, hashes.SHA256())
    )
    return _pair(certificate, key)


def make_leaf(role: Role, namespace: str, authority: Pair, *, begins: float, ends: float) -> Pair:
    """A certificate for every process of `role` in the fleet of `namespace`, signed by `authority`.

    Raises ValueError when `authority` is not the certificate and the ECDSA or RSA key of a CA.
    """
    issuer = x509.load_pem_x509_certificate(authority.certificate)
    signer = serialization.load_pem_private_key(authority.key, password=None)
    if not isinstance(signer, (ec.EllipticCurvePrivateKey, rsa.RSAPrivateKey)):
        raise ValueError("a key of this kind signs no certificates")  # noqa: TRY004 - garbage, not a wrong call
    key = ec.generate_private_key(ec.SECP256R1())
    alternatives: list[x509.GeneralName] = [x509.UniformResourceIdentifier(identity_uri(namespace, role))]
    purposes = [ExtendedKeyUsageOID.CLIENT_AUTH]
    if role is Role.WORKER:
        alternatives.append(x509.DNSName(WORKER_NAME))
        purposes.append(ExtendedKeyUsageOID.SERVER_AUTH)
    certificate = (
        _builder(key, begins, ends)
        .subject_name(_name(f"noctaya-{role.value}"))
        .issuer_name(issuer.subject)
        .serial_number(x509.random_serial_number())
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(key_usage(signs_certificates=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage(purposes), critical=False)
        .add_extension(x509.SubjectAlternativeName(alternatives), critical=False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key()),
            critical=False,
        )
        .sign(signer, hashes.SHA256())
    )
    return _pair(certificate, key)


def _builder(key: ec.EllipticCurvePrivateKey, begins: float, ends: float) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .public_key(key.public_key())
        .not_valid_before(datetime.fromtimestamp(int(begins), UTC))
        .not_valid_after(datetime.fromtimestamp(int(ends), UTC))
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    )


def _pair(certificate: x509.Certificate, key: ec.EllipticCurvePrivateKey) -> Pair:
    return Pair(certificate.public_bytes(serialization.Encoding.PEM), private_pem(key))


def _name(common: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common)])
