"""From a request's head to its answer, for any door: route → authenticate → admit → read the body → exchange.

Order matters: a key is checked before a byte of the body is read when path or Host name the service; a place is taken before
the body is read; only inference paths can wake a model, and only with a body that makes sense. Every refusal leaves here as
an OpenAI error object, or, when the stream has begun, as an event and a cut.
"""

import asyncio
import contextlib
import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from urllib.parse import unquote

import msgspec

from noctaya.gateway import body as bodies
from noctaya.gateway import cors, models, openai_errors, resolve
from noctaya.gateway import trace as steps
from noctaya.gateway.admission import Ticket
from noctaya.gateway.demand import DemandLedger
from noctaya.gateway.exchange import Admitted, Exchange
from noctaya.gateway.headers import request_id, to_engine
from noctaya.gateway.inbound import BodySource, Head
from noctaya.gateway.keys import Caller
from noctaya.gateway.metrics import Metrics
from noctaya.gateway.openai_errors import Refusal
from noctaya.gateway.reply import ClientLeft, CountedReply, Reply
from noctaya.gateway.request_head import climbs
from noctaya.gateway.service import Service
from noctaya.gateway.settings import HttpSettings
from noctaya.gateway.state import GatewayState
from noctaya.gateway.trace import Trace
from noctaya.gateway.upstream import Outbound
from noctaya.telemetry import context

log = logging.getLogger(__name__)

MODELS_PATH = "/v1/models"
CLIENT_LEFT = "499"


@dataclass(slots=True)
class _Outcome:
    """For metrics and log, filled on the way."""

    key: str = ""
    request_id: str = ""


