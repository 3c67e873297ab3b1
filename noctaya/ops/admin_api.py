"""One worker's admin port as a client sees it: a question by name, a JSON object as the answer.

Every question has a deadline. What is no answer is `AdminUnreachable`, a port that is not a worker's `AdminLacks`, a
parameter that cannot be `QuestionRefused`.
"""

from __future__ import annotations

from typing import Any
from urllib.parse import urlsplit

import aiohttp
import msgspec

from noctaya.ops.errors import AdminLacks, AdminUnreachable, AdminUnusable, QuestionRefused

QUESTION_SECONDS = 15.0


class AdminApi:
    """Use as an async context manager, or call `close`."""

    def __init__(self, url: str, *, seconds: float = QUESTION_SECONDS) -> None:
        self.url = checked(url)
        self._seconds = seconds
        self._session: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> AdminApi:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def ask(self, name: str, **query: str | int) -> dict[str, Any]:
        """The answer of `/debug/<name>`."""
        if self._session is None:
            timeout = aiohttp.ClientTimeout(total=self._seconds)
            self._session = aiohttp.ClientSession(timeout=timeout, trust_env=False)
        try:
            async with self._session.get(f"{self.url}/debug/{name}", params=query) as response:
                return self._answer(name, response.status, await response.read())
        except TimeoutError as error:
            raise AdminUnreachable(self.url, f"nothing for {self._seconds:g} s") from error
        except (aiohttp.ClientError, OSError) as error:
            raise AdminUnreachable(self.url, str(error) or type(error).__name__) from error

    async def close(self) -> None:
        """Hang up."""
        if self._session is not None:
            await self._session.close()
            self._session = None

    def _answer(self, name: str, status: int, body: bytes) -> dict[str, Any]:
        if status == 404:
            raise AdminLacks(self.url, name)
        if status >= 500:
            raise AdminUnreachable(self.url, f"HTTP {status}")
        try:
            answer = msgspec.json.decode(body)
        except msgspec.DecodeError as error:
            if status >= 400:
                raise QuestionRefused(self.url, body[:300].decode(errors="replace")) from error
            raise AdminLacks(self.url, name) from error
        if status >= 400:
            raise QuestionRefused(
                self.url, str(answer.get("error", answer) if isinstance(answer, dict) else answer)
            )
        if not isinstance(answer, dict):
            raise AdminLacks(self.url, name)
        return answer


def checked(url: str) -> str:
    """`url` without a slash at its end. Raises AdminUnusable."""
    try:
        parts = urlsplit(url)
        is_url = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_url = False
    if not is_url:
        raise AdminUnusable(url)
    return url.rstrip("/")
