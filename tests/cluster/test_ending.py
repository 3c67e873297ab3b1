"""However a cluster ends, nothing of it stays on the machine."""

import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest
from rich.console import Console

from tests.cluster.binaries import Binaries
from tests.cluster.cluster import Cluster
from tests.cluster.conftest import running
from tests.cluster.footprint import Footprint
from tests.cluster.processes import in_namespace
from tests.cluster.progress import Progress

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(300)]

Eventually = Callable[[Callable[[], bool], float], None]


@pytest.mark.parametrize("victim", ["nobody", "keeper", "guard"])
def test_nothing_stays_when_this_is_killed(programs: Binaries, place: Path, victim: str) -> None:
    before = Footprint.now()
    with running(Cluster(place, programs), "node", with_keda=False) as cluster:
        namespace = cluster.namespace
        assert len(in_namespace(namespace)) > 8  # containers' too
        launch = cluster.directory.launch()
        assert launch is not None
        if victim != "nobody":
            getattr(launch, victim).send(signal.SIGKILL)
    assert in_namespace(namespace) == []
    assert Footprint.now().beyond(before) == {}
    ended = cluster.directory.launch()
    assert ended is not None
    assert ended.cleaned
    assert not cluster.is_up()


def test_a_cluster_ends_when_the_run_that_holds_its_lifeline_does(
    programs: Binaries, place: Path, eventually: Eventually
) -> None:
    cluster = Cluster(place, programs)
    lifeline, held = os.pipe()
    with Progress(Console(stderr=True, force_terminal=False)) as progress:
        cluster.up("quick", progress, with_keda=False, lifeline=lifeline)
    os.close(lifeline)
    state = cluster.directory.state()
    assert state is not None
    os.close(held)  # as the kernel does for a process that is killed
    eventually(lambda: not cluster.is_up(), 30.0)
    assert not any(process.is_alive for process in state.parts.values())
    cluster.down()
