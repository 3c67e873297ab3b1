"""Who is at the other end of the control link: the names inside our certificates, and what they allow.

A certificate names its holder's role in exactly one URI, `spiffe://noctaya/<namespace of the fleet>/worker` or `/gateway`, so
that two fleets which share an issuer stay apart. A worker's also carries one fixed DNS name: clients find workers by address,
which says nothing about who listens there, and ask for that name instead. A gateway's carries no DNS name, so that nobody takes a
gateway for a worker. Whatever does not read exactly so names nobody.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import Enum
from typing import Final, Protocol


class Role(Enum):
    """What a process of the fleet is."""

    WORKER = "worker"
    GATEWAY = "gateway"


TRUST_DOMAIN: Final = "noctaya"
WORKER_NAME: Final = "worker.noctaya.internal"
"""In every worker's certificate; resolved by nobody."""

PEER_URIS: Final = "peer_uri"
"""gRPC's name for the URIs of the certificate that the peer has proved to hold; absent without TLS."""


class CallContext(Protocol):
    """What of a servicer's context is used."""

    def auth_context(self) -> Mapping[str, Iterable[bytes]]: ...


def identity_uri(namespace: str, role: Role) -> str:
    """The URI that names `role` of the fleet in `namespace`."""
    return f"spiffe://{TRUST_DOMAIN}/{namespace}/{role.value}"


def role_named(uris: Iterable[str], namespace: str) -> Role | None:
    """The role that the URIs of one certificate name in the fleet of `namespace`; None for none, or more than one URI."""
    found = list(uris)
    if len(found) != 1:
        return None
    return next((role for role in Role if identity_uri(namespace, role) == found[0]), None)


def role_of(context: CallContext, namespace: str) -> Role | None:
    """Who calls, by the certificate that the TLS handshake has verified. None: nobody of this fleet, or no TLS."""
    uris = context.auth_context().get(PEER_URIS, ())
    return role_named((uri.decode("utf-8", "replace") for uri in uris), namespace)
