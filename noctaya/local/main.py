"""What `noctaya local` and `noctaya demo` run: an event loop, the signals, and an exit code.

The first SIGINT, SIGTERM or SIGHUP (the terminal was closed) ends everything in order and says so; what was started is gone
when the process is.
"""

import asyncio
import importlib
import signal
from collections.abc import Coroutine
from contextlib import suppress

import uvloop

from noctaya.errors import NoctayaError
from noctaya.local.cluster import LocalCluster, example_objects, local_cluster
from noctaya.local.narrator import Narrator
from noctaya.local.settings import LocalSettings
from noctaya.settings import LogSettings
from noctaya.telemetry import configure

ENDING_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
SIGNALLED = 128
"""Plus the signal's number: what a shell expects of a program that a signal ended."""


def run_local(settings: LocalSettings) -> int:
    """Start the cluster and keep it until a signal; returns the exit code."""
    narrator = Narrator()
    return _run(_keep_running(settings, narrator), narrator)


def run_demo(settings: LocalSettings, *, prompt: str, keep: bool, as_json: bool) -> int:
    """Show one cold start on the cluster; returns the exit code."""
    narrator = Narrator()
    return _run(_demonstrate(settings, narrator, prompt=prompt, keep=keep, as_json=as_json), narrator)


async def _keep_running(settings: LocalSettings, narrator: Narrator) -> int:
    async with local_cluster(settings, narrator) as cluster:
        explain(cluster, narrator)
        narrator.line("\nApply a model with `kubectl apply -f examples/local/`. Ctrl-C ends everything.")
        await asyncio.Event().wait()
    return 0


async def _demonstrate(
    settings: LocalSettings, narrator: Narrator, *, prompt: str, keep: bool, as_json: bool
) -> int:
    async with asyncio.TaskGroup() as beside:
        # The real OpenAI client takes a second or two to import; the cluster starts meanwhile.
        loading = beside.create_task(asyncio.to_thread(importlib.import_module, "noctaya.local.demo"))
        async with local_cluster(settings, narrator) as cluster:
            await cluster.apply(example_objects())
            await loading
            from noctaya.local.demo import show

            await show(cluster, narrator, prompt=prompt, as_json=as_json)
            if keep:
                explain(cluster, narrator)
                narrator.line("\nThe cluster stays until Ctrl-C.")
                await asyncio.Event().wait()
    return 0


def explain(cluster: LocalCluster, narrator: Narrator) -> None:
    """How to reach the cluster with kubectl, curl and an OpenAI client."""
    narrator.line("\nkubectl:")
    narrator.line(f"  export KUBECONFIG={cluster.kubeconfig}")
    narrator.line("  kubectl get llmservices -A")
    narrator.line("curl:")
    narrator.line(
        f"  curl -N {cluster.gateway_url}/v1/chat/completions -H 'content-type: application/json' \\\n"
        '    -d \'{"model": "ai/smollm2", "stream": true, "messages": [{"role": "user", "content": "Hello"}]}\''
    )
    narrator.line("OpenAI client:")
    narrator.line(f'  OpenAI(base_url="{cluster.gateway_url}/v1", api_key="unused")')


def _run(command: Coroutine[None, None, int], narrator: Narrator) -> int:
    """Run `command` on uvloop until it ends or a signal ends it.

    Raises:
        NoctayaError: what went wrong, out of the group that carried it.
    """
    configure(LogSettings(level="warning", format="text"))
    try:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            return runner.run(_until_signal(command, narrator))
    except BaseExceptionGroup as group:
        raise _cause(group) from group


async def _until_signal(command: Coroutine[None, None, int], narrator: Narrator) -> int:
    loop = asyncio.get_running_loop()
    task = asyncio.create_task(command)
    received: list[signal.Signals] = []

    def end(number: signal.Signals) -> None:
        if not received:  # once: what ends the processes must not be cancelled itself
            received.append(number)
            task.cancel()

    for number in ENDING_SIGNALS:
        loop.add_signal_handler(number, end, number)
    with suppress(asyncio.CancelledError):
        return await task
    narrator.line("\nended by a signal; every process and temporary file of the cluster is gone")
    return SIGNALLED + received[0] if received else 1


def _cause(error: BaseException) -> BaseException:
    """The first of our own errors in a group of groups, or the error itself."""
    found: BaseException | None = error
    while isinstance(found, BaseExceptionGroup):
        ours = found.subgroup(NoctayaError)
        found = ours.exceptions[0] if ours is not None else None
    return found or error
