"""Port 9443 of a worker: the same questions with and without TLS, and the first certificate of a new fleet."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, cast

import grpc
import grpc.aio
import pytest

from noctaya.kube import Client
from noctaya.kube.errors import Forbidden, Unavailable
from noctaya.kube.objects import Metadata, Secret
from noctaya.leader.certificates import CertificateTiming
from noctaya.leader.errors import CertificateTimingRefused
from noctaya.wire import peer
from noctaya.wire.errors import MaterialMissing
from noctaya.wire.identity import Role
from noctaya.wire.material import AUTHORITIES, CERTIFICATE, KEY, Material
from noctaya.wire.mutual_tls import SecureChannels
from noctaya.workers.control_security import (
    CONTROL_SERVICE,
    OWN_SECRET,
    PEER_SERVICE,
    ControlSecurity,
    WorkerTlsSettings,
)
from tests.leader.secret_server import SecretServer
from tests.wire.echo import Echo, ask, code_of
from tests.wire.fleet_material import NAMESPACE, Given, Issuer, Mount, is_secret_free
from tests.workers.clients import until

ISSUER = Issuer()
WORKER, GATEWAY = ISSUER.material(Role.WORKER), ISSUER.material(Role.GATEWAY)


def secret(material: Material) -> Secret:
    data = {CERTIFICATE: material.certificate, KEY: material.key, AUTHORITIES: material.authorities}
    return Secret(metadata=Metadata(name=OWN_SECRET), data=data)


@contextlib.asynccontextmanager
async def port_of(security: ControlSecurity) -> AsyncIterator[str]:
    """A worker's port 9443 with our two services behind it."""
    echo = Echo()
    server = grpc.aio.server(interceptors=security.interceptors())
    server.add_generic_rpc_handlers([echo.handlers(CONTROL_SERVICE), echo.handlers(PEER_SERVICE)])
    port = security.add_port(server, "127.0.0.1:0")
    await server.start()
    try:
        yield f"127.0.0.1:{port}"
    finally:
        await server.stop(0)


def secure(tmp_path: Path, material: Material | None = WORKER) -> ControlSecurity:
    mount = Mount(tmp_path / "tls")
    if material is not None:
        mount.put(material)
    return ControlSecurity(WorkerTlsSettings(directory=str(mount.directory)), NAMESPACE)


def test_the_services_have_their_names() -> None:
    assert CONTROL_SERVICE == "noctaya.control.v1.Control"
    assert [service.full_name for service in peer.DESCRIPTOR.services_by_name.values()] == [PEER_SERVICE]


async def test_workers_talk_to_workers_and_gateways_only_to_the_control_service(tmp_path: Path) -> None:
    security = secure(tmp_path)
    async with port_of(security) as address:
        async with security.open_channel(address) as channel:
            assert await ask(channel, PEER_SERVICE) == b"hello"
            assert await code_of(ask(channel, CONTROL_SERVICE)) is grpc.StatusCode.PERMISSION_DENIED
        async with SecureChannels(Given(GATEWAY))(address) as channel:
            assert await ask(channel, CONTROL_SERVICE) == b"hello"
            assert await code_of(ask(channel, PEER_SERVICE)) is grpc.StatusCode.PERMISSION_DENIED
    assert security.refused == {(CONTROL_SERVICE, "worker"): 1, (PEER_SERVICE, "gateway"): 1}
    assert list(security.problems()) == []


async def test_without_the_setting_everything_is_plaintext_as_before(
    caplog: pytest.LogCaptureFixture,
) -> None:
    security = ControlSecurity(WorkerTlsSettings(), NAMESPACE)
    assert "PLAINTEXT" in caplog.text
    async with port_of(security) as address, security.open_channel(address) as channel:
        assert await ask(channel, PEER_SERVICE) == b"hello"
        assert security.is_current(channel)
    await security.run(cast("Client", SecretServer()))
    assert (security.refused, list(security.problems())) == ({}, [])


async def test_until_it_is_mounted_the_certificate_is_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("noctaya.workers.control_security.ASK_SECONDS", 0.01)
    security, server = secure(tmp_path, None), SecretServer()
    caplog.set_level(logging.DEBUG)
    async with port_of(security) as address:
        with pytest.raises(MaterialMissing):
            security.open_channel(address)
        (problem,) = security.problems()
        assert OWN_SECRET in problem.message
        running = asyncio.create_task(security.run(cast("Client", server)))
        await refused_then_given(server)
        await until(lambda: not list(security.problems()))
        async with security.open_channel(address) as channel:
            assert await ask(channel, PEER_SERVICE) == b"hello"
        Mount(tmp_path / "tls").put(ISSUER.material(Role.WORKER))
        async with asyncio.timeout(10):
            await running
        assert not security.is_current(channel)
    assert is_secret_free(str([record.__dict__ for record in caplog.records]), WORKER)


async def refused_then_given(server: SecretServer) -> None:
    """Nothing there, no answer, garbage, and then the certificate."""
    await until(lambda: server.reads >= 2)
    answers: list[Any] = [Unavailable, Forbidden, None]
    for server.refusal in answers:
        reads = server.reads
        await until(lambda reads=reads: server.reads >= reads + 2)  # type: ignore[misc]
    server.put(OWN_SECRET, Secret(metadata=Metadata(name=OWN_SECRET), data={CERTIFICATE: b"x"}))
    reads = server.reads
    await until(lambda: server.reads >= reads + 2)
    server.put(OWN_SECRET, secret(WORKER))


def test_lifetimes_are_given_in_days_and_refused_where_they_leave_no_room() -> None:
    assert WorkerTlsSettings().timing() == CertificateTiming()
    with pytest.raises(CertificateTimingRefused):
        WorkerTlsSettings(leaf_days=0.01).timing()
