"""The scale loop of one ScaledObject: a poll every pollingInterval and a push stream per trigger, under one mutex.

The push streams belong to the spec that the loop was started with; polls read the newest spec each time (L3). The poll holds
the mutex while it asks the scalers, so a scaler that hangs delays pushes too (S8, C4), and messages queue in HTTP/2. It ends
only by cancellation, which the servers see as CANCELLED.
"""

import asyncio
import logging
from contextlib import aclosing

from noctaya.errors import NoctayaError
from noctaya.local.keda.errors import InvalidScaledObject, ScalerFailed
from noctaya.local.keda.execution import Execution
from noctaya.local.keda.ports import Scalers
from noctaya.local.keda.pushing import Reopening, is_heard
from noctaya.local.keda.queries import PolledValues
from noctaya.local.keda.records import Key, Records
from noctaya.local.keda.spec import Scaling, Trigger, understand
from noctaya.local.keda.triggers import Asking
from noctaya.telemetry import context

log = logging.getLogger(__name__)


class ScaleLoop:
    """One incarnation of the loop; a changed spec gets a new one, with a new back-off."""

    def __init__(
        self, scaling: Scaling, records: Records, scalers: Scalers, execution: Execution, polled: PolledValues
    ) -> None:
        self._scaling = scaling
        self._key: Key = (scaling.namespace, scaling.name)
        self._records = records
        self._scalers = scalers
        self._execution = execution
        self._polled = polled
        self._mutex = asyncio.Lock()

    async def run(self) -> None:
        """Open every stream and poll for the first time at once (S1, P1); go on until cancelled."""
        try:
            async with asyncio.TaskGroup() as tasks:
                for trigger in self._scaling.triggers:
                    tasks.create_task(self._push(trigger))
                tasks.create_task(self._poll_for_ever())
        finally:
            self._polled.forget(self._key)

    async def _poll_for_ever(self) -> None:
        now = asyncio.get_running_loop().time
        while True:
            # The timer starts before the poll: one that takes longer than the interval is followed at once by the next.
            next_at = now() + self._scaling.polling_seconds
            async with self._mutex:
                await self._poll()
            await asyncio.sleep(max(0.0, next_at - now()))

    async def _poll(self) -> None:
        record = self._records.get(self._key)
        if record is None:
            return
        try:
            scaling = understand(record)
            poll = await Asking(self._scalers, scaling).poll()
            self._polled.keep(self._key, poll)
            await self._execution.execute(
                record,
                scaling,
                active=poll.is_active,
                error=bool(poll.errors),
                activity={reading.metric: reading.is_active for reading in poll.readings},
            )
        except InvalidScaledObject as error:
            log.warning("cannot poll", extra=context(scaledobject="/".join(self._key), error=str(error)))
            return
        for problem in poll.errors:
            log.warning("a trigger failed", extra=context(scaledobject="/".join(self._key), error=problem))

    async def _push(self, trigger: Trigger) -> None:
        asking = Asking(self._scalers, self._scaling)
        reopening = Reopening()
        while True:
            ok = True
            try:
                async with aclosing(asking.scaler(trigger).stream(asking.reference(trigger))) as stream:
                    async for result in stream:
                        async with self._mutex:
                            await self._pushed(trigger, result)
            except ScalerFailed as error:
                ok = False
                log.info(
                    "a push stream broke", extra=context(scaledobject="/".join(self._key), error=str(error))
                )
            await asyncio.sleep(reopening.ended(ok=ok))

    async def _pushed(self, trigger: Trigger, result: bool) -> None:
        record = self._records.get(self._key)
        if record is None:
            return
        names: list[str] = record.status.get("externalMetricNames") or []
        if not is_heard(result, trigger.index, names):
            return
        activity = {name: True for name in names if name.startswith(f"s{trigger.index}-")}
        try:
            # A push knows nothing of errors: it sets Ready=True even while polls fail (keda.md, section 2.5).
            await self._execution.execute(
                record, understand(record), active=True, error=False, activity=activity
            )
        except NoctayaError as error:
            log.warning("a push was lost", extra=context(scaledobject="/".join(self._key), error=str(error)))
