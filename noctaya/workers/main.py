"""The process: settings in, exit code out; signals, the loop, and what runs from the first moment to the last.

SIGTERM and SIGINT drain; a second one ends at once. What is wrong with the cluster is waited for, and the admin port tells it
meanwhile; a setting or a fleet that this worker must not join ends the process with one sentence.
"""

from __future__ import annotations

import asyncio
import logging
import signal
from collections.abc import Callable

import uvloop

from noctaya import __version__
from noctaya.errors import NoctayaError
from noctaya.kube import Client, ClusterConfig
from noctaya.leader import Timing
from noctaya.workers.admin import admin_app
from noctaya.workers.announcer import Announcer
from noctaya.workers.introduction import Introduction
from noctaya.workers.listening import listening, refuse_taken
from noctaya.workers.metrics import waiting_registry
from noctaya.workers.problems import Problems
from noctaya.workers.settings import WorkerSettings
from noctaya.workers.surroundings import Surroundings
from noctaya.workers.worker import Worker

log = logging.getLogger(__name__)


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
        ConfigError: there is no way to an API server.
    """
    tenure = settings.tenure
    Timing(tenure.renew_every_seconds, tenure.self_deadline_seconds, tenure.fence_after_seconds)
    refuse_taken("scaler", settings.scaler.host, settings.scaler.port, "NOCTAYA_SCALER__PORT")
    refuse_taken("control link", settings.control.host, settings.control.port, "NOCTAYA_CONTROL__PORT")
    refuse_taken("admin port", settings.admin.host, settings.admin.port, "NOCTAYA_ADMIN__PORT")
    config = ClusterConfig.load(settings.kube.kubeconfig, settings.kube.context)
    agent = f"noctaya-worker/{__version__}"
    async with Client(config, user_agent=agent) as client, Client(config, user_agent=agent) as lease_client:
        pod = settings.pod
        problems = Problems()
        surroundings = Surroundings(client, lease_client, own_namespace=pod.namespace)
        problems.add(surroundings.problems)
        announcer = Announcer(client, problems, namespace=pod.namespace, pod=pod.name, uid=pod.uid)
        failure: NoctayaError | None = None
        async with asyncio.TaskGroup() as group:
            beside = [group.create_task(surroundings.run()), group.create_task(announcer.run())]
            try:
                await _serve(settings, client, lease_client, problems, surroundings, stop, started)
            except NoctayaError as error:
                failure = error  # raised below as it is, not as a member of a group
            finally:
                for task in beside:
                    task.cancel()
        if failure is not None:
            raise failure


async def _serve(
    settings: WorkerSettings,
    client: Client,
    lease_client: Client,
    problems: Problems,
    surroundings: Surroundings,
    stop: asyncio.Event,
    started: Callable[[Worker], None],
) -> None:
    introduction = Introduction(client, settings.pod.namespace)
    problems.add(introduction.problems)
    waiting = admin_app(
        is_synced=lambda: False, problems=problems, metrics=waiting_registry(problems), views={}
    )
    admin = settings.admin
    async with listening(waiting, "admin port", admin.host, admin.port, "NOCTAYA_ADMIN__PORT"):
        fleet = await introduction.fleet(stop)
    if fleet is None:
        return
    worker = Worker(settings, client, lease_client, fleet=fleet, problems=problems)
    surroundings.subscribe(worker.rights_changed)
    await worker.run(stop, started)
