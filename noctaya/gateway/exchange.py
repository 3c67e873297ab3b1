"""One admitted request, from its endpoint to the last byte: hold it while the model wakes, forward it at most once, relay.

Invariants: demand, places, in-flight counts and the engine's connection are given back on every way out, cancellation
included; a request is sent again only after `ConnectFailed`; an answer that broke never looks whole.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass

from noctaya.gateway import openai_errors
from noctaya.gateway import trace as steps
from noctaya.gateway.admission import Ticket
from noctaya.gateway.balance import Backend
from noctaya.gateway.demand import DemandLedger
from noctaya.gateway.errors import ConnectFailed, UpstreamBroken
from noctaya.gateway.headers import to_client, without
from noctaya.gateway.hold import Heartbeat
from noctaya.gateway.metrics import Metrics
from noctaya.gateway.openai_errors import Refusal
from noctaya.gateway.probes import Probes
from noctaya.gateway.reply import EVENT_STREAM, Reply
from noctaya.gateway.service import Service
from noctaya.gateway.state import GatewayState
from noctaya.gateway.trace import Trace
from noctaya.gateway.upstream import Answer, Outbound, Silent, Upstream
from noctaya.telemetry import context
from noctaya.wire import control

log = logging.getLogger(__name__)


ERROR_BODY_LIMIT = 64 * 1024

FREE_ATTEMPTS = 3
"""So many endpoints are tried without a pause; then each attempt waits longer, up to half a second."""
ATTEMPT_PAUSE_SECONDS = 0.05
MAX_ATTEMPT_PAUSE_SECONDS = 0.5


@dataclass(slots=True)
class Admitted:
    """A request that passed routing, keys and admission."""

    service: Service
    ticket: Ticket
    outbound: Outbound
    wants_stream: bool
    model: str
    request_id: str
    trace: Trace


class Exchange:
    """What serving an admitted request needs; one object per process, no state of its own."""

    def __init__(
        self,
        state: GatewayState,
        demand: DemandLedger,
        probes: Probes,
        upstream: Upstream,
        metrics: Metrics,
        clock: Callable[[], float],
    ) -> None:
        self._state, self._demand, self._probes, self._upstream = state, demand, probes, upstream
        self._metrics, self._clock = metrics, clock

    async def run(self, request: Admitted, reply: Reply) -> None:
        """Serve the request; what it cannot do it raises.

        Raises:
            Refusal: the answer is an error; the caller sends it in the form that `reply` still allows.
        """
        key = request.service.key
        self._demand.arrived(key)
        try:
            await self._serve(request, reply)
        finally:
            self._demand.finished(key)

    async def _serve(self, request: Admitted, reply: Reply) -> None:
        key, trace = request.service.key, request.trace
        heart: Heartbeat | None = None
        is_cold = False
        failures = 0
        while True:
            backend = await self._warm(key)
            if backend is None:
                if not is_cold:
                    is_cold = True
                    heart = self._heart(request, reply)
                    if (
                        heart is not None
                    ):  # a head sent before the engine's own cannot say that the body is compressed
                        request.outbound.headers = without(request.outbound.headers, "accept-encoding")
                backend = await self._hold(request, heart)
                trace.mark(steps.PROBE)
            self._state.balance.started(backend)
            try:
                trace.mark(steps.FORWARDED)
                opening = self._upstream.open(backend.endpoint, request.outbound)
                answer = await (heart.beside(opening, _close) if heart else opening)
            except ConnectFailed as error:
                self._state.balance.ended(backend)
                self._state.balance.failed(backend, self._clock())
                log.debug(
                    "connect failed", extra=context(service=key, pod=backend.endpoint.pod, reason=str(error))
                )
                failures += 1
                await self._pause_between_attempts(request, failures)
                continue
            except BaseException as error:
                self._state.balance.ended(backend)
                if isinstance(error, UpstreamBroken):
                    self._state.balance.failed(backend, self._clock())
                    raise _refusal(key, error) from error
                raise
            try:
                self._state.balance.proved(backend, self._clock())
                request.outbound.body = b""
                self._state.admission.drop_body(request.ticket)
                await self._relay(request, reply, answer, heart, is_cold=is_cold)
            finally:
                answer.close()
                self._state.balance.ended(backend)
            return

    async def _pause_between_attempts(self, request: Admitted, failures: int) -> None:
        """Endpoints whose probes are good and that still cannot be reached must neither spin nor go on for ever."""
        service, elapsed = request.service, request.trace.elapsed
        if elapsed >= service.hold_seconds:
            known = self._state.routes.get(service.key)
            raise openai_errors.activation_timeout(
                service.key, service.hold_seconds, known.problem if known else ""
            )
        if failures >= FREE_ATTEMPTS:
            await asyncio.sleep(min(failures * ATTEMPT_PAUSE_SECONDS, MAX_ATTEMPT_PAUSE_SECONDS))

    # Finding an endpoint

    async def _warm(self, key: str) -> Backend | None:
        """An endpoint that may be used now; one that is Ready but was quiet for long is probed first."""
        balance = self._state.balance
        backend = balance.pick(key, self._clock())
        if backend is None and balance.has_ready(key):
            await self._probes.prove(key)
            backend = balance.pick(key, self._clock())
        return backend

    async def _hold(self, request: Admitted, heart: Heartbeat | None) -> Backend:
        service, trace = request.service, request.trace
        if service.rejects:
            self._demand.rejected(service.key, service.activation_seconds)
            raise openai_errors.cold_start(service.key)
        key, deadline = service.key, trace.start + service.hold_seconds
        waited_from = self._clock()
        found: Backend | None = None
        with self._state.waiter(key, trace) as waiter:
            self._demand.began_waiting(key)
            try:
                async with self._probes.while_waiting(key):
                    while (found := self._state.balance.pick(key, self._clock())) is None:
                        known = self._state.routes.get(key)
                        if known is None:
                            raise openai_errors.service_gone(key)
                        if (now := self._clock()) >= deadline:
                            raise openai_errors.activation_timeout(key, service.hold_seconds, known.problem)
                        await waiter.wait((min(deadline, heart.due) if heart else deadline) - now)
                        if heart:
                            await heart.beat_if_due()
            finally:
                if found is None:
                    self._demand.left(key)
                else:
                    self._demand.served(key)
        self._metrics.of(key).wait.observe(self._clock() - waited_from)
        return found

    def _heart(self, request: Admitted, reply: Reply) -> Heartbeat | None:
        service = request.service
        if not request.wants_stream or service.heartbeat_mode == control.OFF:
            return None

        def phase() -> str:
            known = self._state.routes.get(service.key)
            return known.phase if known else ""

        return Heartbeat(
            reply,
            service,
            request.trace,
            self._clock,
            path=request.outbound.path.partition("?")[0],
            model=request.model,
            request_id=request.request_id,
            phase=phase,
        )

    # Relaying

    async def _relay(
        self, request: Admitted, reply: Reply, answer: Answer, heart: Heartbeat | None, *, is_cold: bool
    ) -> None:
        key, trace = request.service.key, request.trace
        chunks = answer.chunks()
        # The head waits for the body's first byte: until then a failure is a real 502, and both travel in one packet.
        try:
            reading = _first(chunks)
            first = await (heart.beside(reading) if heart else reading)
        except UpstreamBroken as error:
            raise _refusal(key, error) from error
        if is_cold:
            trace.mark(steps.FIRST_BYTE)
            self._tell(request)
        headers = to_client(answer.headers)
        is_stream = _header(answer, "content-type").startswith(EVENT_STREAM)
        tells = is_cold and is_stream and trace.is_asked_for
        if reply.is_committed:
            if answer.status == 200 and _header(answer, "content-encoding") not in {"", "identity"}:
                raise openai_errors.upstream_failed(key, "its answer is compressed, which nobody asked for")
            if answer.status != 200 or not is_stream:
                raise await _as_refusal(key, answer.status, first, chunks)
        else:
            headers.append(("x-request-id", request.request_id))
            if is_cold:
                headers.append((steps.HEADER, trace.as_json()))
            if tells:
                headers = without(headers, "content-length")
            await reply.start(answer.status, headers)
        if tells:
            await reply.write(f": cold-start {trace.as_json()}\n\n".encode())
        try:
            if first:
                await reply.write(first)
            async for chunk in chunks:
                await reply.write(chunk)
        except UpstreamBroken as error:
            raise _refusal(key, error) from error
        await reply.finish()

    def _tell(self, request: Admitted) -> None:
        key, trace = request.service.key, request.trace
        log.info("cold start", extra=context(service=key, request=request.request_id, **trace.offsets()))
        metrics = self._metrics.of(key)
        acked, good, first = (
            trace.seconds(steps.WAKE_ACK),
            trace.seconds(steps.PROBE),
            trace.seconds(steps.FIRST_BYTE),
        )
        if acked is not None:
            metrics.phase("wake", acked)
        if good is not None:
            metrics.phase("ready", good)
        if good is not None and first is not None:
            metrics.phase("answer", first - good)
            metrics.phase("total", first)


def _header(answer: Answer, wanted: str) -> str:
    return next((value.lower() for name, value in answer.headers if name.lower() == wanted), "")


def _close(answer: Answer) -> None:
    answer.close()


def _refusal(key: str, error: UpstreamBroken) -> Refusal:
    if isinstance(error, Silent):
        return openai_errors.upstream_timeout(key, error.seconds)
    return openai_errors.upstream_failed(key, str(error))


async def _first(chunks: AsyncIterator[bytes]) -> bytes:
    return await anext(chunks, b"")


async def _as_refusal(key: str, status: int, first: bytes, chunks: AsyncIterator[bytes]) -> Refusal:
    """What the engine answered, as an error object that fits into a stream whose status is already 200."""
    body = bytearray(first)
    try:
        async for chunk in chunks:
            body += chunk
            if len(body) > ERROR_BODY_LIMIT:
                break
    except UpstreamBroken as error:
        return _refusal(key, error)
    return openai_errors.from_engine(key, status, bytes(body[:ERROR_BODY_LIMIT]))
