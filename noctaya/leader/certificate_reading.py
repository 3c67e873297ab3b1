"""The fleet's certificate Secrets as views: what in them parses, fits together and says what it should.

Everything that does not is garbage (None), with a sentence that quotes nothing. Our label makes a Secret ours; one that
cert-manager has put its own mark on is cert-manager's, whatever labels it also carries.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa

from noctaya.api.names import GROUP
from noctaya.kube.metadata import parse_time
from noctaya.kube.objects import Secret
from noctaya.leader.certificate_views import AuthoritySeen, Certificate, LeafSeen, Seen
from noctaya.wire.errors import MaterialInvalid
from noctaya.wire.identity import WORKER_NAME, Role, role_named
from noctaya.wire.material import AUTHORITIES, CERTIFICATE, KEY, Material

AUTHORITY_SECRET: Final = "noctaya-ca"
LEAF_SECRETS: Final = {Role.WORKER: "noctaya-worker-tls", Role.GATEWAY: "noctaya-gateway-tls"}
NEXT_CERTIFICATE: Final = "next.crt"
NEXT_KEY: Final = "next.key"

LABEL_KEPT_BY: Final = f"{GROUP}/certificates-kept-by"
KEPT_BY_LEADER: Final = "leader"
CERT_MANAGER: Final = "cert-manager.io/certificate-name"


class Authorities:
    """Every CA certificate that the three Secrets hold, by id."""

    def __init__(self, pems: Iterable[bytes]) -> None:
        self.by_id: dict[str, x509.Certificate] = {}
        for pem in pems:
            for certificate in _certificates(pem):
                self.by_id[id_of(certificate)] = certificate

    def issuer_of(self, leaf: x509.Certificate) -> str:
        """The id of the CA that signed `leaf`; empty when none of them did."""
        for name, authority in self.by_id.items():
            try:
                leaf.verify_directly_issued_by(authority)
            except (ValueError, TypeError, InvalidSignature):
                continue
            return name
        return ""

    def pem_of(self, names: Iterable[str]) -> bytes:
        """The certificates of `names`, one after the other."""
        found = (self.by_id[name] for name in names)
        return b"".join(each.public_bytes(serialization.Encoding.PEM) for each in found)


def id_of(certificate: x509.Certificate) -> str:
    """A name for a certificate that no other one has."""
    return certificate.fingerprint(hashes.SHA256()).hex()


def read(
    authority: Secret | None, leaves: Mapping[Role, Secret | None], namespace: str
) -> tuple[Seen, Authorities]:
    """What the Secrets of the fleet in `namespace` hold; None where there is none."""
    present = [secret for secret in leaves.values() if secret is not None]
    pems = [secret.data.get(AUTHORITIES, b"") for secret in present]
    if authority is not None:
        pems += [authority.data.get(CERTIFICATE, b""), authority.data.get(NEXT_CERTIFICATE, b"")]
    known = Authorities(pems)
    seen = Seen(
        authority=_authority(authority) if authority is not None else None,
        leaves={
            role: _leaf(role, secret, known, namespace) if secret is not None else None
            for role, secret in leaves.items()
        },
        newest_creation=max(
            (_creation(secret) for secret in (authority, *present) if secret is not None), default=0.0
        ),
    )
    return seen, known


def is_ours(secret: Secret) -> bool:
    """Whether the leader keeps it."""
    metadata = secret.metadata
    return metadata.labels.get(LABEL_KEPT_BY) == KEPT_BY_LEADER and CERT_MANAGER not in metadata.annotations


def _authority(secret: Secret) -> AuthoritySeen:
    current, problem = _signing(secret.data.get(CERTIFICATE, b""), secret.data.get(KEY, b""))
    following, _ = _signing(secret.data.get(NEXT_CERTIFICATE, b""), secret.data.get(NEXT_KEY, b""))
    return AuthoritySeen(secret.metadata.resource_version, is_ours(secret), current, following, problem)


def _signing(pem: bytes, key: bytes) -> tuple[Certificate | None, str]:
    try:
        Material(pem, key, pem).check()
    except MaterialInvalid as error:
        return None, str(error)
    certificate = _certificates(pem)[0]
    try:
        is_authority = certificate.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    except (x509.ExtensionNotFound, ValueError):
        is_authority = False
    if not is_authority:
        return None, f"{CERTIFICATE} is not a CA's"
    if not isinstance(certificate.public_key(), (ec.EllipticCurvePublicKey, rsa.RSAPublicKey)):
        return None, f"{CERTIFICATE} has a key that is neither ECDSA nor RSA"
    return _view(certificate), ""


def _leaf(role: Role, secret: Secret, known: Authorities, namespace: str) -> LeafSeen:
    bundle = tuple(id_of(each) for each in _certificates(secret.data.get(AUTHORITIES, b"")))
    entries = (secret.data.get(entry, b"") for entry in (CERTIFICATE, KEY, AUTHORITIES))
    leaf: Certificate | None = None
    issuer = ""
    try:
        material = Material(*entries)
        material.check()
        certificate = _certificates(material.certificate)[0]
        _check_names(certificate, role, namespace)
    except MaterialInvalid as error:
        problem = str(error)
    else:
        issuer = known.issuer_of(certificate)
        leaf = _view(certificate) if issuer else None
        problem = "" if issuer else f"{CERTIFICATE} was signed by no CA in {AUTHORITIES}"
    return LeafSeen(secret.metadata.resource_version, is_ours(secret), leaf, issuer, bundle, problem)


def _check_names(certificate: x509.Certificate, role: Role, namespace: str) -> None:
    try:
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        uris = names.get_values_for_type(x509.UniformResourceIdentifier)
        hosts = names.get_values_for_type(x509.DNSName)
    except (x509.ExtensionNotFound, ValueError):
        uris, hosts = [], []
    if role_named(uris, namespace) is not role:
        raise MaterialInvalid(CERTIFICATE, f"does not name the role {role.value} of this fleet")
    if (WORKER_NAME in hosts) is not (role is Role.WORKER):
        raise MaterialInvalid(CERTIFICATE, f"is {WORKER_NAME}, or is not, against its role {role.value}")


def _certificates(pem: bytes) -> list[x509.Certificate]:
    try:
        return x509.load_pem_x509_certificates(pem)
    except ValueError:
        return []


def _view(certificate: x509.Certificate) -> Certificate:
    return Certificate(
        id_of(certificate),
        certificate.not_valid_before_utc.timestamp(),
        certificate.not_valid_after_utc.timestamp(),
    )


def _creation(secret: Secret) -> float:
    try:
        return parse_time(secret.metadata.creation_timestamp or "").timestamp()
    except ValueError:
        return 0.0
