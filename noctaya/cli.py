"""The `noctaya` command: one entry for every role and for everything a person does by hand.

A command's body imports what it needs when it runs, so that a worker does not pay for the embedded cluster and `--help`
pays for nothing. A `NoctayaError` becomes one sentence on standard error; a user's mistake ends with 2, the world's with 1.
"""

import json
import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from noctaya import __version__
from noctaya.errors import NoctayaError, UserError
from noctaya.ops import commands

app = typer.Typer(
    name="noctaya",
    help="Thousands of rarely used LLMs asleep on Kubernetes; the right one awake when a request for it arrives.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)

CRD_DIRECTORY = Path("deploy/kustomize/crd")
LAST_PORT = 65535


@app.command()
def worker() -> None:
    """Run a worker: reconcile, add up demand, answer KEDA (settings: NOCTAYA_… variables)."""
    from noctaya.settings import load
    from noctaya.telemetry import configure
    from noctaya.workers.main import run
    from noctaya.workers.settings import WorkerSettings

    settings = load(WorkerSettings)
    configure(settings.log)
    raise typer.Exit(run(settings))


@app.command()
def gateway() -> None:
    """Run a gateway: admit, hold, wake and forward OpenAI requests (settings: NOCTAYA_… variables)."""
    from noctaya.gateway.main import run
    from noctaya.gateway.settings import GatewaySettings
    from noctaya.settings import load
    from noctaya.telemetry import configure

    settings = load(GatewaySettings)
    configure(settings.log)
    raise typer.Exit(run(settings))


StateOption = Annotated[
    Path | None,
    typer.Option(
        "--state",
        help="Keep the cluster's objects and volumes in this directory; without it they live in memory.",
    ),
]
PortOption = Annotated[
    int,
    typer.Option(
        "--port", min=0, max=LAST_PORT, help="Port of the gateways on 127.0.0.1; 0 picks a free one."
    ),
]
ApiPortOption = Annotated[
    int,
    typer.Option(
        "--api-port", min=0, max=LAST_PORT, help="Port of the API server on 127.0.0.1; 0 picks a free one."
    ),
]
GatewaysOption = Annotated[int, typer.Option("--gateways", min=1, max=8, help="How many gateways.")]
KubeconfigOption = Annotated[
    Path | None,
    typer.Option("--kubeconfig", help="Write the kubeconfig here; default: the cluster's working directory."),
]


@app.command()
def local(
    state: StateOption = None,
    port: PortOption = 30080,
    api_port: ApiPortOption = 0,
    gateways: GatewaysOption = 2,
    kubeconfig: KubeconfigOption = None,
) -> None:
    """Start the embedded cluster with workers and gateways, and leave it running until Ctrl-C."""
    from noctaya.local.main import run_local
    from noctaya.local.settings import LocalSettings

    settings = LocalSettings(
        state_dir=state, gateway_port=port, api_port=api_port, gateways=gateways, kubeconfig=kubeconfig
    )
    raise typer.Exit(run_local(settings))


@app.command()
def demo(
    keep: Annotated[
        bool, typer.Option("--keep", help="Leave the cluster running and print how to reach it.")
    ] = False,
    prompt: Annotated[
        str, typer.Option("--prompt", help="What to ask the model.")
    ] = "What wakes up at night? Answer briefly.",
    port: PortOption = 0,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the measured cold start as JSON, last thing.")
    ] = False,
) -> None:
    """Wake a real model with one request, show where the time went, and watch it go back to sleep."""
    from noctaya.local.main import run_demo
    from noctaya.local.settings import LocalSettings

    raise typer.Exit(run_demo(LocalSettings(gateway_port=port), prompt=prompt, keep=keep, as_json=as_json))


@app.command()
def crds(
    directory: Annotated[Path, typer.Argument(help="Where the CRDs' YAML files are.")] = CRD_DIRECTORY,
    check: Annotated[
        bool, typer.Option("--check", help="Write nothing; fail when a file is not current.")
    ] = False,
) -> None:
    """Write the CustomResourceDefinitions that the models describe."""
    from noctaya.api.crds import stale, write

    if check:
        outdated = stale(directory)
        for name in outdated:
            typer.echo(f"{directory / name} is not what the models say; run `noctaya crds`.", err=True)
        raise typer.Exit(1 if outdated else 0)
    write(directory)
    typer.echo(f"wrote the CRDs to {directory}")


@app.command()
def version(as_json: Annotated[bool, typer.Option("--json", help="As a JSON object.")] = False) -> None:
    """Print the version."""
    typer.echo(json.dumps({"noctaya": __version__}) if as_json else f"noctaya {__version__}")


commands.register(app)


def open_standard_streams() -> None:
    """Open what the caller closed (`>&-`): the next socket would take its number, and the event loop forbids that."""
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest number that is free: this one
            setattr(sys, name, open(number, "r" if number == 0 else "w", closefd=False))


def main() -> None:
    """Entry point of the console script."""
    open_standard_streams()
    try:
        app()
    except UserError as error:
        typer.echo(f"noctaya: {error}", err=True)
        sys.exit(2)
    except NoctayaError as error:
        typer.echo(f"noctaya: {error}", err=True)
        sys.exit(1)
