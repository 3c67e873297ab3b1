"""Container images put together from files of this machine: no Docker daemon, no registry, no base image.

An image is an archive that `ctr images import` and `docker load` both take. It is deterministic: the same files give the
same bytes, whatever their order on disk, their owners, times and the umask. Names inside never depend on where things are
here: the interpreter goes to `/usr/local`, libraries from unusual folders beside the C library.
How it fails: `CommandFailed` from `ldd`, or as the file system says.
"""

import fnmatch
import hashlib
import io
import json
import os
import platform
import re
import shutil
import sys
import sysconfig
import tarfile
import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Protocol

from deploy.image.contents import NOBODY, NOT_OF_THE_STANDARD_LIBRARY, TEXTS
from deploy.image.libraries import needed_by

ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}
NOT_NEEDED = ("__pycache__", "*.a", "*.pyc")
"""Left out of folders unless told otherwise."""


class Content(Protocol):
    """What an image stacks."""

    def write(self, target: IO[bytes]) -> str:
        """Write a tar archive; returns its SHA-256."""
        ...


@dataclass(frozen=True, slots=True)
class Packed:
    """A layer that was written to a file before."""

    archive: Path

    def write(self, target: IO[bytes]) -> str:
        """Copy the archive; returns its SHA-256."""
        with self.archive.open("rb") as file:
            shutil.copyfileobj(file, target, 1 << 20)
        target.seek(0)
        return hashlib.file_digest(target, "sha256").hexdigest()  # type: ignore[arg-type]


class Layer:
    """Files on their way into an image, by their path in it. The first of two under one path stays."""

    def __init__(self) -> None:
        self._entries: dict[str, tuple[int, Path | bytes | None]] = {}

    def folder(self, path: str, mode: int = 0o755) -> None:
        """An empty folder; those that files need come by themselves."""
        self._put(path, mode, None)

    def text(self, path: str, content: str, mode: int = 0o644) -> None:
        """A file with this content."""
        self._put(path, mode, content.encode())

    def file(self, source: Path, path: str) -> None:
        """A copy of a file; of its mode only whether it can be executed is kept."""
        self._put(path, 0o755 if os.access(source, os.X_OK) else 0o644, source)

    def tree(self, source: Path, path: str, *, skipped: Iterable[str] = NOT_NEEDED) -> None:
        """Copies of everything below a folder but names of the `skipped` patterns; links are followed to files only."""
        left_out = _pattern(skipped)
        for base, folders, names in os.walk(source):
            folders[:] = [name for name in folders if not left_out.match(name)]
            below = Path(path) / Path(base).relative_to(source)
            for name in names:
                if (Path(base) / name).is_file() and not left_out.match(name):
                    self.file(Path(base) / name, str(below / name))

    def program(self, source: Path, path: str) -> None:
        """A program with the libraries that it is linked to."""
        self.file(source.resolve(), path)
        self.libraries([source])

    def libraries(self, users: Iterable[Path], *, inside: Path | None = None) -> None:
        """Shared libraries that these files need, but those below `inside`, which the image has at another place."""
        for source, path in needed_by(users, inside=inside):
            self.file(source, path)

    def write(self, target: IO[bytes]) -> str:
        """Write the layer as a tar archive; returns its SHA-256."""
        with tarfile.open(fileobj=target, mode="w", format=tarfile.PAX_FORMAT) as archive:
            for path, (mode, content) in sorted(self._with_parents().items()):
                _add(archive, path, mode, content)
        target.seek(0)
        return hashlib.file_digest(target, "sha256").hexdigest()  # type: ignore[arg-type]

    def _put(self, path: str, mode: int, content: Path | bytes | None) -> None:
        self._entries.setdefault(path.strip("/"), (mode, content))

    def _with_parents(self) -> dict[str, tuple[int, Path | bytes | None]]:
        whole = dict(self._entries)
        for path in self._entries:
            for parent in Path(path).parents:
                if str(parent) != ".":
                    whole.setdefault(str(parent), (0o755, None))
        return whole


