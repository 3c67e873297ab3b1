"""The commands that want something of the fleet: an annotation, written with the caller's own credentials."""

import sys
from typing import Annotated

import typer

from noctaya.ops.terminal import (
    DEFAULT_NAMESPACE,
    Admin,
    AsJson,
    Context,
    Kubeconfig,
    Namespace,
    ask,
    note,
    reach,
    tell,
)

WorkerArgument = Annotated[
    str, typer.Argument(metavar="WORKER", help="Name of the worker's pod, as `noctaya workers` shows it.")
]


def cordon(
    worker: WorkerArgument,
    as_json: AsJson = False,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
    namespace: Namespace = DEFAULT_NAMESPACE,
) -> None:
    """A worker keeps the shards that it has and gets no new ones."""
    ask(reach(None, kubeconfig, context, namespace), lambda fleet: fleet.cordon(worker))
    tell(
        f"{worker} gets no new shards; noctaya uncordon {worker} takes that back",
        worker=worker,
        cordon=True,
        as_json=as_json,
    )


def uncordon(
    worker: WorkerArgument,
    as_json: AsJson = False,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
    namespace: Namespace = DEFAULT_NAMESPACE,
) -> None:
    """Take back what `cordon` or `drain` asked for."""
    ask(reach(None, kubeconfig, context, namespace), lambda fleet: fleet.uncordon(worker))
    tell(f"{worker} is open again", worker=worker, cordon=False, drain=False, as_json=as_json)


def freeze(
    as_json: AsJson = False,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
    namespace: Namespace = DEFAULT_NAMESPACE,
) -> None:
    """No shard moves for balance alone. Lost shards still get an owner, and drained workers are still emptied."""
    ask(reach(None, kubeconfig, context, namespace), lambda fleet: fleet.freeze())
    tell("no shard moves for balance alone; noctaya unfreeze takes that back", freeze=True, as_json=as_json)


def unfreeze(
    as_json: AsJson = False,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
    namespace: Namespace = DEFAULT_NAMESPACE,
) -> None:
    """Let the leader level the fleet again."""
    ask(reach(None, kubeconfig, context, namespace), lambda fleet: fleet.unfreeze())
    tell("the leader levels again", freeze=False, as_json=as_json)


def drain(
    workers: Annotated[
        list[str],
        typer.Argument(
            metavar="WORKER...", help="Names of the workers' pods, as `noctaya workers` shows them."
        ),
    ],
    no_wait: Annotated[bool, typer.Option("--no-wait", help="Ask for it and return.")] = False,
    timeout: Annotated[float, typer.Option("--timeout", min=1, help="Seconds to wait at most.")] = 300.0,
    as_json: AsJson = False,
    admin: Admin = None,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
    namespace: Namespace = DEFAULT_NAMESPACE,
) -> None:
    """Hand over all that a worker has; it stays, and owns nothing. Waits until that is so."""
    client = reach(admin, kubeconfig, context, namespace)
    progress = _Progress()
    try:
        ask(
            client,
            lambda fleet: fleet.retire_workers(workers, wait=not no_wait, timeout=timeout, progress=progress),
        )
    except typer.Exit:
        progress.end()
        note(f"still asked for: noctaya uncordon takes it back ({', '.join(workers)})")
        raise
    finally:
        progress.end()
    done = "asked to hand over all that it has" if no_wait else "owns nothing now; its pod stays"
    for worker in workers:
        tell(
            f"{worker}: {done}; noctaya uncordon {worker} takes that back",
            worker=worker,
            drain=True,
            is_empty=not no_wait,
            as_json=as_json,
        )


class _Progress:
    """How many shards are left: one line that changes on a terminal, a line a change elsewhere. On standard error."""

    def __init__(self) -> None:
        self._last = ""
        self._is_open = False

    def __call__(self, left: dict[str, int]) -> None:
        text = ", ".join(f"{pod}: {count} shards left" for pod, count in left.items())
        if text == self._last:
            return
        if sys.stderr.isatty():
            typer.echo("\r" + text.ljust(len(self._last)), nl=False, err=True)
            self._is_open = True
        else:
            note(text)
        self._last = text

    def end(self) -> None:
        if self._is_open:
            typer.echo("", err=True)
            self._is_open = False
