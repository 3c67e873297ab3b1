"""What is in Noctaya's image and nothing else: the one set of rules for the Containerfile and for `make image`.

    python -m deploy.image.contents packages SITE LOCK            the locked packages, from the package index
    python -m deploy.image.contents base ROOT SITE                the interpreter with its libraries, and SITE
    python -m deploy.image.contents product ROOT NOCTAYA LICENSE  Noctaya itself

ROOT becomes the image's root folder. Whatever is not copied here is not in the image: it has no shell, no package manager, no
compiler and no file that could give rights. Invariants: the same inputs give the same bytes, and no path of the building
machine stands in a file that Python reads. How it fails: with the file system's, pip's or the compiler's own error; what was
begun is then to be thrown away.

The standard library only: this runs in a bare Python image. `ldd` names shared libraries.
"""

import fnmatch
import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from deploy.image.libraries import needed_by

PREFIX = "/usr/local"
LIBRARY = f"{PREFIX}/lib/python{sys.version_info.major}.{sys.version_info.minor}"
SITE_PACKAGES = f"{LIBRARY}/site-packages"
NOT_OF_THE_STANDARD_LIBRARY = (
    "__pycache__",
    "*.a",
    "*.pyc",
    "config-*",
    "ensurepip",
    "idlelib",
    "lib2to3",
    "site-packages",
    "test",
    "tests",
    "tkinter",
    "turtle.py",
    "turtledemo",
    "_test*.so",
    "_ctypes_test*.so",
    "_tkinter*.so",
    "xxlimited*.so",
)
"""Names that no role imports: tests, an editor, a window toolkit, what makes other environments."""
NOT_OF_THE_PACKAGES = (
    "__pycache__",
    "*.pyc",
    # What pip says about the place where it ran.
    "INSTALLER",
    "RECORD",
    "REQUESTED",
    "direct_url.json",
    # Sources of compiled modules, and what only type checkers read.
    "*.c",
    "*.h",
    "*.pxd",
    "*.pxi",
    "*.pyi",
    "*.pyx",
    "test",
    "tests",
)
"""Names that are left out at any depth of the installed packages."""
WHEELS = "wheels.json"
"""In SITE: name → version and SHA-256 of the wheel that was installed, for the bill of materials."""
NOT_AT_THE_TOP = (
    WHEELS,
    "bin",
    "*.md",
    "LICENSE",
    "pyproject.toml",
    "_distutils_hack",
    "distutils-precedence.pth",
    "setuptools*",
)
"""Names that are left out at the top: scripts with this machine's paths, stray files, and a build tool that nothing imports."""
GENERATED = ("__pycache__", "*.pyc")
NOT_OF_NOCTAYA = (*GENERATED, "local")
"""The embedded cluster is for laptops: it needs packages that the image has not, and no role of a cluster imports it."""
NOT_COMPILED = r"kubernetes_asyncio/client/"
"""A thousand modules that only somebody's kubeconfig with a credential plugin loads."""
NOBODY = 65532
PIP_SECONDS = 900.0
COMPILE_SECONDS = 900.0
ENTRYPOINT = (f"{PREFIX}/bin/python3", "-m", "noctaya")
CERTIFICATES = "/etc/ssl/certs/ca-certificates.crt"
ENVIRONMENT = {
    "PATH": f"{PREFIX}/bin:/usr/bin:/bin",
    "PYTHONDONTWRITEBYTECODE": "1",
    "PYTHONUNBUFFERED": "1",
    "SSL_CERT_FILE": CERTIFICATES,
}
TEXTS = {
    "etc/passwd": f"root:x:0:0:root:/:/sbin/nologin\nnonroot:x:{NOBODY}:{NOBODY}:nonroot:/:/sbin/nologin\n",
    "etc/group": f"root:x:0:\nnonroot:x:{NOBODY}:\n",
    "etc/nsswitch.conf": "hosts: files dns\n",
}
COMMAND = f"#!{PREFIX}/bin/python3\nfrom noctaya.cli import main\n\nmain()\n"


def packages(site: Path, lock: Path) -> None:
    """Fill `site` with what the lock names: wheels only, so that no compiler is ever needed, each with a locked hash."""
    words = ["--require-hashes", "--no-deps", "--only-binary=:all:", "--no-compile", f"--target={site}"]
    with tempfile.NamedTemporaryFile() as report:
        pip = [sys.executable, "-m", "pip", "install", "--quiet", *words, f"--report={report.name}"]
        subprocess.run([*pip, f"--requirement={lock}"], check=True, timeout=PIP_SECONDS)
        installed = json.load(report)["install"]
    wheels = {
        entry["metadata"]["name"]: {
            "version": entry["metadata"]["version"],
            "sha256": entry["download_info"]["archive_info"]["hashes"]["sha256"],
        }
        for entry in installed
    }
    _write(site / WHEELS, json.dumps(wheels, indent=1, sort_keys=True))


