"""Which kinds are served right now: the built-in ones and those of established custom resource definitions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from noctaya.local.apiserver.kinds import Kind


class Registry:
    """Look-up by (group, version, plural) and by kind; changed only by `set_custom`."""

    def __init__(self, builtin: Iterable[Kind]) -> None:
        self._builtin = {(k.group, k.version, k.plural): k for k in builtin}
        self._custom: dict[str, list[Kind]] = {}
        self._by_path = dict(self._builtin)
        self.generation = 0
        """Rises with every change, so that derived documents can be cached."""

    def find(self, group: str, version: str, plural: str) -> Kind | None:
        """The kind that a path names."""
        return self._by_path.get((group, version, plural))

    def serves(self, group: str, version: str) -> bool:
        """Whether there is anything in a group's version."""
        return any(key[:2] == (group, version) for key in self._by_path)

    def by_kind(self, api_version: str, kind: str) -> Kind | None:
        """The kind that an object's apiVersion and kind name."""
        for found in self._by_path.values():
            if found.kind == kind and found.api_version == api_version:
                return found
        return None

    def builtin_group(self, group: str) -> bool:
        """Whether a group is served by built-in kinds."""
        return any(key[0] == group for key in self._builtin)

    def set_custom(self, definition: str, kinds: list[Kind]) -> None:
        """Serve these kinds for a definition from now on (none: it is gone)."""
        if kinds:
            self._custom[definition] = kinds
        else:
            self._custom.pop(definition, None)
        self._by_path = dict(self._builtin)
        for served in self._custom.values():
            self._by_path.update({(k.group, k.version, k.plural): k for k in served})
        self.generation += 1

    def custom(self, definition: str) -> list[Kind]:
        """The kinds served for a definition."""
        return self._custom.get(definition, [])

    def groups(self) -> dict[str, list[str]]:
        """Served versions by group, the core group first."""
        found: dict[str, list[str]] = {}
        for group, version, _ in self._by_path:
            versions = found.setdefault(group, [])
            if version not in versions:
                versions.append(version)
        return found

    def in_version(self, group: str, version: str) -> list[Kind]:
        """Kinds of one group and version."""
        return [kind for kind in self._by_path.values() if (kind.group, kind.version) == (group, version)]

    def __iter__(self) -> Iterator[Kind]:
        return iter(self._by_path.values())
