"""Which shared libraries programs need, and where they belong in an image that has nothing else.

Names inside never depend on where things are here: a library from an unusual folder goes beside the C library, where the
loader looks without being told. How it fails: `LibraryMissing` for one that this machine has not; a file that `ldd` cannot
read needs nothing.
"""

import re
import subprocess
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

LIBRARY_FOLDERS = ("/lib", "/lib64", "/usr/lib", "/usr/lib64")
"""The loader looks below these without being told."""


class LibraryMissing(Exception):
    """A program could not start in the image: a library that it needs is not on this machine."""

    def __init__(self, user: Path, names: Sequence[str]) -> None:
        super().__init__(
            f"{user} needs {', '.join(names)}, which this machine has not: install it and try again"
        )
        self.user = user
        self.names = tuple(names)


def needed_by(users: Iterable[Path], *, inside: Path | None = None) -> list[tuple[Path, str]]:
    """(file here, path in the image) of every library that these files need, the loader too.

    What lies below `inside` is left out: the image has it at another place.

    Raises:
        LibraryMissing: one of them is not on this machine.
    """
    beside = str(_c_library().parent)
    todo, done = [path.resolve() for path in users], set[Path]()
    found: list[tuple[Path, str]] = []
    while todo:
        for library in sorted(_linked(todo.pop()) - done):
            done.add(library)
            todo.append(library.resolve())
            if inside is not None and library.is_relative_to(inside):
                continue
            usual = str(library).startswith(LIBRARY_FOLDERS)
            found.append((library.resolve(), str(library) if usual else f"{beside}/{library.name}"))
    return found


def _linked(path: Path) -> set[Path]:
    """Libraries of an ELF file, the loader too; none for a static one and for what is no ELF file."""
    done = subprocess.run(["ldd", path], capture_output=True, text=True, timeout=60, check=False)
    if done.returncode:
        return set()
    if missing := re.findall(r"(\S+) => not found", done.stdout):
        raise LibraryMissing(path, missing)
    return {Path(found) for found in re.findall(r"(?:^|\s)(/\S+) \(0x", done.stdout)}


def _c_library() -> Path:
    found = [path for path in _linked(Path(sys.executable).resolve()) if path.name.startswith("libc.so")]
    return found[0] if found else Path("/usr/lib/libc.so")
