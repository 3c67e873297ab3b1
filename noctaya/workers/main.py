"""The process: settings in, exit code out; signals, the loop, and the first words with the API server.

SIGTERM and SIGINT drain; a second one ends at once. An API server that does not answer yet is waited for, everything else
that is wrong at the start ends the process with one sentence.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
from collections.abc import Callable

import uvloop

from noctaya import __version__
from noctaya.kube import Client, ClusterConfig
from noctaya.kube.errors import TooManyRequests, Unavailable
from noctaya.leader import Timing
from noctaya.telemetry import context
from noctaya.workers.keys import fleet_secret
from noctaya.workers.listening import refuse_taken
from noctaya.workers.ownership import found_fleet
from noctaya.workers.settings import WorkerSettings
from noctaya.workers.worker import Worker

log = logging.getLogger(__name__)

RETRY_SECONDS = 1.0


def run(settings: WorkerSettings) -> int:
    """Be a worker until a signal says stop; returns the exit code.

    Raises:
        NoctayaError: something is wrong that a person must change (a port, the ShardMap, a kubeconfig).
    """
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(_until_signalled(settings))


async def _until_signalled(settings: WorkerSettings) -> int:
    loop, stop, main = asyncio.get_running_loop(), asyncio.Event(), asyncio.current_task()

    def on_signal() -> None:
        if stop.is_set() and main is not None:
            main.cancel()
        stop.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, on_signal)
    try:
        await serve(settings, stop)
    except asyncio.CancelledError:
        log.warning("ended at once: a second signal")
        return 1
    return 0


async def serve(
    settings: WorkerSettings, stop: asyncio.Event, *, started: Callable[[Worker], None] = lambda worker: None
) -> None:
    """Be a worker until `stop` is set. `started` is called once it listens.

    Raises:
        PortInUse: by name and setting.
        ShardMapMismatch, FleetKeyInvalid, TenureRefused: this worker must not run as it is.
        KubeError: the API server refuses what every worker needs.
    """
    tenure = settings.tenure
    Timing(tenure.renew_every_seconds, tenure.self_deadline_seconds, tenure.fence_after_seconds)
    refuse_taken("scaler", settings.scaler.host, settings.scaler.port, "NOCTAYA_SCALER__PORT")
    refuse_taken("control link", settings.control.host, settings.control.port, "NOCTAYA_CONTROL__PORT")
    refuse_taken("admin port", settings.admin.host, settings.admin.port, "NOCTAYA_ADMIN__PORT")
    config = ClusterConfig.load(settings.kube.kubeconfig, settings.kube.context)
    agent = f"noctaya-worker/{__version__}"
    async with Client(config, user_agent=agent) as client, Client(config, user_agent=agent) as lease_client:
        worker = await _introduce(settings, client, lease_client, stop)
        if worker is None:
            return
        await worker.run(stop, started)


async def _introduce(
    settings: WorkerSettings, client: Client, lease_client: Client, stop: asyncio.Event
) -> Worker | None:
    """Read what the fleet has agreed on; None when told to stop before the API server answered."""
    namespace = settings.pod.namespace
    while not stop.is_set():
        try:
            fleet, is_founder = await found_fleet(client, namespace)
            secret = await fleet_secret(client, namespace)
        except (Unavailable, TooManyRequests) as error:
            log.warning("waiting for the API server", extra=context(error=error))
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(RETRY_SECONDS):
                    await stop.wait()
            continue
        return Worker(settings, client, lease_client, fleet=fleet, is_founder=is_founder, secret=secret)
    return None
