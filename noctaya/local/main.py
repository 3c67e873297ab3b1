"""What `noctaya local` and `noctaya demo` run: an event loop, the signals, and an exit code.

The first SIGINT or SIGTERM ends everything in order; what was started is gone when the process is.
"""

import asyncio
import signal
from collections.abc import Coroutine
from contextlib import suppress

import uvloop

from noctaya.errors import NoctayaError
from noctaya.local.cluster import LocalCluster, example_objects, local_cluster
from noctaya.local.demo import show
from noctaya.local.narrator import Narrator
from noctaya.local.settings import LocalSettings

INTERRUPTED = 130
"""What a shell expects of a program that Ctrl-C ended."""


def run_local(settings: LocalSettings) -> int:
    """Start the cluster and keep it until a signal; returns the exit code."""
    return _run(_keep_running(settings, Narrator()))


def run_demo(settings: LocalSettings, *, prompt: str, keep: bool, as_json: bool) -> int:
    """Show one cold start on the cluster; returns the exit code."""
    return _run(_demonstrate(settings, Narrator(), prompt=prompt, keep=keep, as_json=as_json))


async def _keep_running(settings: LocalSettings, narrator: Narrator) -> int:
    async with local_cluster(settings, narrator) as cluster:
        explain(cluster, narrator)
        narrator.line("\nApply a model with `kubectl apply -f examples/local/`. Ctrl-C ends everything.")
        await asyncio.Event().wait()
    return 0


async def _demonstrate(
    settings: LocalSettings, narrator: Narrator, *, prompt: str, keep: bool, as_json: bool
) -> int:
    async with local_cluster(settings, narrator) as cluster:
        await cluster.apply(example_objects())
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


def _run(command: Coroutine[None, None, int]) -> int:
    """Run `command` on uvloop until it ends or a signal ends it.

    Raises:
        NoctayaError: what went wrong, out of the group that carried it.
    """
    try:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            return runner.run(_until_signal(command))
    except BaseExceptionGroup as group:
        raise _cause(group) from group


async def _until_signal(command: Coroutine[None, None, int]) -> int:
    loop = asyncio.get_running_loop()
    task = asyncio.create_task(command)
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, task.cancel)
    with suppress(asyncio.CancelledError):
        return await task
    return INTERRUPTED


def _cause(error: BaseException) -> BaseException:
    """The first of our own errors in a group of groups, or the error itself."""
    found: BaseException | None = error
    while isinstance(found, BaseExceptionGroup):
        ours = found.subgroup(NoctayaError)
        found = ours.exceptions[0] if ours is not None else None
    return found or error
