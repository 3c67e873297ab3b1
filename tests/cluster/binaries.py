"""The cluster's programs, built once from Go modules and kept.

The folder's name is a hash of the modules' files, the toolchain and the flags: a change of any of them builds anew,
nothing else does. Invariants: a folder under its final name is complete (it is made under another name and renamed), and
two runs never build at once (a lock). How it fails: `BuildFailed` with the compiler's last lines.
"""

import fcntl
import hashlib
import os
import queue
import re
import shutil
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.cluster import images, keda_release
from tests.cluster.errors import BuildFailed
from tests.cluster.processes import run
from tests.cluster.progress import Progress
from tests.cluster.requirements import missing_for_build, missing_go, need

HERE = Path(__file__).parent
MODULES = ("kubernetes", "dns", "pause")
PARTS = (
    "etcd",
    "kube-apiserver",
    "kube-controller-manager",
    "kube-scheduler",
    "kubelet",
    "kube-proxy",
    "kubectl",
)
"""Names under which the one Kubernetes program is linked; it acts by its name."""
KEDA = "github.com/kedacore/keda/v2"
KEDA_PROGRAMS = ("operator", "adapter", "webhooks")
FORMAT = 2
"""Part of the key: raise it when a folder is to hold something else from the same sources."""
KEEP = 3
"""Folders that stay in the cache, the newest ones."""


@dataclass(frozen=True, slots=True)
class Binaries:
    """A complete folder of programs."""

    folder: Path

    def program(self, name: str) -> Path:
        """One program, by its name on a command line."""
        return self.folder / "bin" / name

    @property
    def keda_objects(self) -> Path:
        """What KEDA's release installs, rendered (`keda_release`)."""
        return self.folder / "keda.json"

    def images(self, *, with_keda: bool) -> list[Path]:
        """Image archives of these programs, fit for containerd."""
        archives = sorted((self.folder / "images").glob("*.tar"))
        return [path for path in archives if with_keda or not path.name.startswith("keda-")]


def cache() -> Path:
    """The folder that holds every build."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "noctaya" / "cluster"


def cached() -> Binaries | None:
    """The programs of exactly these sources, when they were built already.

    Raises:
        RequirementsMissing: no Go to name its version.
    """
    need(missing_go())
    folder = cache() / _key()
    return Binaries(folder) if folder.is_dir() else None


def build(progress: Progress) -> Binaries:
    """The programs of exactly these sources, built now when they are not there (minutes, the first time).

    Raises:
        RequirementsMissing: this machine cannot build.
        BuildFailed: the compiler says no.
    """
    if found := cached():
        return found
    need(missing_for_build(cache()))
    folder = cache() / _key()
    with _lock(cache() / "lock", progress):
        if folder.is_dir():  # another run has built it meanwhile
            return Binaries(folder)
        work = folder.with_suffix(".part")
        shutil.rmtree(work, ignore_errors=True)
        (work / "bin").mkdir(parents=True)
        _build_kubernetes_and_keda(work / "bin", progress)
        for name, program in (("dns", "coredns"), ("pause", "pause")):
            _build(name, [f"-o={work / 'bin' / program}", "."], ["."], progress)
        source = Path(_go("kubernetes", "list", "-m", "-f", "{{.Dir}}", KEDA).strip())
        keda_release.render(work / "bin" / "kubectl", source / "config" / "default", work / "keda.json")
        images.write_all(work / "bin", work / "images")
        work.rename(folder)
    _forget_old(folder)
    return Binaries(folder)


def _build_kubernetes_and_keda(folder: Path, progress: Progress) -> None:
    mains = [".", *(f"{KEDA}/cmd/{program}" for program in KEDA_PROGRAMS)]
    _build("kubernetes", [f"-o={folder}/", *mains], mains, progress)
    (folder / "kubernetes").rename(folder / "kube")
    for program in KEDA_PROGRAMS:
        (folder / program).rename(folder / f"keda-{program}")
    for part in PARTS:
        (folder / part).symlink_to("kube")


def _flags() -> list[str]:
    """Flags of every build. Without the versions `kubectl version` and KEDA's own checks would see a development build."""
    module = (HERE / "kubernetes" / "go.mod").read_text()
    kubernetes = re.search(r"k8s\.io/kubernetes v((\d+)\.(\d+)\.\d+)", module)
    keda = re.search(rf"{re.escape(KEDA)} v([\d.]+)", module)
    if kubernetes is None or keda is None:
        raise BuildFailed("kubernetes/go.mod", ["it names no version of Kubernetes or KEDA"])
    package = "k8s.io/component-base/version"
    values = {
        f"{package}.gitVersion": f"v{kubernetes[1]}",
        f"{package}.gitMajor": kubernetes[2],
        f"{package}.gitMinor": kubernetes[3],
        f"{KEDA}/version.Version": keda[1],
    }
    link = " ".join(["-s", "-w", *(f"-X {name}={value}" for name, value in values.items())])
    return ["-trimpath", "-buildvcs=false", f"-ldflags={link}"]


