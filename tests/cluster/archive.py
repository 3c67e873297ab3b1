"""Looking into an image archive, as an engine would unpack it.

Invariants: nothing is written; of two layers' files under one path the upper one counts (images here delete nothing). How it
fails: `KeyError` for a path that is not there, `tarfile.TarError` for what is no archive.
"""

import hashlib
import json
import tarfile
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any


class Archive:
    """An image that is open for reading."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._closing = ExitStack()
        with ExitStack() as opening:
            outer = opening.enter_context(tarfile.open(path))
            (manifest,) = json.loads(_read(outer, "manifest.json"))
            config = _read(outer, manifest["Config"])
            self.tags: tuple[str, ...] = tuple(manifest["RepoTags"])
            self.digest = "sha256:" + hashlib.sha256(config).hexdigest()
            """The image's id: the digest of its configuration, which names every layer by its digest."""
            self.config: dict[str, Any] = json.loads(config)
            self.layers: list[str] = self.config["rootfs"]["diff_ids"]
            self._files: dict[str, tuple[tarfile.TarFile, tarfile.TarInfo]] = {}
            for name in manifest["Layers"]:
                layer = opening.enter_context(tarfile.open(fileobj=outer.extractfile(name)))
                self._files.update({entry.name: (layer, entry) for entry in layer})
            self._closing = opening.pop_all()

    def __enter__(self) -> "Archive":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._closing.close()

    def entries(self) -> Iterator[tarfile.TarInfo]:
        """Files and folders of the unpacked image, by path, without a leading slash."""
        return (entry for _, (_, entry) in sorted(self._files.items()))

    def read(self, path: str) -> bytes:
        """The content of one file."""
        layer, entry = self._files[path]
        return _read(layer, entry)

    @property
    def unpacked_bytes(self) -> int:
        """What its files take together, each with its own length."""
        return sum(entry.size for entry in self.entries())


def _read(archive: tarfile.TarFile, name: str | tarfile.TarInfo) -> bytes:
    file = archive.extractfile(name)
    if file is None:
        raise KeyError(f"{name} is no file")
    with file:
        return file.read()
