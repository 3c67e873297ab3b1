"""One request under way at a time, each with a number, a deadline and an answer that counts once.

An answer to a request that was given up changes nothing, whenever it comes. A request that nobody answers is given up, so
that a shell that lost one cannot stop its core.
"""

from __future__ import annotations

from typing import Generic, Protocol, TypeVar


class Numbered(Protocol):
    """A request that carries its number."""

    @property
    def request(self) -> int: ...


RequestT = TypeVar("RequestT", bound=Numbered)


class OneRequest(Generic[RequestT]):
    """See the module."""

    def __init__(self, deadline: float) -> None:
        """`deadline`: seconds after which a request counts as never answered."""
        self.deadline = deadline
        self._last = 0
        self._pending: RequestT | None = None
        self._sent = 0.0
        self._not_before = float("-inf")

    def number(self) -> int:
        """The number for the next request."""
        self._last += 1
        return self._last

    def ask(self, request: RequestT, now: float) -> None:
        """`request` is on its way from now on."""
        self._pending, self._sent = request, now

    def answered(self, number: int | None) -> RequestT | None:
        """The request under way, if it is the one that was answered; it is over then."""
        pending = self._pending
        if pending is None or pending.request != number:
            return None
        self._pending = None
        return pending

    def wait(self, until: float) -> None:
        """Nothing is to be asked before `until`."""
        self._not_before = until

    def drop(self) -> None:
        """Whatever is under way is no concern of ours any more; nothing is waited for."""
        self._pending, self._not_before = None, float("-inf")

    def is_free(self, now: float) -> bool:
        """Whether something may be asked."""
        if self._pending is not None and now - self._sent >= self.deadline:
            self._pending = None
        return self._pending is None and now >= self._not_before