def _key() -> str:
    digest = hashlib.sha256()
    for module in MODULES:
        for path in sorted((HERE / module).glob("*")):
            if path.name in ("go.mod", "go.sum") or path.suffix == ".go":
                digest.update(f"{module}/{path.name}\0".encode() + path.read_bytes() + b"\0")
    digest.update(_go("pause", "env", "GOVERSION", "GOOS", "GOARCH").encode())
    digest.update(repr((_flags(), FORMAT)).encode())
    return digest.hexdigest()[:20]


def _environment() -> dict[str, str]:
    # GOGC: the compiler trades memory for a seventh of its time. No cgo: static programs, which need no libraries in an image.
    return {**os.environ, "CGO_ENABLED": "0", "GOGC": "400", "GOFLAGS": "-mod=readonly", "GOWORK": "off"}


def _go(module: str, *words: str) -> str:
    return run(["go", "-C", HERE / module, *words], environment=_environment(), timeout_seconds=600)


def _build(module: str, words: Sequence[str], mains: Sequence[str], progress: Progress) -> None:
    """Build main packages of one module, saying how many packages are compiled of those that are not up to date."""
    started = time.monotonic()
    what = "Kubernetes and KEDA" if module == "kubernetes" else module
    modules = 0

    def fetching(line: str) -> None:
        nonlocal modules
        modules += line.startswith("go: downloading")
        progress.working(f"looking at the sources of {what}: {modules} modules fetched")

    stale = "{{if .Stale}}{{.ImportPath}}{{end}}"
    listed = _followed(module, ["list", "-deps", f"-f={stale}", *_flags(), *mains], fetching)
    total = len([line for line in listed if line and not line.startswith("go: ")])
    compiled = 0

    def compiling(line: str) -> None:
        nonlocal compiled
        compiled += bool(line) and not line.startswith(("go: ", "#", "\t"))
        linking = ", linking" if compiled >= total - len(mains) else ""
        progress.working(f"building {what}: {min(compiled, total)} of {total} packages compiled{linking}")

    _followed(module, ["build", "-v", *_flags(), *words], compiling)
    progress.finished(f"built {what} ({total} packages)", time.monotonic() - started)


def _followed(module: str, words: Sequence[str], on_line: Callable[[str], None]) -> list[str]:
    """Run Go, niced, showing each line as it comes and an empty one each second."""
    argv = ["nice", "-n", "10", "go", "-C", str(HERE / module), *words]
    lines: list[str] = []
    with subprocess.Popen(
        argv,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=_environment(),
    ) as process:
        try:
            for line in _each_second(process):
                if line:
                    lines.append(line)
                on_line(line)
        except BaseException:
            process.terminate()
            raise
    if process.returncode:
        raise BuildFailed(module, lines)
    return lines


def _each_second(process: "subprocess.Popen[str]") -> Iterator[str]:
    """Lines of a process until it closes its output; an empty one when a second passes without."""
    lines: queue.SimpleQueue[str | None] = queue.SimpleQueue()

    def read() -> None:
        assert process.stdout is not None
        for line in process.stdout:
            lines.put(line.rstrip("\n"))
        lines.put(None)

    reader = threading.Thread(target=read, name="go output", daemon=True)
    reader.start()
    while True:
        try:
            line = lines.get(timeout=1.0)
        except queue.Empty:
            yield ""
            continue
        if line is None:
            break
        yield line
    reader.join()


@contextmanager
def _lock(path: Path, progress: Progress) -> Iterator[None]:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as file:
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                progress.working("waiting for another build")
                time.sleep(0.5)
        yield


def _forget_old(newest: Path) -> None:
    folders = [path for path in newest.parent.iterdir() if path.is_dir() and path.suffix != ".part"]
    folders.sort(key=lambda path: path.stat().st_mtime, reverse=True)
    for folder in folders[KEEP:]:
        shutil.rmtree(folder, ignore_errors=True)
