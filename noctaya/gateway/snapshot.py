"""The last good routes in a file, so that a restarted container serves before a worker answers.

It holds the secret that makes key digests, so it is readable by its owner alone and belongs into an emptyDir. It is written
whole, to a temporary file beside it, then renamed. A file that cannot be read or written is logged and does without.
"""

import asyncio
import contextlib
import logging
import os
from pathlib import Path

import msgspec
from google.protobuf.message import DecodeError

from noctaya.gateway.state import GatewayState
from noctaya.telemetry import context
from noctaya.wire import control

log = logging.getLogger(__name__)

FILE_NAME = "routes"
FORMAT = 1
PAUSE_SECONDS = 1.0
"""Between two writes; changes in between are written together."""


class _File(msgspec.Struct):
    format: int
    welcome: bytes
    shards: list[bytes]


def encode(state: GatewayState) -> bytes:
    """The state as bytes: the last Welcome and one snapshot update a shard."""
    updates = [
        control.ShardUpdate(
            fleet=state.routes.fleet,
            shard=shard,
            epoch=held.epoch,
            version=held.version,
            services=[service.message for service in held.services.values()],
        )
        for shard, held in state.routes.shards()
        if held.epoch
    ]
    welcome = state.last_welcome.SerializeToString() if state.last_welcome else b""
    return msgspec.msgpack.encode(_File(FORMAT, welcome, [update.SerializeToString() for update in updates]))


def decode_into(state: GatewayState, data: bytes) -> int:
    """Fill a fresh state; returns how many shards were taken.

    Raises:
        ValueError: not a file of ours.
    """
    try:
        file = msgspec.msgpack.decode(data, type=_File)
        if file.format != FORMAT:
            raise ValueError(f"format {file.format} is not {FORMAT}")
        updates = [control.ShardUpdate.FromString(shard) for shard in file.shards]
        welcome = control.Welcome.FromString(file.welcome)
    except (msgspec.DecodeError, DecodeError) as error:
        raise ValueError(str(error)) from error
    if file.welcome:
        state.welcome(welcome)
    for update in updates:
        state.take(update, is_fresh=False)
    return len(updates)


class Snapshot:
    """Keeps the file current; an empty directory setting turns it off."""

    def __init__(self, directory: str, state: GatewayState) -> None:
        self._path = Path(directory) / FILE_NAME if directory else None
        self._state = state
        self._changed = asyncio.Event()
        state.on_changed = self._changed.set

    def load(self) -> bool:
        """Fill the state from the file; True when it had routes."""
        if self._path is None:
            return False
        try:
            shards = decode_into(self._state, self._path.read_bytes())
        except FileNotFoundError:
            return False
        except (OSError, ValueError) as error:
            log.warning("routes of the last run cannot be read", extra=context(path=self._path, reason=error))
            return False
        log.info("routes of the last run", extra=context(shards=shards, services=len(self._state.routes)))
        return shards > 0

    async def run(self) -> None:
        """Write after changes, until cancelled."""
        while self._path is not None:
            await self._changed.wait()
            self._changed.clear()
            data = encode(self._state)
            try:
                await asyncio.to_thread(_write, self._path, data)
            except OSError as error:
                log.warning("routes cannot be saved", extra=context(path=self._path, reason=error))
            await asyncio.sleep(PAUSE_SECONDS)


def _write(path: Path, data: bytes) -> None:
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
        temporary.replace(path)
    finally:
        with contextlib.suppress(FileNotFoundError):
            temporary.unlink()
