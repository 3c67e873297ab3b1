"""Files and folders that are made once for a content and kept: their name ends with a key of all that went into them.

Invariants: what stands under its final name is complete (it is made under another and renamed), and of several processes
that want the same one makes it while the others wait. The newest stay, and whatever was used within the last ten minutes: another
process may be reading it. How it fails: as the making of it does; nothing is left under the final name.
"""

import fcntl
import hashlib
import os
import shutil
import time
from collections.abc import Callable, Iterable
from pathlib import Path

KEEP = 4
IN_USE_SECONDS = 600.0
PART = ".part"


class Kept:
    """A folder of such files."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def get(self, kind: str, key: str, make: Callable[[Path], None], *, suffix: str = "") -> Path:
        """`<kind>-<key><suffix>`, made by `make(path)` when it is not there."""
        path = self.folder / f"{kind}-{key}{suffix}"
        self.folder.mkdir(parents=True, exist_ok=True)
        with (self.folder / f"{kind}.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not path.exists():
                part = path.with_name(path.name + PART)
                _remove(part)
                make(part)
                part.rename(path)
            os.utime(path)
            self._forget_old(kind, path)
        return path

    def _forget_old(self, kind: str, used: Path) -> None:
        length = len(used.name)
        found = [path for path in self.folder.glob(f"{kind}-*") if len(path.name) == length and path != used]
        found.sort(key=lambda path: path.stat().st_mtime, reverse=True)
        for path in found[KEEP - 1 :]:
            if time.time() - path.stat().st_mtime > IN_USE_SECONDS:
                _remove(path)


def key_of(*parts: object, files: Iterable[tuple[str, Path]] = ()) -> str:
    """A key of values, by their `repr`, and of files, by their name inside and their content."""
    digest = hashlib.sha256(repr(parts).encode())
    for name, path in files:
        digest.update(f"\0{name}\0".encode() + path.read_bytes())
    return digest.hexdigest()[:20]


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
