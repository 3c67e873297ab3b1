"""Certificates for tests: a CA, leaves under it for any role, and a directory in which they are mounted as kubelet does it."""

from __future__ import annotations

import itertools
import os
import time
from pathlib import Path

from noctaya.leader.certificate_making import Pair, make_authority, make_leaf
from noctaya.wire.identity import Role
from noctaya.wire.material import AUTHORITIES, CERTIFICATE, KEY, Material

NAMESPACE = "noctaya-system"
HOUR = 3600.0


class Issuer:
    """A CA."""

    def __init__(self, *, ends_in: float = HOUR) -> None:
        self.began = time.time() - HOUR
        self.pair: Pair = make_authority(begins=self.began, ends=time.time() + ends_in)

    def material(
        self,
        role: Role,
        *,
        namespace: str = NAMESPACE,
        ends_in: float = HOUR,
        trusts: tuple[Issuer, ...] | None = None,
    ) -> Material:
        """What a process of `role` holds; it trusts this CA alone where nothing else is said."""
        leaf = make_leaf(role, namespace, self.pair, begins=self.began, ends=time.time() + ends_in)
        bundle = b"".join(issuer.pair.certificate for issuer in (trusts or (self,)))
        return Material(leaf.certificate, leaf.key, bundle)


class Given:
    """A `Source` whose material a test changes."""

    problem: str | None = None

    def __init__(self, material: Material | None = None) -> None:
        self.material = material

    def current(self) -> Material | None:
        return self.material


class Mount:
    """A Secret's volume: files are links through `..data`, which is swapped in one step."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._numbers = itertools.count()
        directory.mkdir(exist_ok=True)

    def put(self, material: Material) -> None:
        self.put_files(
            {CERTIFICATE: material.certificate, KEY: material.key, AUTHORITIES: material.authorities}
        )

    def put_files(self, files: dict[str, bytes]) -> None:
        number = next(self._numbers)
        content = self.directory / f"..{number}"
        content.mkdir()
        for name, text in files.items():
            (content / name).write_bytes(text)
        swap = self.directory / "..data_tmp"
        swap.symlink_to(content.name)
        os.replace(swap, self.directory / "..data")
        for name in (CERTIFICATE, KEY, AUTHORITIES):
            link = self.directory / name
            if name in files and not link.is_symlink():
                link.symlink_to(Path("..data") / name)
            elif name not in files and link.is_symlink():
                link.unlink()


def is_secret_free(text: str, *materials: Material) -> bool:
    """Whether no part of any key stands in `text`."""
    lines = [line for material in materials for line in material.key.decode().splitlines() if len(line) > 20]
    return "PRIVATE KEY" not in text and not any(line in text for line in lines if "-----" not in line)
