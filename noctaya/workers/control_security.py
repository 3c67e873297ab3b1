"""Port 9443 as a worker sees it: who may call, who we are when we call another worker, and whence our certificate comes.

The certificate is a Secret mounted as files. In a fleet's first minutes it is not there yet: some worker first has to lead and
make it, and kubelet takes another minute to bring it. So until there are files the Secret is asked for by name (`run`). Until there
is anything the port listens and refuses every handshake. Without `tls.directory` everything is plaintext and nobody has a role.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from typing import Final, Literal

import grpc.aio
from pydantic import Field

from noctaya.kube import Client
from noctaya.kube.errors import KubeError, NotFound
from noctaya.kube.objects import Secret
from noctaya.kube.resources import SECRETS
from noctaya.leader.certificate_keeping import CertificateKeeping
from noctaya.leader.certificate_reading import LEAF_SECRETS
from noctaya.leader.certificates import DAY, CertificateTiming
from noctaya.telemetry import context
from noctaya.wire import control
from noctaya.wire.errors import MaterialInvalid
from noctaya.wire.identity import Role
from noctaya.wire.material import AUTHORITIES, CERTIFICATE, KEY, Material, MountedMaterial
from noctaya.wire.mutual_tls import RoleCheck, SecureChannels, add_port, open_plaintext
from noctaya.wire.options import PEER_OPTIONS, ChannelOptions
from noctaya.wire.tls_settings import TlsSettings, mounted
from noctaya.workers.problems import Problem

log = logging.getLogger(__name__)

OWN_SECRET: Final = LEAF_SECRETS[Role.WORKER]
ASK_SECONDS: Final = 2.0
REQUEST_SECONDS: Final = 3.0

CONTROL_SERVICE: Final = control.DESCRIPTOR.services_by_name["Control"].full_name
PEER_SERVICE: Final = "noctaya.peer.v1.Peer"
ALLOWED: Final = {CONTROL_SERVICE: (Role.GATEWAY,), PEER_SERVICE: (Role.WORKER,)}


class WorkerTlsSettings(TlsSettings):
    """Mutual TLS on port 9443, and how the leader keeps its certificates. The lifetimes alike on every worker."""

    kept_by: Literal["leader", "others"] = "leader"
    """Who makes and renews the three Secrets; `others`: cert-manager, or a person."""
    authority_days: float = Field(default=365.0, gt=0)
    """Lifetime of the fleet's CA; renewed at two thirds of it."""
    leaf_days: float = Field(default=30.0, gt=0)
    """Lifetime of the workers' and the gateways' certificate; renewed at two thirds of it."""
    overlap_seconds: float = Field(default=600.0, gt=0)
    """How long a new CA is trusted before it signs, and an old one after; longer than a mounted Secret takes to arrive."""

    def timing(self) -> CertificateTiming:
        """For the leader. Raises CertificateTimingRefused."""
        return CertificateTiming(
            authority=self.authority_days * DAY, leaf=self.leaf_days * DAY, overlap=self.overlap_seconds
        )


class OwnMaterial:
    """A worker's `Source`: its files, and until there are any, what the API server gave."""

    def __init__(self, files: MountedMaterial) -> None:
        self._files = files
        self._asked: Material | None = None

    @property
    def problem(self) -> str | None:
        """See `Source`."""
        return None if self.current() is not None else self._files.problem

    def current(self) -> Material | None:
        """See `Source`."""
        return self._files.current() or self._asked

    async def ask(self, client: Client, namespace: str) -> None:
        """Ask for the Secret every two seconds until it is mounted."""
        while self._files.current() is None:
            try:
                async with asyncio.timeout(REQUEST_SECONDS):
                    secret = await client.get(SECRETS, namespace, OWN_SECRET, into=Secret)
                material = Material(
                    *(secret.data.get(entry, b"") for entry in (CERTIFICATE, KEY, AUTHORITIES))
                )
                material.check()
            except NotFound:
                log.debug("no certificate yet", extra=context(secret=OWN_SECRET))
            except (KubeError, TimeoutError, MaterialInvalid) as error:
                log.debug("certificate not read", extra=context(secret=OWN_SECRET, error=error))
            else:
                if material != self._asked:
                    self._asked = material
                    log.info("certificate asked for", extra=context(secret=OWN_SECRET, material=material))
            await asyncio.sleep(ASK_SECONDS)


class ControlSecurity:
    """Everything that port 9443 and calls to other workers need; the same questions with and without TLS.

    `namespace` is the fleet's. `peer_options` are those of channels to other workers.
    """

    def __init__(
        self, settings: TlsSettings, namespace: str, *, peer_options: ChannelOptions = PEER_OPTIONS
    ) -> None:
        self._namespace = namespace
        files = mounted(settings)
        self._source = OwnMaterial(files) if files is not None else None
        self._check = RoleCheck(namespace, ALLOWED) if self._source is not None else None
        self._channels = SecureChannels(self._source, peer_options) if self._source is not None else None
        self._peer_options = peer_options

    @property
    def refused(self) -> dict[tuple[str, str], int]:
        """(service, role) → calls refused for their role; for metrics."""
        return self._check.refused if self._check is not None else {}

    def interceptors(self) -> list[grpc.aio.ServerInterceptor]:
        """For `grpc.aio.server(interceptors=…)`."""
        return [self._check] if self._check is not None else []

    def add_port(self, server: grpc.aio.Server, address: str) -> int:
        """Let `server` listen on `address`; RuntimeError when it is taken."""
        if self._source is None:
            return server.add_insecure_port(address)
        return add_port(server, address, self._source)

    def open_channel(self, address: str) -> grpc.aio.Channel:
        """A new channel to another worker. Raises MaterialMissing, a NoctayaError: for the caller that is no answer."""
        if self._channels is None:
            return open_plaintext(address, self._peer_options)
        return self._channels(address)

    def is_current(self, channel: grpc.aio.Channel) -> bool:
        """Whether `channel` was made with our present certificate; one that was not should be closed and made anew."""
        return self._channels is None or self._channels.is_current(channel)

    async def run(self, client: Client) -> None:
        """Get the first certificate; returns when it is mounted, at once without TLS."""
        if self._source is not None:
            await self._source.ask(client, self._namespace)

    def problems(self) -> Iterator[Problem]:
        """What /readyz should say."""
        if self._source is not None and (problem := self._source.problem) is not None:
            yield Problem(
                "ControlCertificateMissing",
                f"this worker has no certificate ({problem}): no gateway and no worker reaches it. The leader makes Secret "
                f"{self._namespace}/{OWN_SECRET}; look at its own problems.",
            )


def keeping_problems(keeping: CertificateKeeping) -> Iterator[Problem]:
    """What /readyz of the leading worker should say about the certificates that it keeps for all."""
    if keeping.problems:
        yield Problem("CertificatesUnkept", " ".join(keeping.problems))
