"""The directory in which one embedded cluster keeps its things, and the kubeconfig that leads to it.

A state directory belongs to one cluster at a time: a lock that the kernel drops with the process holds it, so that kill -9
leaves no stale one. Without a state directory a temporary one is made and removed. A kubeconfig is only ever written over
one of ours: a person's own, with other clusters' credentials in it, is refused. Paths are absolute from here on, because
pods run in directories of their own.
"""

import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import yaml

from noctaya.local.errors import DirectoryUnusable, ForeignKubeconfig, StateInUse

CLUSTER_NAME = "noctaya-local"


@contextmanager
def working_directory(state_dir: Path | None) -> Iterator[Path]:
    """`state_dir`, made when it is missing and locked, or a temporary directory that is gone afterwards.

    Raises:
        StateInUse: another cluster runs on `state_dir`.
        DirectoryUnusable: it cannot be made or written to.
    """
    with ExitStack() as stack:
        try:
            if state_dir is None:
                path = Path(tempfile.mkdtemp(prefix="noctaya-")).resolve()
                stack.callback(shutil.rmtree, path, ignore_errors=True)
            else:
                path = state_dir.expanduser().resolve()
                path.mkdir(parents=True, exist_ok=True)
                lock = os.open(path / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
                stack.callback(os.close, lock)
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise StateInUse(path) from error
        except OSError as error:
            where = state_dir or Path(tempfile.gettempdir())
            raise DirectoryUnusable(where, error.strerror or str(error)) from error
        yield path


def kubeconfig_path(wanted: Path | None, work_dir: Path) -> Path:
    """Where this cluster's kubeconfig goes; nothing is written yet.

    Raises:
        ForeignKubeconfig: `wanted` is a file that is not an embedded cluster's.
        DirectoryUnusable: `wanted` cannot be written.
    """
    if wanted is None:
        return work_dir / "kubeconfig"
    path = wanted.expanduser().absolute()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        with os.fdopen(descriptor) as file:
            text = file.read()
    except (OSError, UnicodeDecodeError) as error:
        raise DirectoryUnusable(path, getattr(error, "strerror", None) or "it is not a text file") from error
    if text and not _is_ours(text):
        raise ForeignKubeconfig(path)
    return path


def _is_ours(text: str) -> bool:
    try:
        found = yaml.safe_load(text)
        return [one["name"] for one in found["clusters"]] == [CLUSTER_NAME]
    except (yaml.YAMLError, KeyError, TypeError):
        return False
