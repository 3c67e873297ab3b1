"""Mutual TLS for gRPC that follows rotated certificates: ports, channels, and who may call what.

A server asks for its material before every handshake, so a rotated certificate counts for the next connection and leaves those
that stand alone. A port opened before there is any material refuses every handshake until there is some; there is no way back to
plaintext. A channel keeps the material it was made with for its own reconnects: whoever holds channels for long closes those of
which `is_current` says no, within the rotation's overlap. Each call's role is checked, not each connection's: one port serves
gateways and workers.
"""

from __future__ import annotations

import inspect
import logging
import threading
import weakref
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Final, cast

import grpc
import grpc.aio
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from noctaya.telemetry import context as values
from noctaya.wire.errors import MaterialMissing
from noctaya.wire.identity import WORKER_NAME, Role, role_of
from noctaya.wire.material import Material, Source
from noctaya.wire.options import CLIENT_OPTIONS, ChannelOptions
from noctaya.wire.x509_parts import private_pem

log = logging.getLogger(__name__)

ChannelMaker = Callable[[str], grpc.aio.Channel]
"""`host:port` → a new channel, the caller's to close. May raise MaterialMissing."""

TARGET_NAME: Final = "grpc.ssl_target_name_override"
LINK_OPTIONS: Final[ChannelOptions] = tuple(
    {**dict(CLIENT_OPTIONS), "grpc.min_reconnect_backoff_ms": 2_000}.items()
)
"""That option is also how long one attempt to connect may take. A plaintext one needs milliseconds; handshakes of many gateways at
once with a worker that has just started took 0.9 s on two busy cores, and one that is given up costs as much again."""


def add_port(server: grpc.aio.Server, address: str, source: Source) -> int:
    """Let `server` listen with mutual TLS; returns its port. Before `server.start()`; RuntimeError when the port is taken."""
    configurations = _Configurations(source)
    # The library takes None for "as before", which its type stubs do not say.
    fetch = cast("Callable[[], grpc.ServerCertificateConfiguration]", configurations.fetch)
    credentials = grpc.dynamic_ssl_server_credentials(
        configurations.first(), fetch, require_client_authentication=True
    )
    return server.add_secure_port(address, credentials)


class _Configurations:
    """What one port presents and trusts. A configuration is used up by the library, so each is made for one change."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._lock = threading.Lock()
        self._served: Material | None = None

    def first(self) -> grpc.ServerCertificateConfiguration:
        self._served = self._source.current()
        return _configuration(self._served or _nobodys())

    def fetch(self) -> grpc.ServerCertificateConfiguration | None:
        """Called before each handshake, on a thread of the library's."""
        with self._lock:
            material = self._source.current()
            if material is None or material == self._served:
                return None
            self._served = material
            return _configuration(material)


def _configuration(material: Material) -> grpc.ServerCertificateConfiguration:
    return grpc.ssl_server_certificate_configuration(
        [(material.key, material.certificate)], root_certificates=material.authorities
    )


def _nobodys() -> Material:
    """A certificate that nobody trusts, trusting nobody: a CA that has never signed and whose key is gone with this call."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "noctaya-nobody")])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + timedelta(hours=1))
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(key, hashes.SHA256())
    )
    pem = certificate.public_bytes(serialization.Encoding.PEM)
    return Material(pem, private_pem(key), pem)


def open_plaintext(address: str, options: ChannelOptions = CLIENT_OPTIONS) -> grpc.aio.Channel:
    """A channel without TLS, for a fleet that is set so: tests and one machine's loopback."""
    return grpc.aio.insecure_channel(address, options=options)