class Intake:
    """Serves every request of the public port."""

    def __init__(
        self,
        settings: HttpSettings,
        state: GatewayState,
        demand: DemandLedger,
        exchange: Exchange,
        metrics: Metrics,
        clock: Callable[[], float],
    ) -> None:
        self._settings, self._state, self._demand = settings, state, demand
        self._exchange, self._metrics, self._clock = exchange, metrics, clock
        self._cut_short: dict[asyncio.Task[object], Refusal | None] = {}
        self.is_draining = False
        """True: answers say `Connection: close`."""

    @property
    def inside(self) -> int:
        """How many requests are being served."""
        return len(self._cut_short)

    def cut_short(self, refusal: Refusal) -> None:
        """End every request that is still being served with this refusal."""
        for task in self._cut_short:
            self._cut_short[task] = refusal
            task.cancel()

    def refused_before(self, refusal: Refusal) -> None:
        """The door refused what is no request: it only counts."""
        metrics = self._metrics.of("")
        metrics.rejected(refusal.reason)
        metrics.answered(str(refusal.status))

    async def serve(self, head: Head, source: BodySource, reply: Reply) -> None:
        """Answer one request; returns when the answer is complete or cut."""
        task = asyncio.current_task()
        if task is None:
            raise RuntimeError("serve runs in a task")
        outcome = _Outcome(request_id=request_id(head.get("x-request-id")))
        self._cut_short[task] = None
        sent = CountedReply(reply, cors.headers(self._settings.cors_origins, head.get("origin")))
        try:
            await self._answer(head, source, sent, outcome)
            self._metrics.of(outcome.key).answered(str(sent.status))
        except Refusal as refusal:
            await self._refuse(refusal, sent, outcome)
        except asyncio.CancelledError:
            refusal_due = self._cut_short[task]
            if refusal_due is None:
                self._metrics.of(outcome.key).answered(CLIENT_LEFT)
                raise
            task.uncancel()
            await self._refuse(refusal_due, sent, outcome)
        except (ClientLeft, TimeoutError):  # or it read nothing for `client_stall_seconds`
            sent.abort()
            self._metrics.of(outcome.key).answered(CLIENT_LEFT)
        except Exception:
            log.exception("request failed", extra=context(request=outcome.request_id, service=outcome.key))
            await self._refuse(openai_errors.internal(), sent, outcome)
        finally:
            del self._cut_short[task]

    async def _answer(self, head: Head, source: BodySource, reply: CountedReply, outcome: _Outcome) -> None:
        trace = Trace(self._clock, is_asked_for=head.get(steps.REQUEST_HEADER) == "1")
        if head.path == "/healthz":
            await reply.whole(200, [("content-type", "text/plain")], b"ok\n")
            return
        if climbs(head.path):
            raise openai_errors.path_not_found(head.method, head.path)
        if head.method == "OPTIONS":
            await reply.whole(
                204, cors.preflight(self._settings.cors_origins, head.get("origin"), head.first), b""
            )
            return
        routes, gate = self._state.routes, self._state.gate
        target = resolve.by_address(routes, head.path, head.get("host"))
        caller = gate.caller(head.get("authorization"))
        if target.path == MODELS_PATH or target.path.startswith(MODELS_PATH + "/"):
            await self._models(head, target, caller, reply)
            return
        _refuse_other_than_inference(head, target)
        if target.service is not None:
            outcome.key = target.service.key
            gate.check(target.service, caller)
            ticket, data = await self._admit_then_read(head, source, target.service)
            service = target.service
        else:
            resolve.refuse_strangers(routes, gate, caller)
            service, ticket, data = await self._read_then_admit(head, source, caller, target.path, outcome)
        try:
            envelope = bodies.scan(data) if bodies.is_json(head.get("content-type")) else bodies.Envelope()
            data = _in_the_engines_words(service, envelope, data)
            admitted = Admitted(
                service=service,
                ticket=ticket,
                outbound=Outbound(
                    head.method,
                    target.path + (f"?{head.query}" if head.query else ""),
                    to_engine(
                        head.headers,
                        client=head.client,
                        scheme=head.scheme,
                        request_id=outcome.request_id,
                        strip_authorization=service.auth_required
                        or bool(service.digests)
                        or (caller.digest is not None and routes.knows_digest(caller.digest)),
                        trust_forwarded=self._settings.trust_forwarded,
                    ),
                    data,
                    may_reuse=service.keeps_alive and not envelope.stream,
                ),
                wants_stream=envelope.stream is True,
                model=envelope.model or service.key,
                request_id=outcome.request_id,
                trace=trace,
            )
            del data
            await self._exchange.run(admitted, reply)
        finally:
            self._state.admission.release(ticket)

    # The list of models

    async def _models(self, head: Head, target: resolve.Target, caller: Caller, reply: CountedReply) -> None:
        if head.method not in {"GET", "HEAD"}:
            raise openai_errors.method_not_allowed(head.method, head.path, "GET")
        gate, wanted = self._state.gate, set(self._demand.wanted())
        if target.service is not None:
            gate.check(target.service, caller)
            visible = [target.service]
        else:
            resolve.refuse_strangers(self._state.routes, gate, caller)
            visible = [service for service in self._state.routes if gate.allows(service, caller)]
        model = unquote(target.path.removeprefix(MODELS_PATH).removeprefix("/"))
        if not model:
            told = models.as_list((service, service.key in wanted) for service in visible)
        else:
            named = [service for service in visible if service.key == model]
            named = named or [service for service in visible if model in service.names]
            if len(named) > 1:
                raise openai_errors.model_ambiguous(model, [service.key for service in named])
            if not named:
                raise openai_errors.model_not_found(model)
            told = models.as_model(named[0], is_wanted=named[0].key in wanted)
        await reply.whole(200, [("content-type", openai_errors.JSON)], msgspec.json.encode(told))

    # Places and bodies

    async def _admit_then_read(
        self, head: Head, source: BodySource, service: Service
    ) -> tuple[Ticket, bytes]:
        limit = service.max_body_bytes or self._settings.max_body_bytes
        length = _content_length(head, limit)
        if length and (refusal := self._state.admission.objection(service.key, length)):
            raise refusal
        ticket = self._admit(service, 0)

        def grow(size: int) -> None:
            if size > ticket.size and (refusal := self._state.admission.grow(ticket, size - ticket.size)):
                raise refusal

        try:
            return ticket, await self._read(source, limit, grow)
        except BaseException:
            self._state.admission.release(ticket)
            raise

    async def _read_then_admit(
        self, head: Head, source: BodySource, caller: Caller, path: str, outcome: _Outcome
    ) -> tuple[Service, Ticket, bytes]:
        """The body tells the service, so it is read first: its bytes count against the process until the service is known."""
        limit = self._settings.max_body_bytes
        length = _content_length(head, limit)
        if not bodies.is_json(head.get("content-type")):
            raise openai_errors.model_missing()
        if length and (refusal := self._state.admission.objection(None, length)):
            raise refusal
        with self._reserved() as grow:
            data = await self._read(source, limit, grow)
            model = bodies.scan(data).model
            service = resolve.by_model(self._state.routes, self._state.gate, caller, model)
            outcome.key = service.key  # from here on a refusal is this service's
            if not service.may_infer(path):
                raise openai_errors.path_not_found(head.method, path)
            if service.max_body_bytes and len(data) > service.max_body_bytes:
                raise openai_errors.body_too_large(service.max_body_bytes)
        return service, self._admit(service, len(data)), data

    @contextlib.contextmanager
    def _reserved(self) -> Iterator[Callable[[int], None]]:
        taken = 0

        def grow(size: int) -> None:
            nonlocal taken
            if size > taken:
                if refusal := self._state.admission.reserve(size - taken):
                    raise refusal
                taken = size

        try:
            yield grow
        finally:
            self._state.admission.unreserve(taken)

    def _admit(self, service: Service, size: int) -> Ticket:
        ready = self._state.balance.ready_count(service.key)
        admitted = self._state.admission.admit(service.key, service.max_queue, ready, size)
        if isinstance(admitted, Refusal):
            raise admitted
        return admitted

    async def _read(self, source: BodySource, limit: int, grow: Callable[[int], None]) -> bytes:
        try:
            async with asyncio.timeout(self._settings.body_timeout_seconds):
                return await bodies.collect(source.chunks(), limit, grow)
        except TimeoutError as error:
            raise openai_errors.request_timeout() from error

    # Refusals

    async def _refuse(self, refusal: Refusal, reply: CountedReply, outcome: _Outcome) -> None:
        metrics = self._metrics.of(outcome.key)
        metrics.rejected(refusal.reason)
        if not reply.is_committed:
            metrics.answered(str(refusal.status))
            headers = [("content-type", openai_errors.JSON), ("x-request-id", outcome.request_id)]
            try:
                await reply.whole(refusal.status, [*headers, *refusal.headers.items()], refusal.body())
            except (ClientLeft, TimeoutError):
                reply.abort()
            return
        metrics.answered(f"{reply.status}_broken")
        # Its code and not its message: an engine's words may repeat the prompt.
        log.info(
            "answer cut",
            extra=context(
                request=outcome.request_id, service=outcome.key, status=refusal.status, why=refusal.reason
            ),
        )
        try:
            if reply.is_stream and reply.is_writable:
                await reply.write(refusal.frame())
        except ClientLeft:
            return
        finally:
            reply.abort()


def _refuse_other_than_inference(head: Head, target: resolve.Target) -> None:
    path, service = target.path, target.service
    may_infer = service.may_infer(path) if service is not None else path.startswith("/v1/")
    if not may_infer:
        raise openai_errors.path_not_found(head.method, head.path)
    if head.method != "POST":
        raise openai_errors.method_not_allowed(head.method, head.path, "POST")


def _content_length(head: Head, limit: int) -> int | None:
    told = head.get("content-length")
    if not told.isdecimal():
        return None
    length = int(told)
    if length > limit:
        raise openai_errors.body_too_large(limit)
    return length


def _in_the_engines_words(service: Service, envelope: bodies.Envelope, data: bytes) -> bytes:
    """Engines know one name; the others that a client may use (`namespace/name`, alias) are ours and are replaced."""
    told, served = envelope.model, service.served_model_name
    if not served or told is None or told == served:
        return data
    return bodies.with_model(data, served) if told == service.key or told in service.names else data
