"""The cluster's own first process: starts every part, looks after them, and ends them.

In node mode it is process 1 of a process namespace: when it ends, however it ends, the kernel ends everything else in
there, containers too, and with the last process the network and the mounts are gone. It tells how far it is in
`state.json` and obeys SIGTERM at any moment. How it fails: a start that does not succeed ends it, with the reason there.
"""

import os
import signal
import time
import traceback
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

from noctaya.errors import NoctayaError
from tests.cluster import control_groups, control_plane, dns, keda, keda_pods, node
from tests.cluster.binaries import Binaries
from tests.cluster.control_plane import ControlPlane
from tests.cluster.isolation import NODE_ADDRESS, isolate
from tests.cluster.kubectl import Kubectl
from tests.cluster.parts import Parts, reap_orphans
from tests.cluster.state import Directory, Journal, Mode

TICK_SECONDS = 0.2


class StopRequested(BaseException):
    """SIGTERM came. Not an Exception: no handler of errors may take it for one."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What kind of cluster is wanted, and where."""

    directory: Path
    binaries: Path
    mode: Mode
    with_keda: bool = True


def keep(plan: Plan, branch: str) -> int:
    """Start the cluster and look after it until told to stop; returns an exit code.

    Pods go into `branch` of the machine's control groups (node mode; whoever calls removes it).
    """
    directory = Directory(plan.directory)
    journal = Journal(directory)
    parts = Parts(directory.logs, journal.parts_changed)
    journal.state.revivals = parts.revivals
    signal.signal(signal.SIGTERM, _request_stop)
    # Ctrl-C on a terminal reaches every process of its group; ending the cluster is for whoever started it to decide.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        plane = _start(plan, branch, directory, journal, parts)
        journal.ready(plane.server)
        _look_after(parts)
    except StopRequested:
        pass
    except (NoctayaError, OSError) as problem:
        traceback.print_exc()
        journal.failed(str(problem))
        return 1
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        if plan.mode == "quick":  # in node mode this process's end is the end of every other
            parts.stop()
        journal.stopped()
    return 0


def _start(plan: Plan, branch: str, directory: Directory, journal: Journal, parts: Parts) -> ControlPlane:
    binaries = Binaries(plan.binaries)
    kubectl = Kubectl(binaries.program("kubectl"), directory.kubeconfig)
    if plan.mode == "quick":
        with journal.step("control plane"):
            plane = control_plane.start(directory, binaries, parts, node_address=None)
        if plan.with_keda:
            with journal.step("KEDA, outside the cluster"):
                keda.start(plane, binaries, parts, kubectl)
        return plane
    with journal.step("private network and mounts"):
        control_groups.make(branch)
        isolate(directory)
        node.start_containerd(directory.configuration, parts)
    with journal.step("control plane"):
        plane = control_plane.start(directory, binaries, parts, node_address=NODE_ADDRESS)
    with journal.step("images"):
        node.import_images(binaries.images(with_keda=plan.with_keda), parts)
    with journal.step("node"):
        node.start(plane, binaries, parts, kubectl, branch)
    with journal.step("DNS"):
        dns.apply(kubectl)
        if plan.with_keda:  # both start at once; names are needed first
            keda_pods.apply(plane, binaries, kubectl)
        dns.wait(kubectl)
    if plan.with_keda:
        with journal.step("KEDA, as pods"):
            keda_pods.wait(kubectl)
    return plane


def _look_after(parts: Parts) -> None:
    while True:
        parts.revive(time.monotonic())
        if os.getpid() == 1:
            reap_orphans(parts)
        time.sleep(TICK_SECONDS)


def _request_stop(number: int, frame: FrameType | None) -> None:
    raise StopRequested
