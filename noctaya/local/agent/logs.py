"""Container logs: written line by line with time stamps, bounded on disk, read back whole, from the tail, or as they grow.

A file holds `<RFC 3339 time> <F|P> <line>` lines (a kubelet's format without the stream's name: both streams are one here); P is a
part of a line longer than 16 KiB. At `limit_bytes` the file is turned over and one older file kept, so a container costs at
most twice that. A reader that follows and falls behind a turn loses the lines in between, as with `kubectl logs -f`.
"""

import asyncio
import shutil
from collections import deque
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from noctaya.local.agent.errors import LogNotFound
from noctaya.local.apiserver import status
from noctaya.local.apiserver.logs import LogRequest

PART_BYTES = 16 * 1024
READ_BYTES = 256 * 1024


class ContainerLog:
    """The log of one attempt of one container."""

    def __init__(self, path: Path, limit_bytes: int) -> None:
        self.path = path
        self._limit_bytes = limit_bytes
        self._file = path.open("ab", buffering=0)
        self._size = self._file.tell()
        self._turns = 0
        self._rest = b""
        self._grew = asyncio.Event()
        self.is_closed = False

    def write(self, chunk: bytes) -> None:
        """Take in a piece of output."""
        *lines, self._rest = (self._rest + chunk).split(b"\n")
        stamp = datetime.now(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z").encode()
        entries = [b"%s F %s\n" % (stamp, line) for line in lines]
        while len(self._rest) > PART_BYTES:
            entries.append(b"%s P %s\n" % (stamp, self._rest[:PART_BYTES]))
            self._rest = self._rest[PART_BYTES:]
        if entries:
            self._append(b"".join(entries))

    def close(self) -> None:
        """The process ended; followers come to their end."""
        if self.is_closed:
            return
        if self._rest:
            self.write(b"\n")
        self.is_closed = True
        self._file.close()
        self._grew.set()

    def _append(self, data: bytes) -> None:
        if self.is_closed:
            return
        if self._size and self._size + len(data) > self._limit_bytes:
            self._file.close()
            self.path.replace(self.older)
            self._file = self.path.open("wb", buffering=0)
            self._size = 0
            self._turns += 1
        self._file.write(data)
        self._size += len(data)
        self._grew.set()
        self._grew = asyncio.Event()

    @property
    def older(self) -> Path:
        """The file before the last turn."""
        return self.path.with_suffix(".old")

    def last_bytes(self, limit: int) -> str:
        """The end of the output as text, for termination messages."""
        entries = self.path.read_bytes().splitlines()[-80:]
        return b"\n".join(content(entry) for entry in entries)[-limit:].decode(errors="replace")

    async def read(
        self,
        *,
        follow: bool = False,
        tail_lines: int | None = None,
        since: datetime | None = None,
        timestamps: bool = False,
    ) -> AsyncIterator[bytes]:
        """Yield pieces of the log, each whole lines; with `follow`, until the process ends."""
        history = deque(self._history(), maxlen=tail_lines)
        turns, offset = self._turns, self._size
        first = since.astimezone(UTC).isoformat(timespec="microseconds") if since else ""
        wanted = b"".join(
            shown(entry, timestamps) for entry in history if entry.decode(errors="replace") >= first
        )
        if wanted:
            yield wanted
        while follow:
            if turns != self._turns or offset != self._size:
                if turns != self._turns:
                    turns, offset = self._turns, 0
                with self.path.open("rb") as file:
                    file.seek(offset)
                    data = file.read(READ_BYTES)
                whole = data[: data.rfind(b"\n") + 1]
                offset += len(whole)
                if whole:
                    yield b"".join(shown(entry, timestamps) for entry in whole.splitlines())
            elif self.is_closed:
                return
            else:
                await self._grew.wait()

    def _history(self) -> list[bytes]:
        older = self.older.read_bytes().splitlines() if self.older.exists() else []
        return older + self.path.read_bytes().splitlines()


class PodLogs:
    """Logs of every container on this node; the API server's `LogSource`."""

    def __init__(self, directory: Path, limit_bytes: int) -> None:
        self._directory = directory
        self._limit_bytes = limit_bytes
        self._attempts: dict[tuple[str, str, str], deque[ContainerLog]] = {}

    def open(self, namespace: str, pod: str, uid: str, container: str, attempt: int) -> ContainerLog:
        """Begin the log of an attempt; the one before it stays readable, older ones are removed."""
        directory = self._directory / f"{namespace}_{pod}_{uid}" / container
        directory.mkdir(parents=True, exist_ok=True)
        attempts = self._attempts.setdefault((namespace, pod, container), deque())
        attempts.append(ContainerLog(directory / f"{attempt}.log", self._limit_bytes))
        while len(attempts) > 2:
            dropped = attempts.popleft()
            dropped.close()
            dropped.path.unlink(missing_ok=True)
            dropped.older.unlink(missing_ok=True)
        return attempts[-1]

    def forget(self, namespace: str, pod: str, uid: str) -> None:
        """The pod is gone, and its files with it."""
        directory = self._directory / f"{namespace}_{pod}_{uid}"
        for key, attempts in list(self._attempts.items()):
            if key[:2] == (namespace, pod) and attempts[-1].path.is_relative_to(directory):
                for entry in self._attempts.pop(key):
                    entry.close()
        shutil.rmtree(directory, ignore_errors=True)

    def find(self, namespace: str, pod: str, container: str, *, previous: bool = False) -> ContainerLog:
        """The current or the previous attempt's log.

        Raises:
            LogNotFound: the container never ran here, or only once when `previous` is asked for.
        """
        attempts = self._attempts.get((namespace, pod, container), deque())
        wanted = 2 if previous else 1
        if len(attempts) < wanted:
            which = "previous terminated container" if previous else "container"
            raise LogNotFound(f'{which} "{container}" in pod "{namespace}/{pod}" not found')
        return attempts[-wanted]

    async def read(self, pod: dict[str, Any], request: LogRequest) -> AsyncIterator[bytes]:
        """What `kubectl logs` shows (`LogSource`); a log that does not exist is a 400, as a kubelet answers."""
        metadata = pod["metadata"]
        try:
            found = self.find(
                metadata["namespace"], metadata["name"], request.container, previous=request.previous
            )
        except LogNotFound as error:
            raise status.bad_request(waiting(pod, request) or str(error)) from error
        since = None
        if request.since_seconds is not None:
            since = datetime.now(UTC) - timedelta(seconds=request.since_seconds)
        pieces = found.read(
            follow=request.follow, tail_lines=request.tail_lines, since=since, timestamps=request.timestamps
        )
        async for piece in pieces:
            yield piece


def waiting(pod: dict[str, Any], request: LogRequest) -> str:
    """Why a container has no log yet, in a kubelet's words; empty when its pod does not say."""
    found = pod.get("status", {})
    for one in (*found.get("initContainerStatuses", ()), *found.get("containerStatuses", ())):
        state = one.get("state", {}).get("waiting")
        if one["name"] == request.container and state is not None and not request.previous:
            why = state.get("message") or state.get("reason", "")
            return f'container "{request.container}" in pod "{pod["metadata"]["name"]}" is waiting to start: {why}'
    return ""


def content(entry: bytes) -> bytes:
    """The line without time and tag."""
    return entry.split(b" ", 2)[2]


def shown(entry: bytes, timestamps: bool) -> bytes:
    """The line as a reader gets it."""
    stamp, tag, line = entry.split(b" ", 2)
    prefix = stamp + b" " if timestamps else b""
    return prefix + line + (b"" if tag == b"P" else b"\n")