@dataclass(frozen=True, slots=True)
class Image:
    """What a container starts from: layers, lowest first, and how it is run."""

    name: str
    layers: tuple[Content, ...]
    entrypoint: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    user: str = str(NOBODY)
    labels: Mapping[str, str] = field(default_factory=dict)

    def write(self, target: Path) -> Path:
        """Write the archive, whole or not at all."""
        target.parent.mkdir(parents=True, exist_ok=True)
        part = target.with_suffix(".part")
        with tarfile.open(part, "w", format=tarfile.PAX_FORMAT) as archive:
            digests = []
            for layer in self.layers:
                with tempfile.TemporaryFile(dir=target.parent) as content:
                    digests.append(layer.write(content))
                    size = content.seek(0, io.SEEK_END)
                    content.seek(0)
                    archive.addfile(_info(f"{digests[-1]}/layer.tar", 0o644, size), content)
            config = json.dumps(self._config(digests), sort_keys=True).encode()
            config_name = f"{hashlib.sha256(config).hexdigest()}.json"
            manifest = [
                {
                    "Config": config_name,
                    "RepoTags": [self.name],
                    "Layers": [f"{digest}/layer.tar" for digest in digests],
                }
            ]
            _add(archive, config_name, 0o644, config)
            _add(archive, "manifest.json", 0o644, json.dumps(manifest).encode())
        part.rename(target)
        return target

    def _config(self, digests: list[str]) -> dict[str, object]:
        machine = platform.machine()
        return {
            "architecture": ARCHITECTURES.get(machine, machine),
            "os": "linux",
            "config": {
                "Env": [
                    f"{key}={value}"
                    for key, value in {"PATH": "/usr/local/bin:/usr/bin:/bin", **self.environment}.items()
                ],
                "Entrypoint": list(self.entrypoint) or None,
                "Labels": dict(self.labels),
                "User": self.user,
                "WorkingDir": "/",
            },
            "rootfs": {"type": "layers", "diff_ids": [f"sha256:{digest}" for digest in digests]},
        }


def foundation() -> Layer:
    """The few files that every image has."""
    layer = Layer()
    layer.folder("tmp", 0o1777)
    for path, text in TEXTS.items():
        layer.text(path, text)
    return layer


def program_image(name: str, program: Path, *, path: str) -> Image:
    """An image of one program, which is its entrypoint."""
    layer = foundation()
    layer.program(program, path)
    return Image(name, (layer,), entrypoint=(path,))


def python_image(
    name: str, *, site_packages: Path | None = None, entrypoint: Iterable[str] = ("python3",)
) -> Image:
    """An image of the interpreter that runs this, its standard library, and a folder of installed packages."""
    standard = Path(sysconfig.get_path("stdlib"))
    destination = f"usr/local/lib/python{sys.version_info.major}.{sys.version_info.minor}"
    interpreter = foundation()
    interpreter.program(Path(sys.executable), "usr/local/bin/python3")
    interpreter.tree(standard, destination, skipped=NOT_OF_THE_STANDARD_LIBRARY)
    skipped = _pattern(NOT_OF_THE_STANDARD_LIBRARY)
    extensions = (standard / "lib-dynload").glob("*.so")
    interpreter.libraries(path for path in extensions if not skipped.match(path.name))
    layers = [interpreter]
    if site_packages is not None:
        site = Layer()
        site.tree(site_packages, f"{destination}/site-packages")
        site.libraries(site_packages.rglob("*.so"), inside=site_packages.resolve())
        layers.append(site)
    environment = {"PYTHONDONTWRITEBYTECODE": "1", "PYTHONUNBUFFERED": "1"}
    return Image(name, tuple(layers), entrypoint=tuple(entrypoint), environment=environment)


def _pattern(names: Iterable[str]) -> re.Pattern[str]:
    return re.compile("|".join(fnmatch.translate(name) for name in names) or "(?!)")


def _info(path: str, mode: int, size: int) -> tarfile.TarInfo:
    info = tarfile.TarInfo(path)
    info.mode, info.size = mode, size  # owner 0:0 and time 0 are TarInfo's defaults
    return info


def _add(archive: tarfile.TarFile, path: str, mode: int, content: Path | bytes | None) -> None:
    if content is None:
        info = _info(path, mode, 0)
        info.type = tarfile.DIRTYPE
        archive.addfile(info)
    elif isinstance(content, bytes):
        archive.addfile(_info(path, mode, len(content)), io.BytesIO(content))
    else:
        with content.open("rb") as file:
            archive.addfile(_info(path, mode, content.stat().st_size), file)
