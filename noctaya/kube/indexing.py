"""Secondary keys of a store: which objects have this value.

Kept by the changes that the store emits, so an index and the store never disagree between two callbacks.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Generic, TypeVar

from noctaya.kube.reflector import Change, HasMetadata, Key

T = TypeVar("T", bound=HasMetadata)


class Index(Generic[T]):
    """All indexes of one store, by name. Indexers must be pure: the old value is computed again to be removed."""

    def __init__(self, indexers: Mapping[str, Callable[[T], list[str]]]) -> None:
        self._indexers = dict(indexers)
        self._found: dict[str, dict[str, dict[Key, T]]] = {name: {} for name in indexers}

    def find(self, index: str, value: str) -> list[T]:
        """The objects with that value. Raises KeyError for an index that was not declared."""
        return list(self._found[index].get(value, {}).values())

    def apply(self, change: Change[T]) -> None:
        """Follow one change."""
        for name, indexer in self._indexers.items():
            values = self._found[name]
            if change.old is not None:
                self._remove(values, indexer(change.old), change.old)
            if change.new is not None:
                for value in indexer(change.new):
                    values.setdefault(value, {})[_key(change.new)] = change.new

    @staticmethod
    def _remove(values: dict[str, dict[Key, T]], old_values: list[str], old: T) -> None:
        for value in old_values:
            objects = values.get(value)
            if objects is not None:
                objects.pop(_key(old), None)
                if not objects:
                    del values[value]


def _key(item: HasMetadata) -> Key:
    return (item.metadata.namespace, item.metadata.name)