class SecureChannels:
    """A `ChannelMaker` whose channels prove who we are, and talk to nobody but a worker of our fleet."""

    def __init__(self, source: Source, options: ChannelOptions = LINK_OPTIONS) -> None:
        self._source = source
        self._options = (*options, (TARGET_NAME, WORKER_NAME))
        self._made_with = weakref.WeakKeyDictionary[grpc.aio.Channel, Material]()
        self._newest: tuple[Material, grpc.ChannelCredentials] | None = None

    def __call__(self, address: str) -> grpc.aio.Channel:
        """A new channel, with the material of this moment. Raises MaterialMissing before there was any."""
        material = self._source.current()
        if material is None:
            raise MaterialMissing(self._source.problem or "it is not known why")
        channel = grpc.aio.secure_channel(address, self._credentials(material), options=self._options)
        self._made_with[channel] = material
        return channel

    def is_current(self, channel: grpc.aio.Channel) -> bool:
        """Whether a new channel would be made with the same material as `channel`."""
        return self._made_with.get(channel) == self._source.current()

    def _credentials(self, material: Material) -> grpc.ChannelCredentials:
        if self._newest is None or self._newest[0] != material:
            made = grpc.ssl_channel_credentials(material.authorities, material.key, material.certificate)
            self._newest = (material, made)
        return self._newest[1]


class RoleCheck(grpc.aio.ServerInterceptor):
    """Lets a call through when the caller's certificate names a role that may call its service; else PERMISSION_DENIED.

    `allowed` is by service (`noctaya.control.v1.Control`); what it does not name is for nobody. Only for servers whose every
    port is secure: without a certificate nobody has a role.
    """

    def __init__(self, namespace: str, allowed: Mapping[str, Collection[Role]]) -> None:
        self.refused: dict[tuple[str, str], int] = {}
        """(service, role or `nobody`) → calls refused."""
        self._namespace = namespace
        self._allowed = {service: frozenset(roles) for service, roles in allowed.items()}
        self._checked: dict[str, grpc.RpcMethodHandler[Any, Any]] = {}

    async def intercept_service(
        self,
        continuation: Callable[[Any], Awaitable[Any]],
        handler_call_details: Any,
    ) -> Any:
        """The library's hook: the handler of one call, with the check before it. It has no access to the caller itself."""
        method: str = handler_call_details.method
        handler = await continuation(handler_call_details)
        if handler is None:
            return None
        if method not in self._checked:
            self._checked[method] = _guarded(handler, self._refusal_of(method.strip("/").rpartition("/")[0]))
        return self._checked[method]

    def _refusal_of(self, service: str) -> Callable[[Any], Awaitable[None]]:
        allowed = self._allowed.get(service, frozenset())

        async def refuse_others(context: Any) -> None:
            role = role_of(context, self._namespace)
            if role in allowed:
                return
            who = role.value if role is not None else "nobody"
            self.refused[service, who] = self.refused.get((service, who), 0) + 1
            log.warning("call refused", extra=values(service=service, role=who, peer=context.peer()))
            # Aborting raises: nothing of the handler runs.
            await context.abort(
                grpc.StatusCode.PERMISSION_DENIED, f"{service} is not for {who} of {self._namespace}"
            )

        return refuse_others


def _guarded(
    handler: Any, refuse_others: Callable[[Any], Awaitable[None]]
) -> grpc.RpcMethodHandler[Any, Any]:
    """The same handler behind the check. How it answers is kept, for the library tells generators and coroutines apart."""
    kind = _KINDS[handler.request_streaming, handler.response_streaming]
    inner: Callable[[Any, Any], Any] = getattr(handler, kind)

    async def answering(request: Any, context: Any) -> Any:
        await refuse_others(context)
        # A handler that is no coroutine belongs on a thread, where it must not be handed this context.
        if not inspect.iscoroutinefunction(inner):
            await context.abort(grpc.StatusCode.UNIMPLEMENTED, "not implemented")
        return await inner(request, context)

    async def yielding(request: Any, context: Any) -> AsyncIterator[Any]:
        await refuse_others(context)
        async for answer in inner(request, context):
            yield answer

    made: Callable[..., grpc.RpcMethodHandler[Any, Any]] = getattr(grpc, f"{kind}_rpc_method_handler")
    return made(
        yielding if inspect.isasyncgenfunction(inner) else answering,
        request_deserializer=handler.request_deserializer,
        response_serializer=handler.response_serializer,
    )


_KINDS = {
    (False, False): "unary_unary",
    (False, True): "unary_stream",
    (True, False): "stream_unary",
    (True, True): "stream_stream",
}
