"""What no namespace keeps apart: machine-wide settings that kubelet writes, and the pods' control groups.

They are noted before the start and put back at the end, by whoever ends the cluster: its guard, or `down` when the guard
itself was killed. Doing it twice does no harm.
"""

import os
import time
from pathlib import Path

from tests.cluster.requirements import pod_groups

SYSCTLS = (
    "vm/overcommit_memory",
    "vm/panic_on_oom",
    "kernel/panic",
    "kernel/panic_on_oops",
    "kernel/keys/root_maxkeys",
    "kernel/keys/root_maxbytes",
)
EMPTY_SECONDS = 10.0
"""A control group can be removed once its last process is collected."""


def sysctls() -> dict[str, str]:
    """The settings as they are now."""
    paths = ((name, Path("/proc/sys") / name) for name in SYSCTLS)
    return {name: path.read_text() for name, path in paths if path.exists()}


def restore_sysctls(before: dict[str, str]) -> None:
    """Write those that differ."""
    for name, value in before.items():
        path = Path("/proc/sys") / name
        if path.read_text() != value:
            path.write_text(value)


def remove_pod_groups() -> list[Path]:
    """Remove the pods' control groups; returns those that would not go (something still runs in them)."""
    deadline = time.monotonic() + EMPTY_SECONDS
    while left := [group for group in pod_groups() if group.is_dir()]:
        for group in left:
            _remove(group)
        if time.monotonic() > deadline:
            break
        time.sleep(0.05)
    return left


def _remove(group: Path) -> None:
    for base, folders, _ in os.walk(group, topdown=False):
        for folder in (*(Path(base) / name for name in folders), Path(base)):
            try:
                folder.rmdir()
            except FileNotFoundError:
                continue
            except OSError:  # busy: a process in it is not collected yet; the caller comes again
                return
