"""Trust: the cluster's own CA and no other, names as the kubeconfig says, client certificates, and rotation while running."""

from __future__ import annotations

import asyncio
import base64
import gc
import socket
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from aiohttp import web
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from noctaya.kube.client import Client
from noctaya.kube.config import ClientCertificate, ClusterConfig, Pem
from noctaya.kube.errors import ConfigError, Unauthorized, Unavailable
from noctaya.kube.tls import Tls

Serve = Callable[["Authority"], AbstractAsyncContextManager[str]]


@dataclass
class Pair:
    certificate: bytes
    key: bytes

    def write(self, folder: Path) -> tuple[Path, Path]:
        folder.mkdir(exist_ok=True)
        certificate, key = folder / "tls.crt", folder / "tls.key"
        certificate.write_bytes(self.certificate)
        key.write_bytes(self.key)
        return certificate, key


class Authority:
    """A home-made CA, as clusters have them: no key identifiers, which strict verification would refuse."""

    def __init__(self, name: str) -> None:
        self.key = ec.generate_private_key(ec.SECP256R1())
        self.name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        builder = self._builder(self.name, self.key).add_extension(
            x509.BasicConstraints(ca=True, path_length=None), True
        )
        self.pem = builder.sign(self.key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)

    def issue(self, common_name: str) -> Pair:
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])
        names = x509.SubjectAlternativeName([x509.DNSName(common_name)])
        certificate = self._builder(subject, key).add_extension(names, False).sign(self.key, hashes.SHA256())
        return Pair(
            certificate.public_bytes(serialization.Encoding.PEM),
            key.private_bytes(
                serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
            ),
        )

    def _builder(self, subject: x509.Name, key: ec.EllipticCurvePrivateKey) -> x509.CertificateBuilder:
        now = datetime.now(UTC)
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self.name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - timedelta(hours=1))
            .not_valid_after(now + timedelta(hours=1))
        )


@pytest.fixture
def authority() -> Authority:
    return Authority("cluster-ca")


@pytest.fixture
def serve(tmp_path: Path) -> Serve:
    """An https server for `kubernetes.default` that answers with the common name of the client's certificate."""

    @asynccontextmanager
    async def run(authority: Authority) -> AsyncIterator[str]:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(*authority.issue("kubernetes.default").write(tmp_path / "server"))
        context.load_verify_locations(cadata=authority.pem.decode())
        context.verify_mode = ssl.CERT_OPTIONAL

        async def answer(request: web.Request) -> web.Response:
            assert request.transport is not None
            peer: dict[str, Any] = request.transport.get_extra_info("peercert") or {}
            name = peer.get("subject", ((("commonName", ""),),))[0][0][1]
            if name == "revoked":
                return web.json_response({"kind": "Status", "reason": "Unauthorized"}, status=401)
            return web.json_response({"you": name})

        application = web.Application()
        application.router.add_get("/version", answer)
        runner = web.AppRunner(application, shutdown_timeout=0.1)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context).start()
        try:
            yield f"https://127.0.0.1:{runner.addresses[0][1]}"
        finally:
            await runner.cleanup()

    return run


async def test_the_clusters_ca_and_the_servers_name_are_verified(authority: Authority, serve: Serve) -> None:
    async with serve(authority) as url:
        good = ClusterConfig(server=url, ca=Pem(data=authority.pem), tls_server_name="kubernetes.default")
        async with Client(good) as client:
            assert await client.version() == {"you": ""}
        for bad in (
            ClusterConfig(server=url, ca=Pem(data=authority.pem)),  # the certificate is not for 127.0.0.1
            ClusterConfig(
                server=url, ca=Pem(data=Authority("other").pem), tls_server_name="kubernetes.default"
            ),
            ClusterConfig(server=url, tls_server_name="kubernetes.default"),  # the system trusts no such CA
        ):
            async with Client(bad) as client:
                with pytest.raises(Unavailable, match="certificate verify failed"):
                    await client.version()
        async with Client(ClusterConfig(server=url, insecure=True)) as client:
            assert await client.version() == {"you": ""}


