"""The live side of a `TokenSource`: which Authorization header to send now, and one more try after a 401.

A token file is read again at most once a minute (the kubelet rewrites it long before the old token expires) and once more
when the server answers 401. `refresh` says whether anything changed, because only then is a second attempt worth it.
One instance belongs to one client and one event loop.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from noctaya.kube.clock import boottime
from noctaya.kube.config import PluginToken, StaticToken, TokenFile, TokenSource
from noctaya.kube.errors import ConfigError
from noctaya.kube.tls import Tls

_REREAD_AFTER_SECONDS = 60.0


class Credentials(Protocol):
    async def authorization(self) -> str | None:
        """The Authorization header's value, or None for anonymous. Raises ConfigError when there is no way to one."""
        ...

    async def refresh(self) -> bool:
        """Read or fetch again after a 401; whether the header changed."""
        ...


def credentials_for(
    source: TokenSource | None, tls: Tls, clock: Callable[[], float] = boottime
) -> Credentials:
    """The live counterpart of a described token source."""
    match source:
        case TokenFile():
            return FileCredentials(source, clock)
        case PluginToken():
            # Only now: this module's own import of kubernetes_asyncio is lazy too, but few kubeconfigs need either.
            from noctaya.kube.plugins import PluginCredentials

            return PluginCredentials(source, tls, clock)
        case StaticToken():
            return FixedCredentials(f"Bearer {source.value}")
        case None:
            return FixedCredentials(None)


class FixedCredentials:
    """A header that never changes."""

    def __init__(self, header: str | None) -> None:
        self._header = header

    async def authorization(self) -> str | None:
        return self._header

    async def refresh(self) -> bool:
        return False


class FileCredentials:
    """A token file that rotates under us."""

    def __init__(self, source: TokenFile, clock: Callable[[], float] = boottime) -> None:
        self._path = source.path
        self._clock = clock
        self._header: str | None = None
        self._read_at = 0.0

    async def authorization(self) -> str | None:
        if self._header is None or self._clock() - self._read_at >= _REREAD_AFTER_SECONDS:
            self._read()
        return self._header

    async def refresh(self) -> bool:
        before = self._header
        self._read()
        return self._header != before

    def _read(self) -> None:
        # Read in the loop: a kilobyte from tmpfs once a minute costs less than a thread.
        try:
            text = self._path.read_text()
        except (OSError, UnicodeDecodeError) as cause:
            if self._header is None:
                raise ConfigError(f"cannot read the token file {self._path}: {cause}") from cause
            # The old token outlives a rotation by far; a missing file for a moment must not stop a worker.
            return
        finally:
            self._read_at = self._clock()
        token = text.strip()
        if token:
            self._header = f"Bearer {token}"
        elif self._header is None:
            raise ConfigError(f"the token file {self._path} is empty")
