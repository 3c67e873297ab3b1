"""Machine-wide settings that kubelet writes and no namespace keeps apart: noted before, put back after."""

from pathlib import Path

NAMES = (
    "vm/overcommit_memory",
    "vm/panic_on_oom",
    "kernel/panic",
    "kernel/panic_on_oops",
    "kernel/keys/root_maxkeys",
    "kernel/keys/root_maxbytes",
)


def current() -> dict[str, str]:
    """The settings as they are now."""
    paths = ((name, Path("/proc/sys") / name) for name in NAMES)
    return {name: path.read_text() for name, path in paths if path.exists()}


def restore(before: dict[str, str]) -> None:
    """Write those that differ."""
    for name, value in before.items():
        path = Path("/proc/sys") / name
        if path.read_text() != value:
            path.write_text(value)
