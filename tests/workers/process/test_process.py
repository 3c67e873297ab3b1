"""The worker as a real process: signals, a kill, bad settings, and what importing it costs."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from noctaya.kube.resources import LEASES
from tests.ports import free_port
from tests.workers.reconcile.cluster import SYSTEM, Cluster, running, until

START_SECONDS = 30.0
"""The machine may be busy; a start takes about a second."""


def environment(tmp_path: Path, **more: str) -> dict[str, str]:
    port = free_port()
    clean = {name: value for name, value in os.environ.items() if not name.startswith("NOCTAYA_")}
    return clean | {
        "KUBECONFIG": str(tmp_path / "kubeconfig"),
        "NOCTAYA_POD__NAME": "w0",
        "NOCTAYA_POD__NAMESPACE": SYSTEM,
        "NOCTAYA_POD__UID": "11112222-3333",
        "NOCTAYA_SCALER__HOST": "127.0.0.1",
        "NOCTAYA_SCALER__PORT": str(port),
        "NOCTAYA_SCALER__PROBE_ADDRESS": f"127.0.0.1:{port}",
        "NOCTAYA_SCALER__DRAIN_SPREAD_SECONDS": "0",
        "NOCTAYA_CONTROL__HOST": "127.0.0.1",
        "NOCTAYA_CONTROL__PORT": "0",
        "NOCTAYA_ADMIN__HOST": "127.0.0.1",
        "NOCTAYA_ADMIN__PORT": "0",
        **more,
    }


@asynccontextmanager
async def process(tmp_path: Path, **more: str) -> AsyncIterator[asyncio.subprocess.Process]:
    started = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "noctaya",
        "worker",
        env=environment(tmp_path, **more),
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        yield started
    finally:
        if started.returncode is None:
            started.kill()
        await started.communicate()


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[Cluster]:
    async with running(tmp_path) as found:
        yield found


async def epoch(cluster: Cluster, at_least: int, by: asyncio.subprocess.Process) -> int:
    """The Lease's epoch, once it is held with one so high."""

    async def held() -> int:
        spec = (await cluster.client.get(LEASES, SYSTEM, "noctaya-leader"))["spec"]
        return (
            int(spec["leaseTransitions"])
            if spec.get("holderIdentity") and spec["leaseTransitions"] >= at_least
            else 0
        )

    async with asyncio.timeout(START_SECONDS):
        while True:
            try:
                return int(await until(held))
            except AssertionError:
                assert by.returncode is None, "the worker has ended"


async def test_after_a_kill_the_same_pod_acts_again_at_once_and_a_sigterm_leaves_cleanly(
    cluster: Cluster, tmp_path: Path
) -> None:
    async with process(tmp_path) as first:
        assert await epoch(cluster, 1, first) == 1
        first.kill()
        await first.wait()
    async with process(tmp_path) as second:
        loop = asyncio.get_running_loop()
        assert await epoch(cluster, 2, second) == 2
        asked = loop.time()
        second.send_signal(signal.SIGTERM)
        assert await asyncio.wait_for(second.wait(), 10) == 0
        assert loop.time() - asked < 5
    lease = await cluster.client.get(LEASES, SYSTEM, "noctaya-leader")
    assert lease["spec"].get("holderIdentity", "") == ""


async def test_an_unknown_setting_stops_the_start_with_the_nearest_name(tmp_path: Path) -> None:
    async with process(tmp_path, NOCTAYA_SCALER__PROT="1") as started:
        _, said = await asyncio.wait_for(started.communicate(), START_SECONDS)
        assert started.returncode == 2
        assert "NOCTAYA_SCALER__PORT" in said.decode()


async def test_importing_the_worker_loads_no_model_classes_of_kubernetes() -> None:
    code = (
        "import sys, noctaya.workers.main; "
        "heavy = [m for m in sys.modules if m.split('.')[0] in ('kubernetes_asyncio', 'sanic', 'jsonschema_rs', 'cel', 'typer')]; "
        "print(heavy[:5], len(sys.modules) < 900)"
    )
    found = await asyncio.create_subprocess_exec(sys.executable, "-c", code, stdout=asyncio.subprocess.PIPE)
    out, _ = await asyncio.wait_for(found.communicate(), START_SECONDS)
    assert out.decode().strip() == "[] True"
