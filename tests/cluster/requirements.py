"""What this machine must have, checked before anything is started and answered in one list.

Each line says what is missing and how to get it. How it fails: `RequirementsMissing`, with every line at once, so that
nobody installs one thing to learn about the next.
"""

import os
import re
import shutil
import sys
from pathlib import Path

from tests.cluster import control_groups
from tests.cluster.errors import CommandFailed, RequirementsMissing
from tests.cluster.processes import run

GO_VERSION = (1, 26)
BUILD_MEMORY_BYTES = 3 << 30
"""The linkers' peak, three of them side by side, is 2.5 GiB."""
RUN_MEMORY_BYTES = 2 << 30
BUILD_DISK_BYTES = 9 << 30
"""Modules, the compiler's cache and the programs."""
DEBIAN_PACKAGES = "containerd runc containernetworking-plugins iptables conntrack iproute2"
INSTALL = f"apt-get install --no-install-recommends {DEBIAN_PACKAGES}"
NODE_PROGRAMS = ("containerd", "ctr", "runc", "iptables", "conntrack", "ip", "mount", "nsenter")
NETWORK_PLUGINS = ("bridge", "host-local", "loopback", "portmap")
NETWORK_PLUGIN_FOLDERS = (Path("/usr/lib/cni"), Path("/opt/cni/bin"))


def need(missing: list[str]) -> None:
    """Raise when the list is not empty."""
    if missing:
        raise RequirementsMissing(missing)


def missing_for_build(cache: Path) -> list[str]:
    """What keeps this machine from building the programs."""
    found = missing_go()
    if available_memory_bytes() < BUILD_MEMORY_BYTES:
        found.append(f"memory: the build needs {BUILD_MEMORY_BYTES >> 30} GiB available")
    if shutil.disk_usage(_existing(cache)).free < BUILD_DISK_BYTES:
        found.append(f"disk: the build needs {BUILD_DISK_BYTES >> 30} GiB free in {cache}")
    return found


def missing_go() -> list[str]:
    """Go names the cached programs too, so even a run that builds nothing needs it."""
    wanted = ".".join(map(str, GO_VERSION))
    try:
        answer = run(["go", "env", "GOVERSION"])
    except CommandFailed as failure:
        return [f"Go {wanted} or newer, in PATH ({failure.output.strip()})"]
    version = re.match(r"go(\d+)\.(\d+)", answer)
    if version is None or (int(version[1]), int(version[2])) < GO_VERSION:
        return [f"Go {wanted} or newer; this is {answer.strip()}"]
    return []


def missing_for_quick() -> list[str]:
    """What keeps this machine from running the control plane and KEDA as plain processes."""
    found = [] if sys.platform == "linux" else [f"Linux; this is {sys.platform}"]
    if available_memory_bytes() < RUN_MEMORY_BYTES:
        found.append(f"memory: the cluster needs {RUN_MEMORY_BYTES >> 30} GiB available")
    return found


def missing_for_node() -> list[str]:
    """What keeps this machine from running a node with containers."""
    found = missing_for_quick()
    if os.geteuid() != 0:
        found.append("root: containers, namespaces and iptables need it (without it, `--quick` runs no node)")
    absent = [program for program in NODE_PROGRAMS if shutil.which(program) is None]
    if network_plugins() is None:
        absent.append("container network plugins")
    if absent:
        found.append(f"{', '.join(absent)}; on Debian: {INSTALL}")
    if "overlay" not in _words("/proc/filesystems"):
        found.append("overlayfs in the kernel (module `overlay`)")
    if not control_groups.are_there():
        found.append("control groups with a memory controller below /sys/fs/cgroup")
    return found


def network_plugins() -> Path | None:
    """The folder that holds every network plugin that a pod's network is made with."""
    for folder in NETWORK_PLUGIN_FOLDERS:
        if all((folder / plugin).is_file() for plugin in NETWORK_PLUGINS):
            return folder
    return None


def available_memory_bytes() -> int:
    """Memory that a new program can have without swapping; 0 where the system does not say."""
    try:
        text = Path("/proc/meminfo").read_text()
    except FileNotFoundError:
        return 0
    found = re.search(r"^MemAvailable:\s+(\d+) kB$", text, re.MULTILINE)
    return int(found[1]) << 10 if found else 0


def _words(path: str) -> list[str]:
    try:
        return Path(path).read_text().split()
    except FileNotFoundError:
        return []


def _existing(path: Path) -> Path:
    return next(parent for parent in (path, *path.parents) if parent.exists())
