"""Who may use a model: client keys, compared as HMAC-SHA256 digests in constant time.

A gateway never holds a key, only digests and the secret that makes them. It fails closed: a service that needs keys and has
none is refused to everybody, and a service without keys is served only in a namespace that the fleet's policy opens.
"""

import hashlib
import hmac
from collections.abc import Iterable
from dataclasses import dataclass

from noctaya.gateway import openai_errors
from noctaya.gateway.openai_errors import Refusal
from noctaya.gateway.service import Service

BEARER = "bearer "


@dataclass(frozen=True, slots=True)
class Caller:
    """Whoever sent a request, as far as a key tells: `digest` is None without a usable Bearer token."""

    digest: bytes | None


@dataclass(frozen=True, slots=True)
class Gate:
    """The fleet's policy and secret. Without a secret (no worker spoke yet) nobody who needs a key gets in."""

    secret: bytes = b""
    open_namespaces: frozenset[str] = frozenset()

    def caller(self, authorization: str | None) -> Caller:
        """Read an Authorization header; what is not a Bearer token is as good as nothing."""
        if (
            not authorization
            or not self.secret
            or authorization[:7].lower() != BEARER
            or not authorization[7:]
        ):
            return Caller(None)
        key = authorization[7:].encode("utf-8", "surrogateescape")
        return Caller(hmac.new(self.secret, key, hashlib.sha256).digest())

    def is_open(self, service: Service) -> bool:
        """True when the service is served without a key."""
        if service.auth_required or service.digests:
            return False
        return "*" in self.open_namespaces or service.namespace in self.open_namespaces

    def opens_any(self, namespaces: Iterable[str]) -> bool:
        """True when one of these namespaces is open."""
        return any(
            "*" in self.open_namespaces or namespace in self.open_namespaces for namespace in namespaces
        )

    def allows(self, service: Service, caller: Caller) -> bool:
        """True when the caller may use the service."""
        return self.is_open(service) or _matches(service, caller)

    def check(self, service: Service, caller: Caller) -> None:
        """Let the caller pass.

        Raises:
            Refusal: 401 (no key, or a wrong one), 403 (closed namespace), 503 (no keys to compare with).
        """
        if refusal := self.objection(service, caller):
            raise refusal

    def objection(self, service: Service, caller: Caller) -> Refusal | None:
        """Why the caller may not use the service; None when it may."""
        if self.is_open(service):
            return None
        if not service.auth_required and not service.digests:
            return openai_errors.namespace_closed(service.key)
        if not service.digests or not self.secret:
            return openai_errors.authentication_unavailable(service.key)
        if caller.digest is None:
            return openai_errors.unauthorized(
                "You did not provide an API key. Send it as 'Authorization: Bearer KEY'.", "missing_api_key"
            )
        if not _matches(service, caller):
            return openai_errors.unauthorized(f"The API key is not valid for model '{service.key}'.")
        return None


def _matches(service: Service, caller: Caller) -> bool:
    if caller.digest is None:
        return False
    found = False
    for digest in service.digests:  # no early end: the time must not tell which key came close
        found |= hmac.compare_digest(digest, caller.digest)
    return found
