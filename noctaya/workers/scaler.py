"""KEDA's ExternalScaler: the shell around `metric.py` and `pushes.py`.

KEDA sets no deadlines, so nothing here awaits anything but its own stream and, for at most a second, the owner of a shard
that is not ours (`answering.py`, `relay.py`): every other unary answer comes from memory. Streams end with OK and never with
an error, for an error makes KEDA wait longer each time (keda.md 0.4): all on drain, staggered, and each after
`stream_seconds`. The server's connections age out besides (`SCALER_OPTIONS`), so that the stream that is opened next finds
workers that were not there before.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from typing import Any

import grpc
import grpc.aio

from noctaya.kube.clock import boottime
from noctaya.telemetry import context
from noctaya.wire import SERVER_OPTIONS, externalscaler, externalscaler_grpc
from noctaya.workers.answering import Answering
from noctaya.workers.audit import OFF, Audit
from noctaya.workers.demand import Demand, seen_of
from noctaya.workers.metric import METRIC_NAME, InvalidMetadata, Silence, target_of
from noctaya.workers.objects import service_key
from noctaya.workers.permission import Permission
from noctaya.workers.pushes import Cause, Push, Pushes
from noctaya.workers.questions import About, Active, Answer, Question, Stranger, Wanted
from noctaya.workers.recency import Recency, hold_of
from noctaya.workers.wakes import WakeLog

log = logging.getLogger(__name__)


@dataclass(slots=True)
class _Stream:
    """One open StreamIsActive; `wake` is set when there is something to send or to end."""

    wake: asyncio.Event
    has_unsent: bool = False


Context = grpc.aio.ServicerContext[Any, Any]

CONNECTION_SECONDS = 900
SCALER_OPTIONS = (*SERVER_OPTIONS, ("grpc.max_connection_age_ms", CONNECTION_SECONDS * 1000))
"""No grace: an aged connection takes no new stream, and those that it has end with OK when we say so."""


class ExternalScaler(externalscaler_grpc.ExternalScalerServicer):
    """Answers for every ScaledObject of the fleet.

    `is_known(key)`: whether there is such an LLMService; None while that is not known. `demand(key, now)`,
    `permission(shard)` and `replicas(key)`, how many its Deployment is asked to have, are asked at every call;
    `is_current()`: whether that view of the Deployments is followed just now. `relay(question)` asks the owner of a shard that
    is not ours; None is no answer (`relay.Relay.ask`).
    """

    def __init__(
        self,
        *,
        demand: Callable[[str, float], Demand],
        permission: Callable[[int], Permission],
        is_known: Callable[[str], bool | None],
        pushes: Pushes,
        replicas: Callable[[str], int] = lambda key: 0,
        is_current: Callable[[], bool] = lambda: False,
        relay: Callable[[Question], Awaitable[Answer | None]] | None = None,
        stream_seconds: float = 900.0,
        drain_spread_seconds: float = 5.0,
        wakes: WakeLog | None = None,
        recency: Recency | None = None,
        clock: Callable[[], float] = boottime,
        audit: Audit = OFF,
    ) -> None:
        self.answering = Answering(
            demand=demand,
            permission=permission,
            is_known=is_known,
            replicas=replicas,
            is_current=is_current,
            recency=recency if recency is not None else Recency(),
            relay=relay,
            clock=clock,
            audit=audit,
        )
        self.answers = self.answering.answers
        self.pushes = pushes
        self.wakes = wakes if wakes is not None else WakeLog()
        self.pushed: dict[Cause, int] = dict.fromkeys(Cause, 0)
        self.asked = {"GetMetricSpec": 0, "GetMetrics": 0, "IsActive": 0, "StreamIsActive": 0}
        """Calls of KEDA by method: the load that it puts on us, and a sign that it reaches us."""
        self._demand = demand
        self._is_known = is_known
        self._stream_seconds = stream_seconds
        self._drain_spread = drain_spread_seconds
        self._clock = clock
        self._streams: dict[int, _Stream] = {}
        self._serial = 0
        self._is_draining = False
        self._all_closed = asyncio.Event()
        self._nudge = asyncio.Event()

    # -- RPCs --------------------------------------------------------------------------------------------------------

    async def GetMetricSpec(  # noqa: N802
        self, request: externalscaler.ScaledObjectRef, context: Context
    ) -> externalscaler.GetMetricSpecResponse:
        """The target; KEDA asks this first, always, so it depends on nothing but the request."""
        self.asked["GetMetricSpec"] += 1
        target = await _valid_target(request, context)
        spec = externalscaler.MetricSpec(
            metricName=METRIC_NAME, targetSize=_ceiling(target), targetSizeFloat=target
        )
        return externalscaler.GetMetricSpecResponse(metricSpecs=[spec])

    async def IsActive(  # noqa: N802
        self, request: externalscaler.ScaledObjectRef, context: Context
    ) -> externalscaler.IsActiveResponse:
        """Whether anybody waits for the model, uses it, or used it a moment ago (`recency.py`)."""
        self.asked["IsActive"] += 1
        target = await _valid_target(request, context)
        hold = hold_of(request.scalerMetadata)
        told = await self._tell(Question(About.ACTIVE, _key(request), target, hold), context)
        return externalscaler.IsActiveResponse(result=told > 0)

    async def GetMetrics(  # noqa: N802
        self, request: externalscaler.GetMetricsRequest, context: Context
    ) -> externalscaler.GetMetricsResponse:
        """The demand; exactly one value, in both fields (keda.md 1)."""
        self.asked["GetMetrics"] += 1
        reference = request.scaledObjectRef
        target = await _valid_target(reference, context)
        if request.metricName != METRIC_NAME:
            await context.abort(
                grpc.StatusCode.INVALID_ARGUMENT,
                f"metricName must be {METRIC_NAME!r}, not {request.metricName!r}",
            )
        told = await self._tell(Question(About.DEMAND, _key(reference), target), context)
        value = externalscaler.MetricValue(
            metricName=METRIC_NAME, metricValue=told, metricValueFloat=float(told)
        )
        return externalscaler.GetMetricsResponse(metricValues=[value])

    async def StreamIsActive(  # noqa: N802
        self, request: externalscaler.ScaledObjectRef, context: Context
    ) -> None:
        """Only ever `true`, which is safe from anyone: whoever holds KEDA's stream pushes, whether it owns the service or not.

        A service unknown here gets a silent stream: an error would cost KEDA a minute.
        """
        self.asked["StreamIsActive"] += 1
        await _valid_target(request, context)
        key = _key(request)
        self._serial += 1
        number, stream = self._serial, _Stream(asyncio.Event())
        self._streams[number] = stream
        try:
            now = self._clock()
            is_active = seen_of(self._demand(key, now)) > 0 and self._is_known(key) is not False
            self.push(self.pushes.opened(number, key, is_active=is_active, now=now))
            await self._send(stream, context)
        finally:
            del self._streams[number]
            self.pushes.closed(number)
            if not self._streams:
                self._all_closed.set()

    async def _send(self, stream: _Stream, context: Context) -> None:
        # Staggered, so that thousands of streams opened together do not all come back together.
        ends_in = self._stream_seconds * random.uniform(0.8, 1.0)
        await self._pass_on(stream, context, ends_in, until=lambda: self._is_draining)
        if self._is_draining:
            # A stream that waits for its turn to end is still the one that KEDA listens to.
            await self._pass_on(stream, context, random.uniform(0, self._drain_spread), until=lambda: False)

    async def _pass_on(
        self, stream: _Stream, context: Context, seconds: float, *, until: Callable[[], bool]
    ) -> None:
        """Write what is pushed to `stream`, for so long or `until` then."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while not until():
                    await stream.wake.wait()
                    stream.wake.clear()
                    if stream.has_unsent:
                        stream.has_unsent = False
                        await context.write(externalscaler.IsActiveResponse(result=True))

    # -- answering ---------------------------------------------------------------------------------------------------

    def answer(self, question: Question) -> Answer:
        """What this worker tells KEDA by itself, for a peer whom KEDA has asked (`relay.Respondent`)."""
        return self.answering.own(question)

    async def _tell(self, question: Question, context: Context) -> int:
        """The answer as a number; everything that is none ends the call with an error."""
        answer = await self.answering.answer(question)
        number = _number_in(answer, question.about)
        if number is None:
            code, why = _refusal(answer)
            await context.abort(code, f"{question.key}: {why}")
        return number

    # -- what the worker does with it --------------------------------------------------------------------------------

    def push(self, pushes: Iterable[Push]) -> None:
        """Send what the policy decided, on the streams that are still there."""
        for push in pushes:
            for number in push.streams:
                if (stream := self._streams.get(number)) is not None:
                    stream.has_unsent = True
                    stream.wake.set()
            if push.streams:
                self.wakes.pushed(push.key, self._clock())
            self.pushed[push.cause] += 1
            log.info(
                "pushed true",
                extra=context(service=push.key, cause=push.cause.value, streams=len(push.streams)),
            )
        self._nudge.set()

    async def run(self) -> None:
        """Re-assert when due, until cancelled."""
        while True:
            self._nudge.clear()
            now = self._clock()
            self.push(self.pushes.tick(now))
            self._nudge.clear()
            due = self.pushes.next_at(now)
            try:
                async with asyncio.timeout(None if due is None else max(due - now, 0.0)):
                    await self._nudge.wait()
            except TimeoutError:
                continue

    async def drain(self) -> None:
        """End every stream with OK, spread over a few seconds; unary calls are still answered."""
        self._is_draining = True
        for stream in self._streams.values():
            stream.wake.set()
        if self._streams:
            self._all_closed.clear()
            # KEDA reopens an ended stream on the same connection, so that there need not be an instant without any.
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._drain_spread + 1.0):
                    await self._all_closed.wait()

    @property
    def stream_count(self) -> int:
        """KEDA's open streams."""
        return len(self._streams)


async def _valid_target(reference: externalscaler.ScaledObjectRef, context: Context) -> float:
    try:
        return target_of(reference.scalerMetadata)
    except InvalidMetadata as error:
        await context.abort(
            grpc.StatusCode.INVALID_ARGUMENT, f"{reference.namespace}/{reference.name}: {error}"
        )


def _number_in(answer: Answer, about: About) -> int | None:
    match answer:
        case Active(is_active) if about is About.ACTIVE:
            return int(is_active)
        case Wanted(demand) if about is About.DEMAND:
            return demand
        case _:
            return None


def _refusal(answer: Answer) -> tuple[grpc.StatusCode, str]:
    match answer:
        case Silence(reason):
            return grpc.StatusCode.UNAVAILABLE, reason
        case Stranger():
            return grpc.StatusCode.NOT_FOUND, "no such LLMService; was the ScaledObject made by Noctaya?"
        case _:
            return grpc.StatusCode.UNAVAILABLE, "its owner's answer is of no use"


def _key(reference: externalscaler.ScaledObjectRef) -> str:
    return service_key(reference.namespace, reference.name)


def _ceiling(value: float) -> int:
    return -int(-value // 1)
