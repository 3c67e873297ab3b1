"""The reconcile half of a worker: the queue's shell around `convergence.py`.

Several keys at a time, one run a key. A run that fails is repeated as its error deserves (`queue.py`); a defect in one
service's run is logged and retried like a world error, because one strange object must not stop ten thousand others. Nothing
is reconciled before every store has been listed once: an empty store would read as an empty cluster.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable

from noctaya.kube import Client
from noctaya.kube.clock import boottime
from noctaya.kube.errors import KubeError
from noctaya.kube.events import EventRecorder, reference
from noctaya.kube.resources import LLMSERVICES
from noctaya.telemetry import context
from noctaya.workers.apply import Applier
from noctaya.workers.audit import OFF, Audit
from noctaya.workers.convergence import WORLD_ERRORS_THAT_SHOW, Convergence, Ownership, Result
from noctaya.workers.errors import NotPermitted, StaleEpoch
from noctaya.workers.events import RECONCILE_FAILED
from noctaya.workers.objects import LLMService, shard_of_key, split_key
from noctaya.workers.permission import Permission
from noctaya.workers.queue import KeyQueue, Outcome, Priority
from noctaya.workers.render import Fleet
from noctaya.workers.status_writer import StatusWriter
from noctaya.workers.stores import Stores
from noctaya.workers.triggers import Triggers

RUN_SECONDS = 60.0
"""Deadline of one run; each of its calls has a shorter one of its own."""
NOT_PERMITTED_RETRY_SECONDS = 60.0
"""Only a net: a run that was refused while the API server was away goes on by `permitted`."""
STALE_EPOCH_RETRY_SECONDS = 5.0
"""By then a write has decided whose epoch counts."""
WORLD_LOOK_SECONDS = 0.5
END_SECONDS = 1.5
"""For runs of a shard that is not ours any more: their next write is refused anyway. `ShardTiming.stop_within` is 2 s."""

log = logging.getLogger(__name__)


class Reconciler:
    """Keeps every service of our shards at what its spec says.

    `ready_to_autoscale` tells whether the scaler answers by the name that KEDA will use; `conflicts` why a service's name or
    hostname leads to another one, by key. `run` belongs to the caller's TaskGroup.
    """

    def __init__(
        self,
        stores: Stores,
        client: Client,
        ownership: Ownership,
        fleet: Fleet,
        *,
        instance: str = "",
        ready_to_autoscale: Callable[[], bool] = lambda: True,
        conflicts: Callable[[str], str | None] = lambda key: None,
        clock: Callable[[], float] = boottime,
        jitter: Callable[[], float] = random.random,
        audit: Audit = OFF,
    ) -> None:
        self._stores = stores
        self._clock = clock
        self._ready_to_autoscale = ready_to_autoscale
        self._recorder = EventRecorder(client, "noctaya", instance=instance)
        self._applier = Applier(client)
        self._ownership = ownership
        self._running: dict[str, asyncio.Task[None]] = {}
        self._convergence = Convergence(
            stores,
            self._applier,
            StatusWriter(client, self._recorder),
            ownership,
            fleet,
            ready_to_autoscale=ready_to_autoscale,
            conflicts=conflicts,
            clock=clock,
            audit=audit,
        )
        self._queue = KeyQueue(jitter)
        self._refused: set[str] = set()
        """Services whose run ended for want of permission."""
        self._wake = asyncio.Event()
        self._triggers = Triggers(stores, self._add, forget=self._forget, forget_child=self._applier.forget)

    @property
    def backlog(self) -> int:
        """How many services wait for their turn, now or later."""
        return len(self._queue)

    @property
    def due(self) -> int:
        """How many services could be reconciled now and wait for their turn."""
        return self._queue.due(self._clock())

    def enqueue(self, key: str, priority: Priority = Priority.CHANGED) -> None:
        """Something outside the stores changed for `key`, such as who wins a name."""
        self._add(key, priority, 0.0)

    def enqueue_shard(self, shard: int) -> None:
        """A shard was acquired."""
        self._triggers.shard(shard)

    async def end_shard(self, shard: int) -> None:
        """The shard is not ours any more: forget what waits, and return once every run of it has ended."""
        for service in self._stores.services.by_index("shard", str(shard)):
            self._queue.forget(service.key)
        running = [task for key, task in self._running.items() if shard_of_key(key) == shard]
        if not running:
            return
        _, late = await asyncio.wait(running, timeout=END_SECONDS)
        for task in late:
            task.cancel()
        await asyncio.gather(*late, return_exceptions=True)

    def permitted(self) -> None:
        """This worker may act again: what was refused meanwhile has its turn."""
        refused, self._refused = self._refused, set()
        for key in refused:
            self._add(key, Priority.BACKLOG, 0.0)

    def enqueue_all(self) -> None:
        """Something changed for everybody, such as the scaler's reachability."""
        self._triggers.everything()

    def secret_changed(self, namespace: str, name: str) -> None:
        """A Secret that services may refer to was made, changed or deleted."""
        self._triggers.secret_changed(namespace, name)

    async def run(self, concurrency: int = 8) -> None:
        """Reconcile until cancelled; runs in flight end where they are."""
        self._triggers.subscribe()
        async with asyncio.TaskGroup() as group:
            group.create_task(self._recorder.run())
            await self._stores.settled()
            group.create_task(self._watch_the_world())
            slots = asyncio.Semaphore(concurrency)
            while True:
                await slots.acquire()
                key = await self._next()
                self._running[key] = group.create_task(self._turn(key, slots))

    async def _next(self) -> str:
        while True:
            self._wake.clear()
            key = self._queue.take(self._clock())
            if key is not None:
                return key
            due = self._queue.next_due()
            try:
                async with asyncio.timeout(None if due is None else max(0.0, due - self._clock())):
                    await self._wake.wait()
            except TimeoutError:
                continue

    async def _turn(self, key: str, slots: asyncio.Semaphore) -> None:
        result = Result(Outcome.DONE)
        try:
            result = await self._reconcile(key)
        finally:
            slots.release()
            del self._running[key]
            self._queue.finish(key, result.outcome, self._clock(), result.again_after_seconds)
            self._wake.set()

    async def _reconcile(self, key: str) -> Result:
        service = self._stores.services.get(*split_key(key))
        if service is None:
            return Result(Outcome.DONE)
        failures = self._queue.failures(key)
        try:
            async with asyncio.timeout(RUN_SECONDS):
                return await self._convergence.run(service, failures)
        except NotPermitted as error:
            log.debug("not permitted", extra=context(name=key, reason=error))
            self._refused.add(key)
            return Result(Outcome.DONE, NOT_PERMITTED_RETRY_SECONDS)
        except StaleEpoch as error:
            log.warning("stale epoch", extra=context(name=key, seen=error.seen, ours=error.ours))
            return Result(Outcome.DONE, STALE_EPOCH_RETRY_SECONDS)
        except (KubeError, TimeoutError) as error:
            self._complain(service, failures, error)
        except Exception:
            log.exception("a defect: reconcile failed", extra=context(name=key))
        return Result(Outcome.WORLD_ERROR)

    def _complain(self, service: LLMService, failures: int, error: Exception) -> None:
        """One event when it begins to look lasting, not one for every try."""
        level = logging.INFO if failures < WORLD_ERRORS_THAT_SHOW else logging.WARNING
        log.log(
            level,
            "reconcile failed, trying again",
            extra=context(name=service.key, error=error, before=failures),
        )
        if failures == WORLD_ERRORS_THAT_SHOW:
            self._recorder.record(
                reference(LLMSERVICES, service), RECONCILE_FAILED, f"{error}; trying again", "Warning"
            )

    async def _watch_the_world(self) -> None:
        """What no watch tells: KEDA's kind appears or goes, the scaler is reached or lost, gateways come or go."""
        before = self._world()
        while True:
            await asyncio.sleep(WORLD_LOOK_SECONDS)
            now = self._world()
            if now != before:
                before = now
                self.enqueue_all()

    def _world(self) -> tuple[bool, bool, bool]:
        has_gateway = any(
            pod.is_ready and not pod.metadata.is_deleting for pod in self._stores.gateways.items()
        )
        return (self._stores.is_keda_served, self._ready_to_autoscale(), has_gateway)

    def _add(self, key: str, priority: Priority, delay_seconds: float) -> None:
        if self._ownership.permission(shard_of_key(key)) is Permission.NONE:
            return  # its owner hears the same; the whole shard is queued when it becomes ours
        self._queue.add(key, self._clock(), priority, delay_seconds)
        self._wake.set()

    def _forget(self, key: str) -> None:
        self._queue.forget(key)
        self._refused.discard(key)
        self._convergence.forget(key)