async def test_a_client_certificate_is_shown_from_data_or_files(
    authority: Authority, serve: Serve, tmp_path: Path
) -> None:
    pair = authority.issue("admin")
    files = pair.write(tmp_path / "me")
    async with serve(authority) as url:
        for certificate in (
            ClientCertificate(Pem(data=pair.certificate), Pem(data=pair.key)),
            ClientCertificate(Pem(path=files[0]), Pem(path=files[1])),
        ):
            config = ClusterConfig(
                server=url,
                ca=Pem(data=authority.pem),
                tls_server_name="kubernetes.default",
                client_certificate=certificate,
            )
            async with Client(config) as client:
                assert await client.version() == {"you": "admin"}
            assert base64.b64encode(pair.key).decode() not in repr(config)
            assert "PRIVATE" not in repr(config)


async def test_a_rotated_ca_is_loaded_when_the_server_is_not_trusted(
    authority: Authority, serve: Serve, tmp_path: Path
) -> None:
    bundle = tmp_path / "ca.crt"
    bundle.write_bytes(Authority("old").pem)
    async with serve(authority) as url:
        config = ClusterConfig(server=url, ca=Pem(path=bundle), tls_server_name="kubernetes.default")
        async with Client(config) as client:
            with pytest.raises(Unavailable):
                await client.version()
            bundle.write_bytes(authority.pem)
            assert await client.version() == {"you": ""}


async def test_a_rotated_client_certificate_is_loaded_after_a_401(
    authority: Authority, serve: Serve, tmp_path: Path
) -> None:
    certificate, key = authority.issue("revoked").write(tmp_path / "me")
    async with serve(authority) as url:
        config = ClusterConfig(
            server=url,
            ca=Pem(data=authority.pem),
            tls_server_name="kubernetes.default",
            client_certificate=ClientCertificate(Pem(path=certificate), Pem(path=key)),
        )
        async with Client(config) as client:
            with pytest.raises(Unauthorized):
                await client.version()
            authority.issue("renewed").write(tmp_path / "me")
            assert await client.version() == {"you": "renewed"}


def test_pem_that_is_none_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="not a PEM certificate"):
        Tls(ClusterConfig(server="https://x", ca=Pem(data=b"rubbish"), source="kubeconfig"))
    with pytest.raises(ConfigError, match="cannot read"):
        Tls(ClusterConfig(server="https://x", ca=Pem(path=tmp_path / "missing")))
    broken = ClientCertificate(Pem(data=b"a"), Pem(data=b"b"))
    with pytest.raises(ConfigError, match="do not load"):
        Tls(ClusterConfig(server="https://x", client_certificate=broken))


async def test_a_client_that_is_closed_right_after_a_call_was_cancelled_leaves_no_socket_open(
    authority: Authority, serve: Serve
) -> None:
    """Its connection still says goodbye then, and nobody who ends the loop would wait for it."""
    async with serve(authority) as url:
        port = urlsplit(url).port
        config = ClusterConfig(server=url, ca=Pem(data=authority.pem), tls_server_name="kubernetes.default")
        for turns in (2, 4, 8, 16):  # of the loop, and somewhere among them the call waits for its answer
            async with Client(config) as client:
                await client.version()
                call = asyncio.create_task(client.version())
                for _ in range(turns):
                    await asyncio.sleep(0)
                call.cancel()
                await asyncio.gather(call, return_exceptions=True)
            assert open_sockets(port) == 0, f"after {turns} turns"


def open_sockets(port: int | None) -> int:
    """Connections of this process to `port`."""
    return sum(isinstance(one, socket.socket) and peer_port(one) == port for one in gc.get_objects())


def peer_port(one: socket.socket) -> int | None:
    if one.family is not socket.AF_INET:
        return None
    try:
        return int(one.getpeername()[1])
    except OSError:  # it listens, or is closed
        return None
