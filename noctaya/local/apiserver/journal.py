"""Keeps a store on disk: a snapshot and a log of the changes since, as JSON lines.

Each change is written (and flushed to the operating system) before its writer is answered; fsync happens at snapshots and at
the end, so a power cut may lose the last moments but a killed process loses nothing. A torn last line is ignored.
"""

from __future__ import annotations

import os
from io import BufferedWriter
from pathlib import Path

import msgspec

from noctaya.local.apiserver.status import Object
from noctaya.local.apiserver.storage import Change, Storage
from noctaya.local.errors import StateUnreadable

_SNAPSHOT_EVERY = 10_000


class _Line(msgspec.Struct, array_like=True):
    type: str
    resource: str
    namespace: str
    name: str
    revision: int
    object: Object


class _Snapshot(msgspec.Struct):
    revision: int
    objects: list[tuple[str, str, str, Object]]


class FileJournal:
    """The journal of one state directory."""

    def __init__(self, directory: Path) -> None:
        self._snapshot_path = directory / "snapshot.json"
        self._log_path = directory / "changes.jsonl"
        self._log: BufferedWriter | None = None
        self._storage: Storage | None = None
        self._lines = 0
        directory.mkdir(parents=True, exist_ok=True, mode=0o700)

    def load(self, storage: Storage) -> None:
        """Fill an empty store; history starts at the snapshot. Raises `StateUnreadable`."""
        if self._snapshot_path.exists():
            try:
                snapshot = msgspec.json.decode(self._snapshot_path.read_bytes(), type=_Snapshot)
            except msgspec.DecodeError as problem:
                raise StateUnreadable(str(self._snapshot_path), str(problem)) from problem
            storage.restore(
                ((r, (ns, name), found) for r, ns, name, found in snapshot.objects), snapshot.revision
            )
        lines = self._log_path.read_bytes().split(b"\n") if self._log_path.exists() else []
        kept = 0
        for number, raw in enumerate(lines):
            if not raw:
                continue
            try:
                line = msgspec.json.decode(raw, type=_Line)
            except msgspec.DecodeError as problem:
                if number == len(lines) - 1:
                    break  # torn by a crash in the middle of a write; its writer was never answered
                raise StateUnreadable(str(self._log_path), f"line {number + 1}: {problem}") from problem
            kept += len(raw) + 1
            self._lines += 1
            if line.revision > storage.revision:
                storage.replay(
                    Change(
                        line.type, line.resource, line.namespace, line.name, line.revision, line.object, None
                    )
                )
        self._open(keep_bytes=kept)
        self._storage = storage

    def _open(self, keep_bytes: int) -> None:
        descriptor = os.open(self._log_path, os.O_RDWR | os.O_CREAT, 0o600)
        os.ftruncate(descriptor, keep_bytes)
        os.lseek(descriptor, 0, os.SEEK_END)
        self._log = os.fdopen(descriptor, "wb")

    def append(self, change: Change) -> None:
        """Record a change; every so often a snapshot replaces the log."""
        if self._log is None:
            raise StateUnreadable(str(self._log_path), "the journal is not open")
        line = _Line(
            change.type, change.resource, change.namespace, change.name, change.revision, change.object
        )
        self._log.write(msgspec.json.encode(line) + b"\n")
        self._log.flush()
        self._lines += 1
        if self._lines >= _SNAPSHOT_EVERY and self._storage is not None:
            self.snapshot(self._storage)

    def snapshot(self, storage: Storage) -> None:
        """Write everything to a new snapshot and start an empty log."""
        objects = [(resource, key[0], key[1], found) for resource, key, found in storage]
        partial = self._snapshot_path.with_suffix(".partial")
        descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(msgspec.json.encode(_Snapshot(storage.revision, objects)))
            file.flush()
            os.fsync(file.fileno())
        partial.replace(self._snapshot_path)
        if self._log is not None:
            self._log.close()
        self._open(keep_bytes=0)
        self._lines = 0

    def close(self, storage: Storage) -> None:
        """Snapshot and let the files go."""
        if self._log is not None:
            self.snapshot(storage)
            self.release()

    def release(self) -> None:
        """Let the files go as they are; what was appended is in them."""
        if self._log is not None:
            self._log.close()
            self._log = None
