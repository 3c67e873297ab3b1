"""A cluster's own branch of the machine's control groups, made before the start and removed at the end.

Pods' limits need the machine's control groups, which no namespace of ours keeps apart; with a branch of its own a cluster
meets neither another one nor a kubelet of the machine. Both versions are known: one tree with controllers (2), or a tree
for each controller (1). How it fails: a branch in which something still runs does not go; it is named.
"""

import os
import time
from pathlib import Path

ROOT = Path("/sys/fs/cgroup")
CONTROLLERS = ("cpuset", "cpu", "io", "memory", "hugetlb", "pids")
EMPTY_SECONDS = 10.0
"""A group can be removed once its last process is collected."""


def are_there() -> bool:
    """This machine has control groups with a memory controller."""
    return _is_unified() or (ROOT / "memory").is_dir()


def make(branch: str) -> None:
    """Make a branch that kubelet accepts as its root."""
    if _is_unified():
        _enable(ROOT)
        (ROOT / branch).mkdir()
        _enable(ROOT / branch)
        return
    for tree in ROOT.iterdir():
        # a link is another name of a tree ("cpu" of "cpu,cpuacct")
        if tree.is_dir() and not tree.is_symlink():
            (tree / branch).mkdir(exist_ok=True)


def remove(branch: str) -> list[Path]:
    """Remove a branch with all below it; returns what would not go."""
    deadline = time.monotonic() + EMPTY_SECONDS
    while left := [group for group in _groups(branch) if group.is_dir()]:
        for group in left:
            _remove(group)
        if time.monotonic() > deadline:
            break
        time.sleep(0.05)
    return left


def _groups(branch: str) -> list[Path]:
    return [
        ROOT / branch,
        *(tree / branch for tree in ROOT.iterdir() if tree.is_dir() and not tree.is_symlink()),
    ]


def _is_unified() -> bool:
    return (ROOT / "cgroup.controllers").exists()


def _enable(group: Path) -> None:
    """Give every controller that this group has to the groups below it."""
    there = (group / "cgroup.controllers").read_text().split()
    wanted = " ".join(f"+{controller}" for controller in CONTROLLERS if controller in there)
    (group / "cgroup.subtree_control").write_text(wanted)


def _remove(group: Path) -> None:
    for base, folders, _ in os.walk(group, topdown=False):
        for folder in (*(Path(base) / name for name in folders), Path(base)):
            try:
                folder.rmdir()
            except FileNotFoundError:
                continue
            except OSError:  # busy: a process in it is not collected yet; the caller comes again
                return
