"""A request as it comes in, free of any server's types: its head, and where the rest of it comes from."""

from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Protocol

from noctaya.gateway.headers import Headers


@dataclass(frozen=True, slots=True)
class Head:
    """A request's head, free of any server's types. `path` is raw (percent-encoded), without the query."""

    method: str
    path: str
    query: str
    headers: Headers
    client: str
    scheme: str = "http"
    first: dict[str, str] = field(default_factory=dict)
    """The first value of every header, by lower-case name."""

    def get(self, name: str) -> str:
        return self.first.get(name, "")


class BodySource(Protocol):
    """Where the rest of the request comes from."""

    def chunks(self) -> AsyncIterator[bytes]:
        """The body as it arrives; nothing is read before the first piece is asked for."""
        ...