def base(root: Path, site: Path) -> None:
    """Fill `root` with all that is not Noctaya's own."""
    for path, text in TEXTS.items():
        _write(root / path, text)
    (root / "tmp").mkdir()
    (root / "tmp").chmod(0o1777)
    standard, library = Path(sysconfig.get_path("stdlib")), _inside(root, LIBRARY)
    _copy(Path(sys.executable).resolve(), _inside(root, f"{PREFIX}/bin/python3"))
    copy_tree(standard, library, NOT_OF_THE_STANDARD_LIBRARY)
    copy_tree(site, _inside(root, SITE_PACKAGES), NOT_OF_THE_PACKAGES, NOT_AT_THE_TOP)
    _forget_the_machine(library)
    users = [Path(sys.executable), *library.rglob("*.so")]
    for source, path in needed_by(users, inside=root):
        _copy(source, _inside(root, path))
    _strip(root)
    _copy(_inside(root, f"{SITE_PACKAGES}/certifi/cacert.pem"), _inside(root, CERTIFICATES))
    compile_below(root, library)


def product(root: Path, package: Path, licence: Path) -> None:
    """Fill `root` with Noctaya."""
    place = _inside(root, f"{SITE_PACKAGES}/noctaya")
    copy_tree(package, place, NOT_OF_NOCTAYA)
    command = _inside(root, f"{PREFIX}/bin/noctaya")
    _write(command, COMMAND)
    command.chmod(0o755)
    _copy(licence, root / "usr/share/doc/noctaya/LICENSE")
    compile_below(root, place)


def copy_tree(source: Path, target: Path, skipped: Iterable[str], at_the_top: Iterable[str] = ()) -> None:
    """Copy all files below a folder but names of the `skipped` patterns; `at_the_top` are left out there only."""
    everywhere, top = _pattern(skipped), _pattern((*skipped, *at_the_top))
    for folder, folders, names in os.walk(source):
        left_out = top if Path(folder) == source else everywhere
        folders[:] = sorted(name for name in folders if not left_out.match(name))
        for name in sorted(names):
            path = Path(folder) / name
            if path.is_file() and not left_out.match(name):
                _copy(path, target / path.relative_to(source))


def _copy(source: Path, target: Path) -> None:
    """Content, and of the mode whether it can be executed: no bit that gives rights comes along. Links become files."""
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(source, target)
    target.chmod(0o755 if os.access(source, os.X_OK) else 0o644)


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o644)


def _inside(root: Path, path: str) -> Path:
    return root / path.lstrip("/")


def _pattern(names: Iterable[str]) -> re.Pattern[str]:
    return re.compile("|".join(fnmatch.translate(name) for name in names))


def _forget_the_machine(library: Path) -> None:
    """The interpreter's record of how it was built names folders of the machine that built it."""
    for path in library.glob("_sysconfigdata*.py"):
        path.write_text(path.read_text().replace(sys.base_prefix, PREFIX))


def _strip(root: Path) -> None:
    """Drop debug symbols of the interpreter, where this machine's has them; locked packages stay as their hashes say."""
    program = shutil.which("strip")
    if program is None:  # a base image, whose interpreter has none
        return
    packages = _inside(root, SITE_PACKAGES)
    for path in _elf_files(root):
        if not path.is_relative_to(packages):
            subprocess.run([program, "--strip-debug", path], check=True, timeout=60)


def _elf_files(root: Path) -> Iterator[Path]:
    for path in sorted(root.rglob("*")):
        if path.is_file() and path.stat().st_size > 4:
            with path.open("rb") as file:
                if file.read(4) == b"\x7fELF":
                    yield path


def compile_below(root: Path, folder: Path) -> None:
    """Compile now: the root is read-only when it runs, or every start would do it again.

    Files are checked by nothing rather than by time, and one process with fixed hashes compiles them in order, so that the
    image is the same whenever it is made.
    """
    program = (
        "import compileall, json, py_compile, re, sys\n"
        "folder, root, left_out = json.loads(sys.argv[1])\n"
        "mode = py_compile.PycInvalidationMode.UNCHECKED_HASH\n"
        "done = compileall.compile_dir(folder, maxlevels=50, quiet=1, rx=re.compile(left_out), stripdir=root,"
        " prependdir='/', invalidation_mode=mode)\n"
        "sys.exit(not done)\n"
    )
    arguments = json.dumps([str(folder), str(root), NOT_COMPILED])
    environment = {**os.environ, "PYTHONHASHSEED": "0"}
    subprocess.run(
        [sys.executable, "-c", program, arguments], check=True, env=environment, timeout=COMPILE_SECONDS
    )


def main(arguments: list[str]) -> int:
    """Entry point; returns an exit code."""
    kinds: dict[str, tuple[Callable[..., None], int]] = {
        "packages": (packages, 2),
        "base": (base, 2),
        "product": (product, 3),
    }
    kind, *paths = arguments or [""]
    if kind not in kinds or len(paths) != kinds[kind][1]:
        sys.stderr.write(f"{__doc__}\n")
        return 2
    kinds[kind][0](*(Path(path) for path in paths))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
