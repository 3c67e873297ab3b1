"""A whole rotation with real certificates and real connections: no stream ends by it, and no new one is refused."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from noctaya.leader.certificate_reading import AUTHORITY_SECRET, LEAF_SECRETS
from noctaya.wire.identity import Role
from noctaya.wire.material import MountedMaterial
from noctaya.wire.mutual_tls import SecureChannels
from tests.leader.test_certificate_keeping import TIMING, Kept
from tests.wire.echo import CONTROL, PEER, Served, ask, served
from tests.wire.fleet_material import Mount


@dataclass
class Holder:
    """A process with its mount, to which a changed Secret comes `lateness` seconds late."""

    role: Role
    mount: Mount
    lateness: float
    pending: list[tuple[float, dict[str, bytes]]] = field(default_factory=list)
    seen: str = ""

    def follow(self, kept: Kept) -> None:
        secret = kept.server.secrets[LEAF_SECRETS[self.role]]
        if secret.metadata.resource_version != self.seen:
            self.pending.append((kept.passed + (self.lateness if self.seen else 0.0), dict(secret.data)))
            self.seen = secret.metadata.resource_version
        while self.pending and self.pending[0][0] <= kept.passed:
            self.mount.put_files(self.pending.pop(0)[1])


@contextlib.asynccontextmanager
async def two_workers(mounts: list[Mount]) -> AsyncIterator[list[Served]]:
    async with contextlib.AsyncExitStack() as stack:
        yield [await stack.enter_async_context(served(MountedMaterial(mount.directory))) for mount in mounts]


async def test_no_stream_ends_and_no_call_is_refused_by_a_rotation(tmp_path: Path) -> None:
    kept = Kept()
    await kept.settle()
    lateness = [(Role.WORKER, 0.0), (Role.WORKER, 95.0), (Role.GATEWAY, 45.0), (Role.GATEWAY, 95.0)]
    holders = [Holder(role, Mount(tmp_path / str(n)), late) for n, (role, late) in enumerate(lateness)]
    for holder in holders:
        holder.follow(kept)
    async with two_workers([holder.mount for holder in holders[:2]]) as workers:
        channels = [SecureChannels(MountedMaterial(holder.mount.directory)) for holder in holders]
        async with channels[2](workers[0].address) as linked:
            stream: Any = linked.stream_stream(f"/{CONTROL}/Written")()
            calls = 0
            authorities = set()
            while kept.passed < TIMING.authority * TIMING.renew_at + 5 * TIMING.overlap:
                await kept.settle()
                for holder in holders:
                    holder.follow(kept)
                authorities.add(kept.server.secrets[AUTHORITY_SECRET].data["tls.crt"])
                if kept.passed > TIMING.authority * TIMING.renew_at - 50 or kept.passed % 200 == 0:
                    calls += await call_everybody(holders, channels, workers)
                    await stream.write(str(calls).encode())
                    async with asyncio.timeout(10):
                        assert await stream.read() == str(calls).encode()
                kept.passed += 10.0
            stream.cancel()
    assert len(authorities) == 2, "the whole rotation has been seen"
    assert len({kept.material(role).authorities for role in Role} & authorities) == 1, "up to its end"
    assert calls > 300


async def call_everybody(holders: list[Holder], channels: list[SecureChannels], workers: list[Served]) -> int:
    """Every holder calls every worker on a connection of its own, as its role may."""
    calls = 0
    for holder, open_channel in zip(holders, channels, strict=True):
        for worker in workers:
            service = PEER if holder.role is Role.WORKER else CONTROL
            async with open_channel(worker.address) as channel:
                assert await ask(channel, service) == b"hello"
            calls += 1
    return calls
