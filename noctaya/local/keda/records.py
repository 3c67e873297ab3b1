"""The newest known state of every object of one kind, from the watch and from the answers to our own writes.

A write's answer is usually newer than the watch for a moment; a loop that read the older copy would undo its own last
condition. Invariant: a record is never replaced by one with a lower resourceVersion of the same uid.
"""

from collections import deque
from collections.abc import Iterator
from typing import Any

from msgspec import field

from noctaya.kube.objects import Object

Key = tuple[str, str]
"""Namespace and name."""


class Record(Object, frozen=True):
    """An object with its spec and status as plain JSON: a ScaledObject, an HPA or a Deployment."""

    spec: dict[str, Any] = field(default_factory=dict)
    status: dict[str, Any] = field(default_factory=dict)

    @property
    def key(self) -> Key:
        return (self.metadata.namespace, self.metadata.name)


class Records:
    """Newest wins. Forgets an object when the watch says that it is gone."""

    def __init__(self) -> None:
        self._newest: dict[Key, Record] = {}
        # The answer to a write may come after the watch's "deleted"; it must not bring the object back.
        self._gone_uids: deque[str] = deque(maxlen=256)

    def __iter__(self) -> Iterator[Record]:
        return iter(list(self._newest.values()))

    def get(self, key: Key) -> Record | None:
        """The newest record of that name, or None when there is no such object."""
        return self._newest.get(key)

    def saw(self, record: Record) -> bool:
        """Take `record` if it is news; says whether it was."""
        if record.uid in self._gone_uids:
            return False
        known = self._newest.get(record.key)
        if known is not None and known.uid == record.uid and _version(record) <= _version(known):
            return False
        self._newest[record.key] = record
        return True

    def saw_gone(self, record: Record) -> None:
        """This object was deleted; a newer one of the same name stays."""
        self._gone_uids.append(record.uid)
        known = self._newest.get(record.key)
        if known is not None and known.uid == record.uid:
            del self._newest[record.key]


def _version(record: Record) -> int:
    # Opaque by the API's letter; comparable as a number in every server that the embedded cluster is.
    text = record.metadata.resource_version
    return int(text) if text.isdecimal() else 0
