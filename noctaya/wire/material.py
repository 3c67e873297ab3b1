"""A certificate, its private key and the CAs to trust, and where a process reads them: a mounted Secret.

Invariants: what `current` gives has been seen whole (the key fits the certificate, every CA parses); once there was one, there
is always one, since a Secret that vanishes or turns to garbage must not cut a link that works; a key stands in no log line and no
message. Files are looked at whenever somebody asks and read again only when they have changed: kubelet swaps all three at once.
"""

from __future__ import annotations

import hashlib
import logging
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

from cryptography import x509
from cryptography.hazmat.primitives import serialization

from noctaya.telemetry import context
from noctaya.wire.errors import MaterialInvalid

log = logging.getLogger(__name__)

CERTIFICATE: Final = "tls.crt"
KEY: Final = "tls.key"
AUTHORITIES: Final = "ca.crt"


@dataclass(frozen=True, slots=True, repr=False)
class Material:
    """PEM, as the three entries of a Secret of type kubernetes.io/tls hold it."""

    certificate: bytes
    key: bytes
    authorities: bytes
    """One or more CA certificates; during a rotation the old one and the new one."""

    def __repr__(self) -> str:
        return f"Material({fingerprint(self.certificate)}, trusts={fingerprint(self.authorities)})"  # never the key

    def check(self) -> None:
        """Raise `MaterialInvalid` where no TLS handshake could be made with this, whatever the time."""
        try:
            chain = x509.load_pem_x509_certificates(self.certificate)
        except ValueError:
            raise MaterialInvalid(CERTIFICATE, "is no PEM certificate") from None
        try:
            key = serialization.load_pem_private_key(self.key, password=None)
        except (ValueError, TypeError):
            # Without the cause: a parser may quote what it could not read.
            raise MaterialInvalid(KEY, "is no unencrypted PEM private key") from None
        if key.public_key() != chain[0].public_key():
            raise MaterialInvalid(KEY, f"does not belong to {CERTIFICATE}")
        try:
            x509.load_pem_x509_certificates(self.authorities)
        except ValueError:
            raise MaterialInvalid(AUTHORITIES, "holds no PEM certificate") from None


class Source(Protocol):
    """Where material comes from. `current` is asked from several threads, at once, must be quick and must not raise."""

    @property
    def problem(self) -> str | None:
        """Why the newest material is not, or not yet, used; None when all is well."""

    def current(self) -> Material | None:
        """The newest good material; None before there was any."""


class MountedMaterial:
    """The three files of a Secret mounted at `directory`."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._lock = threading.Lock()
        self._stamps: tuple[tuple[int, int, int], ...] | None = None
        self._material: Material | None = None
        self._problem: str | None = f"{directory} has not been looked at"

    @property
    def problem(self) -> str | None:
        """See `Source`."""
        return self._problem

    def current(self) -> Material | None:
        """See `Source`."""
        with self._lock:
            try:
                stamps = self._look()
                if stamps != self._stamps:
                    self._take(self._read(), stamps)
            except OSError as error:
                # By its kind and file: while a Secret is not there yet this is the normal state.
                self._complain(f"{error.filename or self._directory}: {error.strerror}")
                self._stamps = None
            except MaterialInvalid as error:
                self._complain(f"{self._directory}: {error}")
            return self._material

    def _take(self, material: Material, before: tuple[tuple[int, int, int], ...]) -> None:
        if self._look() != before:
            return  # swapped while we read; the next to ask finds it whole
        self._stamps = before
        material.check()
        self._problem = None
        if material != self._material:
            self._material = material
            log.info("certificate read", extra=context(directory=self._directory, material=material))

    def _look(self) -> tuple[tuple[int, int, int], ...]:
        found = [(self._directory / entry).stat() for entry in (CERTIFICATE, KEY, AUTHORITIES)]
        return tuple((each.st_ino, each.st_mtime_ns, each.st_size) for each in found)

    def _read(self) -> Material:
        certificate, key, authorities = (
            (self._directory / entry).read_bytes() for entry in (CERTIFICATE, KEY, AUTHORITIES)
        )
        return Material(certificate, key, authorities)

    def _complain(self, problem: str) -> None:
        if problem != self._problem:
            kept = "the one before is used" if self._material else "there is none before"
            log.warning("certificate not read", extra=context(problem=problem, kept=kept))
        self._problem = problem


def fingerprint(pem: bytes) -> str:
    """A short name of public content, for logs."""
    return hashlib.sha256(pem).hexdigest()[:12]
