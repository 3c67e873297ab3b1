"""How a command asks the fleet and shows what it heard: one answer, or again and again (`--watch`).

With `--json` nothing but JSON goes to standard output, one value a run, one a line when watched. An interrupted watch is a
good end; anything else that is interrupted ends with 130, as shells expect.
"""

import asyncio
import json
import sys
from collections.abc import Awaitable, Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn, TypeVar

import typer

from noctaya.ops.errors import AdminUnreachable, NoReadyWorker
from noctaya.ops.way import NAMESPACE

if TYPE_CHECKING:
    from noctaya.ops.client import AsyncClient

INTERRUPTED = 130
EVERY_SECONDS = 2.0
CLEAR = "\x1b[H\x1b[J"

T = TypeVar("T")
Ask = Callable[["AsyncClient"], Awaitable[T]]
Render = Callable[[T], Iterable[str]]

Admin = Annotated[
    list[str] | None,
    typer.Option(
        "--admin",
        metavar="URL",
        help="A worker's admin port, as http://127.0.0.1:8081; several for `story` and `dump`. Default: kubectl port-forward.",
    ),
]
Kubeconfig = Annotated[
    Path | None, typer.Option("--kubeconfig", help="Default: $KUBECONFIG, else ~/.kube/config.")
]
Context = Annotated[str | None, typer.Option("--context", help="Context of the kubeconfig.")]
Namespace = Annotated[str, typer.Option("--namespace", "-n", help="Where the fleet's own objects are.")]
AsJson = Annotated[bool, typer.Option("--json", help="JSON instead of text.")]
Watch = Annotated[bool, typer.Option("--watch", "-w", help="Show it again every 2 s until Ctrl-C.")]
DEFAULT_NAMESPACE = NAMESPACE


def reach(
    admin: list[str] | None, kubeconfig: Path | None, context: str | None, namespace: str
) -> "AsyncClient":
    """The client that a command's options describe."""
    from noctaya.ops.client import AsyncClient  # here: no role's start should pay for it

    path = str(kubeconfig) if kubeconfig is not None else None
    return AsyncClient(admin or None, kubeconfig=path, context=context, namespace=namespace)


def ask(client: "AsyncClient", work: Ask[T]) -> T:
    """What `work` gives; everything is closed then."""

    async def asked() -> T:
        async with client:
            return await work(client)

    try:
        return asyncio.run(asked())
    except KeyboardInterrupt:
        raise typer.Exit(INTERRUPTED) from None


def show(
    client: "AsyncClient", work: Ask[T], render: Render[T], *, as_json: bool, watch: bool = False
) -> T | None:
    """Print what `work` gives, and return it; None after a watch."""
    if watch:
        _watch(client, work, render, as_json=as_json)
        return None
    answer = ask(client, work)
    say(answer, render, as_json=as_json)
    return answer


def say(answer: T, render: Render[T], *, as_json: bool) -> None:
    """Print an answer."""
    if as_json:
        typer.echo(json.dumps(answer))
    else:
        for line in render(answer):
            typer.echo(line)


def tell(text: str, **values: Any) -> None:
    """One thing that was done: a sentence, or with `as_json` its values."""
    if values.pop("as_json"):
        typer.echo(json.dumps(values))
    else:
        typer.echo(text)


def note(text: str) -> None:
    """Something beside the answer, on standard error."""
    typer.echo(text, err=True)


def _watch(client: "AsyncClient", work: Ask[T], render: Render[T], *, as_json: bool) -> None:
    is_first = True

    async def forever() -> NoReturn:
        nonlocal is_first
        async with client:
            while True:
                try:
                    answer = await work(client)
                except (AdminUnreachable, NoReadyWorker) as error:
                    if is_first:
                        raise
                    note(f"noctaya: {error}")
                else:
                    if sys.stdout.isatty() and not as_json:
                        typer.echo(CLEAR, nl=False)
                    elif not as_json and not is_first:
                        typer.echo("")
                    say(answer, render, as_json=as_json)
                    sys.stdout.flush()
                    is_first = False
                await asyncio.sleep(EVERY_SECONDS)

    try:
        asyncio.run(forever())
    except KeyboardInterrupt:
        raise typer.Exit(0) from None
