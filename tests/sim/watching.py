"""A worker's one watch of everything: in order, late, broken off, silent, or of a replica that lags.

After a break the whole is listed again, and a list older than what was seen is refused (F21). A watch that is silent for
`Pod.believes_silence_for` is taken for broken.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.sim.api import Change

if TYPE_CHECKING:
    from tests.sim.worker import Worker


class Watching:
    """See the module."""

    def __init__(self, worker: Worker) -> None:
        self._worker = worker
        self._position = 0
        self._is_connected = False
        self._is_due = False
        self._generation = 0
        self._heard_at = 0.0
        self._known: dict[str, Change] = {}
        self._seen = 0
        self._has_synced = False

    def start(self) -> None:
        """List, then watch."""
        self._worker.world.watchers[self] = None
        self._list_later(self._worker.clockwork.random.uniform(0.01, 0.3))

    def stop(self) -> None:
        """The process is dead."""
        self._worker.world.watchers.pop(self, None)
        self._is_connected = False

    def drop(self) -> None:
        """The connection breaks."""
        if self._is_connected:
            self._is_connected = False
            self._worker.book.follow(False, self._worker.clock())
            self._list_later(self._worker.clockwork.random.uniform(0.05, 0.8))

    def notice(self) -> None:
        """Something changed at the API server."""
        if self._is_connected and not self._is_due:
            self._is_due = True
            self._later()

    def _later(self) -> None:
        worker, generation = self._worker, self._generation
        delay = 0.002 + 0.02 * worker.clockwork.random.random() + worker.pod.replica_lag
        worker.clockwork.later(delay, lambda: self._arrive(generation))

    def _arrive(self, generation: int) -> None:
        worker = self._worker
        if generation != self._generation or not self._is_connected:
            return
        self._is_due = False
        now = worker.clockwork.now
        if worker.pod.is_watch_silent or not worker.network.reaches_api(worker.name):
            # Nothing comes, and nobody says that the connection is dead.
            if now - self._heard_at > worker.pod.believes_silence_for:
                self.drop()
            else:
                self._is_due = True
                worker.clockwork.later(0.5, lambda: self._arrive(generation))
            return
        lag = worker.pod.replica_lag
        end = worker.api.position(now - lag) if lag else len(worker.api.log)
        changes = worker.api.log[self._position : end]
        self._position = max(self._position, end)
        self._heard_at = now
        if changes:
            worker.run(lambda: self._deliver(generation, changes), is_watch=True)
        if self._position < len(worker.api.log):
            self._is_due = True
            worker.clockwork.later(0.1, lambda: self._arrive(generation))

    def _deliver(self, generation: int, changes: list[Change]) -> None:
        if generation != self._generation or not self._worker.is_alive:
            return
        for change in changes:
            self._note(change)
            self._worker.take(change)

    def _note(self, change: Change) -> None:
        self._seen = max(self._seen, change.version)
        if change.is_gone:
            self._known.pop(change.name, None)
        else:
            self._known[change.name] = change

    def _list_later(self, delay: float) -> None:
        self._generation += 1
        generation, worker = self._generation, self._worker
        worker.clockwork.later(delay, lambda: worker.run(lambda: self._list(generation)))

    def _list(self, generation: int) -> None:
        if generation != self._generation:
            return
        worker = self._worker

        def serve() -> tuple[int, dict[str, Change]]:
            lag = worker.pod.replica_lag
            position = worker.api.position(worker.clockwork.now - lag) if lag else len(worker.api.log)
            return position, worker.api.snapshot(position)

        def answered(found: tuple[int, dict[str, Change]]) -> None:
            worker.run(lambda: self._listed(generation, *found), is_watch=True)

        worker.network.ask_api(worker.name, serve, answered, lambda: self._list_later(0.3))

    def _listed(self, generation: int, position: int, objects: dict[str, Change]) -> None:
        if generation != self._generation:
            return
        worker = self._worker
        log = worker.api.log
        version = log[position - 1].version if position else 0
        if version < self._seen:
            self._list_later(0.5)
            return
        gone = [worker.api.deletion(name, version, 0.0) for name in self._known if name not in objects]
        self._known, self._seen, self._position = dict(objects), version, position
        self._is_connected, self._heard_at = True, worker.clockwork.now
        worker.take_list(version, objects, gone)
        worker.book.follow(True, worker.clock())
        worker.world.show_gateways(worker)
        if not self._has_synced:
            self._has_synced = True
            worker.synced()
        self._is_due = False
        if position < len(log):
            self.notice()
