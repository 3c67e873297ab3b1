"""Who gets in: bounded by count per service and by bytes per service and per process. Pure.

Invariants: no more places are taken than there are; bytes are never negative; a ticket gives back exactly what it took, once.
The places of a service grow with its ready endpoints: `max_queue` bounds the queue of a sleeping model, not the throughput
of a model with many replicas.
"""

from dataclasses import dataclass, field

from noctaya.gateway import openai_errors
from noctaya.gateway.openai_errors import Refusal


@dataclass(slots=True, eq=False)
class Ticket:
    """One admitted request: a place, and the bytes of its body while they are in memory."""

    key: str
    size: int = 0
    is_open: bool = True


@dataclass(slots=True)
class _Taken:
    places: int = 0
    size: int = 0


@dataclass(slots=True)
class Admission:
    """The places and bytes of one gateway process."""

    max_bytes: int
    max_bytes_per_service: int
    size: int = 0
    _services: dict[str, _Taken] = field(default_factory=dict)

    def admit(self, key: str, max_queue: int, ready_endpoints: int, size: int = 0) -> Ticket | Refusal:
        """Take a place, and `size` bytes when the length of the body is known."""
        taken = self._services.setdefault(key, _Taken())
        places = max_queue * max(1, ready_endpoints)
        if taken.places >= places:
            return openai_errors.queue_full(key, places)
        if refusal := self._objection(key, taken, size):
            self._forget_empty(key)
            return refusal
        taken.places += 1
        ticket = Ticket(key)
        self._take(taken, ticket, size)
        return ticket

    def grow(self, ticket: Ticket, size: int) -> Refusal | None:
        """Take `size` more bytes for a body that turns out longer than was known."""
        taken = self._services[ticket.key]
        if refusal := self._objection(ticket.key, taken, size):
            return refusal
        self._take(taken, ticket, size)
        return None

    def objection(self, key: str | None, size: int) -> Refusal | None:
        """Why an announced body of `size` bytes cannot fit now; with no key the process alone is asked.

        It takes nothing: bytes count when they arrive, so that a client that announces much and sends little shuts nobody out.
        """
        if key is not None:
            return self._objection(key, self._services.get(key, _Taken()), size)
        return openai_errors.process_bytes_full() if self.size + size > self.max_bytes else None

    def reserve(self, size: int) -> Refusal | None:
        """Take bytes for a body whose service is not known yet; `unreserve` gives them back."""
        if refusal := self.objection(None, size):
            return refusal
        self.size += size
        return None

    def unreserve(self, size: int) -> None:
        """Give back what `reserve` took."""
        self.size -= size

    def drop_body(self, ticket: Ticket) -> None:
        """The body is no longer in memory; the place stays taken."""
        taken = self._services[ticket.key]
        taken.size -= ticket.size
        self.size -= ticket.size
        ticket.size = 0

    def release(self, ticket: Ticket) -> None:
        """Give everything back. A second time does nothing."""
        if not ticket.is_open:
            return
        self.drop_body(ticket)
        ticket.is_open = False
        self._services[ticket.key].places -= 1
        self._forget_empty(ticket.key)

    def places_taken(self, key: str) -> int:
        """How many requests of a service are inside."""
        taken = self._services.get(key)
        return taken.places if taken else 0

    def _objection(self, key: str, taken: _Taken, size: int) -> Refusal | None:
        if taken.size + size > self.max_bytes_per_service:
            return openai_errors.service_bytes_full(key)
        if self.size + size > self.max_bytes:
            return openai_errors.process_bytes_full()
        return None

    def _take(self, taken: _Taken, ticket: Ticket, size: int) -> None:
        taken.size += size
        self.size += size
        ticket.size += size

    def _forget_empty(self, key: str) -> None:
        if not self._services[key].places:
            del self._services[key]
