"""What a core was told and what it made of it, bounded, so that a decision can be looked at and replayed.

`heard` keeps inputs as they were: fed again to a fresh core, in order and with their times, they lead to the same actions,
as long as nothing has fallen off the beginning (`is_complete`). `told` keeps sentences for people, each about one subject
(`shard/17`, `worker/<pod>`, `map`). Both forget the oldest first and never grow beyond their limits.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Generic, TypeVar

EventT = TypeVar("EventT")


@dataclass(frozen=True, slots=True)
class Entry:
    """One sentence. `now` is the clock of the core that told it."""

    now: float
    subject: str
    text: str


class Story(Generic[EventT]):
    """See the module."""

    def __init__(self, *, inputs: int = 4096, entries: int = 2000) -> None:
        self._inputs: deque[tuple[float, EventT]] = deque(maxlen=inputs)
        self._entries: deque[Entry] = deque(maxlen=entries)
        self._heard = 0
        self.on_entry: Callable[[Entry], None] = lambda entry: None
        """Hears every sentence as it is told; a shell writes it to the log."""

    def hear(self, event: EventT, now: float) -> None:
        """Keep an input."""
        self._heard += 1
        self._inputs.append((now, event))

    def tell(self, now: float, subject: str, text: str) -> None:
        """Keep a sentence about `subject`."""
        entry = Entry(now, subject, text)
        self._entries.append(entry)
        self.on_entry(entry)

    @property
    def is_complete(self) -> bool:
        """Whether `inputs` still begins with the first event ever heard."""
        return self._heard == len(self._inputs)

    def inputs(self) -> list[tuple[float, EventT]]:
        """The inputs that are kept, oldest first."""
        return list(self._inputs)

    def entries(self, subject: str | None = None) -> Iterator[Entry]:
        """The sentences that are kept, oldest first; only those about `subject` when one is named."""
        return (entry for entry in list(self._entries) if subject is None or entry.subject == subject)

    def dump(self) -> list[dict[str, object]]:
        """The sentences as plain values, for JSON."""
        return [
            {"now": round(entry.now, 3), "subject": entry.subject, "text": entry.text}
            for entry in self.entries()
        ]
