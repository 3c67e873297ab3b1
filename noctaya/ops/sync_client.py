"""`Client`: `AsyncClient` for programs without an event loop of their own, notebooks included.

    with noctaya.Client() as fleet:
        fleet.wait_for_workers(3)

Every call runs on one loop in a thread of ours, which ends with `close`. An interrupt (Ctrl-C) cancels the call. Arguments,
answers and errors are those of `AsyncClient`; each method says so by its name alone.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine, Sequence
from pathlib import Path
from typing import Any, TypeVar

from noctaya.ops.access import Answer
from noctaya.ops.client import WAIT_SECONDS, AsyncClient, Entry, Progress
from noctaya.ops.way import NAMESPACE

JOIN_SECONDS = 5.0

_T = TypeVar("_T")


class Client:
    """See the module."""

    def __init__(
        self,
        admin: str | Sequence[str] | None = None,
        *,
        kubeconfig: str | None = None,
        context: str | None = None,
        namespace: str = NAMESPACE,
    ) -> None:
        self._async = AsyncClient(admin, kubeconfig=kubeconfig, context=context, namespace=namespace)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._serve, name="noctaya-client", daemon=True)
        self._thread.start()

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Hang up, and end what was started to reach the workers. Twice is once."""
        if self._loop.is_closed():
            return
        try:
            self._run(self._async.close())
        finally:
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join(JOIN_SECONDS)

    @property
    def unreached(self) -> dict[str, str]:
        """Workers that the last question to all of them did not reach, and why."""
        return self._async.unreached

    def status(self) -> Answer:
        return self._run(self._async.status())

    def shards(self) -> list[Answer]:
        return self._run(self._async.shards())

    def scheduler_info(self) -> Answer:
        return self._run(self._async.scheduler_info())

    def owner(self, namespace: str, name: str) -> Answer:
        return self._run(self._async.owner(namespace, name))

    def who_has(self, *keys: str | int) -> dict[str, list[str]]:
        return self._run(self._async.who_has(*keys))

    def has_what(self, *workers: str) -> dict[str, list[str]]:
        return self._run(self._async.has_what(*workers))

    def why(self, shard: str | int) -> Answer:
        return self._run(self._async.why(shard))

    def plan(self, workers: int) -> Answer:
        return self._run(self._async.plan(workers))

    def rebalance(self) -> Answer:
        return self._run(self._async.rebalance())

    def verify(self) -> list[Answer]:
        return self._run(self._async.verify())

    def story(self, *keys: str | int) -> list[Entry]:
        return self._run(self._async.story(*keys))

    def get_events(self, topic: str | None = None) -> list[tuple[float, Entry]]:
        return self._run(self._async.get_events(topic))

    def dump_cluster_state(self, filename: str | Path | None = None) -> Answer:
        return self._run(self._async.dump_cluster_state(filename))

    def cordon(self, worker: str) -> None:
        self._run(self._async.cordon(worker))

    def uncordon(self, worker: str) -> None:
        self._run(self._async.uncordon(worker))

    def freeze(self) -> None:
        self._run(self._async.freeze())

    def unfreeze(self) -> None:
        self._run(self._async.unfreeze())

    def drain(
        self,
        worker: str,
        *,
        wait: bool = True,
        timeout: float | None = WAIT_SECONDS,
        progress: Progress | None = None,
    ) -> Answer:
        return self._run(self._async.drain(worker, wait=wait, timeout=timeout, progress=progress))

    def retire_workers(
        self,
        workers: Sequence[str],
        *,
        wait: bool = True,
        timeout: float | None = WAIT_SECONDS,
        progress: Progress | None = None,
    ) -> dict[str, Answer]:
        return self._run(self._async.retire_workers(workers, wait=wait, timeout=timeout, progress=progress))

    def wait_for_workers(self, n_workers: int, timeout: float | None = WAIT_SECONDS) -> Answer:
        return self._run(self._async.wait_for_workers(n_workers, timeout))

    def _run(self, work: Coroutine[Any, Any, _T]) -> _T:
        if self._loop.is_closed():
            work.close()
            raise RuntimeError("this Client is closed")
        running = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return running.result()
        finally:
            running.cancel()  # when we were interrupted; an ended one stays as it is

    def _serve(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_forever()
        finally:
            self._loop.run_until_complete(self._loop.shutdown_asyncgens())
            self._loop.run_until_complete(self._loop.shutdown_default_executor())
            self._loop.close()
