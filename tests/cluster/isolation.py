"""A network and a file tree of the cluster's own, made from inside its new namespaces.

Network: one link with the node's address, and no way out: a stray look-up fails at once where a route to nowhere would
wait. Mounts: `/run`, `/var/lib` and `/var/log` are folders of the cluster's directory, so that containerd, kubelet, runc
and the network plugins use their usual paths and still write nothing outside. Both end with the namespaces.
The control groups stay the machine's, so `/sys` is left as it is.
"""

from pathlib import Path

from tests.cluster.errors import ClusterError
from tests.cluster.namespaces import Kind, unshare
from tests.cluster.processes import run
from tests.cluster.state import Directory

NODE_LINK = "node0"
NODE_ADDRESS = "10.99.0.1"
NODE_PREFIX = 24
SERVICE_RANGE = "10.96.0.0/16"
OWN_FOLDERS = (Path("/run"), Path("/var/lib"), Path("/var/log"))


class HiddenDirectory(ClusterError):
    """The cluster's directory lies where the cluster's own folders are put."""


def check(directory: Path) -> None:
    """Refuse a directory that the cluster itself could not see."""
    for folder in OWN_FOLDERS:
        if directory.resolve().is_relative_to(folder.resolve()):
            raise HiddenDirectory(
                f"a cluster with a node cannot have its directory below {folder}: {directory}"
            )


def isolate(directory: Directory) -> None:
    """Leave the machine's network and mounts. The caller is the first process of a process namespace."""
    unshare(Kind.NETWORK, Kind.MOUNT)
    # First of all: nothing that is mounted from here on reaches the machine.
    run(["mount", "--make-rprivate", "/"])
    run(["mount", "-t", "proc", "proc", "/proc"])
    for folder in OWN_FOLDERS:
        own = directory.private / str(folder).strip("/").replace("/", "-")
        own.mkdir(parents=True, exist_ok=True)
        run(["mount", "--bind", own, folder])
    # Containers may ask for mounts that propagate; among the cluster's own processes they do.
    run(["mount", "--make-rshared", "/"])
    Path("/run/lock").mkdir()
    run(["ip", "link", "set", "lo", "up"])
    run(["ip", "link", "add", NODE_LINK, "type", "bridge"])
    run(["ip", "address", "add", f"{NODE_ADDRESS}/{NODE_PREFIX}", "dev", NODE_LINK])
    run(["ip", "link", "set", NODE_LINK, "up"])
    run(["ip", "route", "add", "unreachable", "default"])
    # Services' addresses are rewritten after the first look at the routes, so there must be one that lets them pass.
    run(["ip", "route", "add", SERVICE_RANGE, "dev", NODE_LINK])
