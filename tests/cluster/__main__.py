"""`python -m tests.cluster`: the cluster by hand."""

import argparse
import os
import sys
from pathlib import Path

from rich.console import Console

from noctaya import __version__
from noctaya.errors import NoctayaError
from tests.cluster import binaries
from tests.cluster.binaries import Binaries
from tests.cluster.cluster import Cluster, default_directory
from tests.cluster.delivery import deliver
from tests.cluster.errors import NotRunning
from tests.cluster.progress import Progress
from tests.cluster.requirements import DEBIAN_PACKAGES
from tests.cluster.side_by_side import run_tests
from tests.cluster.state import Directory, State

ENGINE_PACKAGE = "docker.io"
"""For `tests/containers`; without it they skip."""


def main(arguments: list[str]) -> int:
    """Entry point; returns an exit code."""
    given = _parser().parse_args(arguments)
    screen = Console(highlight=False, soft_wrap=True)
    try:
        return int(given.action(given, screen))
    except NoctayaError as problem:
        Console(stderr=True, highlight=False, soft_wrap=True).print(str(problem), markup=False)
        return 1
    except KeyboardInterrupt:
        return 130


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m tests.cluster", description="A real Kubernetes with KEDA."
    )
    actions = parser.add_subparsers(required=True, metavar="ACTION")
    building = actions.add_parser("build", help="build the programs, once (minutes)")
    building.add_argument("--check", action="store_true", help="only say whether they are built")
    building.set_defaults(action=_build)
    up = actions.add_parser("up", help="start the cluster and leave it running")
    up.add_argument(
        "--quick", action="store_true", help="no node: control plane and KEDA as plain processes; no root"
    )
    up.add_argument("--without-keda", action="store_true")
    up.set_defaults(action=_up)
    down = actions.add_parser("down", help="end it and leave nothing behind")
    down.set_defaults(action=_down)
    status = actions.add_parser("status", help="say whether it is up and how to reach it")
    status.set_defaults(action=_status)
    execute = actions.add_parser(
        "exec", help="run a command in its network, with KUBECONFIG and its kubectl in PATH"
    )
    execute.add_argument("command", nargs=argparse.REMAINDER)
    execute.set_defaults(action=_exec)
    image = actions.add_parser("image", help="make Noctaya's own image and its bill of materials, as files")
    image.add_argument("--output", type=Path, default=Path("dist"), help="folder (default: %(default)s)")
    image.add_argument("--tag", default=__version__, help="the image's tag (default: %(default)s)")
    image.set_defaults(action=_image)
    test = actions.add_parser("test", help="run the tests that need it, in three sessions side by side")
    test.add_argument("further", nargs=argparse.REMAINDER, help="arguments for pytest, after --")
    test.set_defaults(action=_test)
    packages = actions.add_parser(
        "packages", help="name the Debian packages that a node and the containers need"
    )
    packages.set_defaults(action=_packages)
    for action in (up, down, status, execute):
        action.add_argument("--dir", type=Path, default=default_directory(), help="default: %(default)s")
    return parser


def _build(given: argparse.Namespace, screen: Console) -> int:
    if given.check:
        found = binaries.cached()
        screen.print(f"built: {found.folder}" if found else "not built yet", markup=False)
        return 0 if found else 1
    with Progress() as progress:
        built = binaries.build(progress)
    screen.print(str(built.folder), markup=False)
    return 0


def _up(given: argparse.Namespace, screen: Console) -> int:
    with Progress() as progress:
        cluster = Cluster(given.dir, binaries.build(progress))
        state = cluster.up("quick" if given.quick else "node", progress, with_keda=not given.without_keda)
    _describe(cluster, state, screen)
    return 0


def _down(given: argparse.Namespace, screen: Console) -> int:
    _cluster(given).down()
    screen.print("the cluster has ended", markup=False)
    return 0


def _status(given: argparse.Namespace, screen: Console) -> int:
    cluster = _cluster(given)
    state = cluster.directory.state()
    if not cluster.is_up() or state is None:
        screen.print(f"no cluster is up in {cluster.directory.path}", markup=False)
        return 3
    _describe(cluster, state, screen)
    return 0


def _exec(given: argparse.Namespace, screen: Console) -> int:
    cluster = _cluster(given)
    words = [*cluster.enter(), *[word for word in given.command if word != "--"]]
    programs = cluster.kubectl.program.parent
    environment = {**os.environ, **cluster.kubectl.environment, "PATH": f"{programs}:{os.environ['PATH']}"}
    os.execvpe(words[0], words, environment)


def _image(given: argparse.Namespace, screen: Console) -> int:
    with Progress() as progress:
        delivered = deliver(given.output, given.tag, progress)
    for line in delivered.lines():
        screen.print(line, markup=False)
    return 0


def _test(given: argparse.Namespace, screen: Console) -> int:
    return run_tests(screen, [word for word in given.further if word != "--"])


def _packages(given: argparse.Namespace, screen: Console) -> int:
    del given
    screen.print(f"{DEBIAN_PACKAGES} {ENGINE_PACKAGE}", markup=False, soft_wrap=True)
    return 0


def _cluster(given: argparse.Namespace) -> Cluster:
    """The cluster that is up in a directory, with the programs that it runs; nothing is built.

    Raises:
        NotRunning: none was ever started there.
    """
    launch = Directory(given.dir).launch()
    if launch is None:
        raise NotRunning(given.dir)
    return Cluster(given.dir, Binaries(Path(launch.binaries)))


def _describe(cluster: Cluster, state: State, screen: Console) -> None:
    if state.phase != "ready":
        screen.print(f"{state.phase}: {state.doing or state.problem}", markup=False)
        return
    launch = cluster.directory.launch()
    if launch is None:
        raise NotRunning(cluster.directory.path)
    lines = [
        f"ready, {launch.mode} mode, API server {state.server}",
        f"logs: {cluster.directory.logs}",
        "restarted: "
        + (", ".join(f"{name} {count}x" for name, count in state.revivals.items()) or "nothing"),
        "",
        " ".join(
            [
                *cluster.enter(),
                str(cluster.kubectl.program),
                f"--kubeconfig={cluster.directory.kubeconfig}",
                "get pods -A",
            ]
        ),
    ]
    if launch.mode == "node":
        lines.append(
            " ".join([*cluster.enter(everything=True), "bash"])
            + "   # its mounts and processes too (ctr, crictl)"
        )
    lines.append(f"python -m tests.cluster exec --dir {cluster.directory.path} -- kubectl get pods -A")
    for line in lines:
        screen.print(line, markup=False)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
