"""What is in the image and what is not, by looking into the archive that engines load."""

import os
import re
import shutil
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from deploy.image import contents
from tests.cluster.archive import Archive
from tests.cluster.product_image import ROOT, product_image, site_packages

pytestmark = [pytest.mark.containers, pytest.mark.timeout(600)]

MOST_BYTES = 200_000_000
SECRETS = {
    b"PRIVATE KEY-----": re.compile(rb"-----BEGIN [A-Z ]*PRIVATE KEY-----\s+[A-Za-z0-9+/=]{40}"),
    b"AKIA": re.compile(rb"\bAKIA[0-9A-Z]{16}\b"),
    b"ghp_": re.compile(rb"\bghp_[A-Za-z0-9]{36}\b"),
    b"hf_": re.compile(rb"\bhf_[A-Za-z0-9]{34}\b"),
}
"""What a secret holds, and its whole shape: code may speak of one."""
TOOLS = {
    "pip",
    "setuptools",
    "wheel",
    "ensurepip",
    "distutils-precedence.pth",
    "_distutils_hack",
    "lib2to3",
    "idlelib",
}
PROGRAMS = {
    "sh",
    "bash",
    "dash",
    "busybox",
    "cc",
    "gcc",
    "as",
    "ld",
    "make",
    "apt",
    "apt-get",
    "dpkg",
    "apk",
    "curl",
}


def names(opened: Archive) -> list[str]:
    return [entry.name for entry in opened.entries()]


def test_it_unpacks_to_at_most_200_megabytes(opened: Archive) -> None:
    assert 20_000_000 < opened.unpacked_bytes <= MOST_BYTES


def test_it_has_the_name_that_the_overlays_use_and_runs_as_nobody(opened: Archive) -> None:
    assert opened.tags == ("docker.io/library/noctaya:0.1.0",)
    assert opened.config["config"]["User"] == "65532"
    assert opened.config["config"]["Entrypoint"] == ["/usr/local/bin/python3", "-m", "noctaya"]


def test_there_is_no_test_code_no_compiler_no_shell_and_nothing_that_installs(opened: Archive) -> None:
    parts = {part for name in names(opened) for part in Path(name).parts}
    assert not parts & TOOLS
    assert not parts & {"test", "tests", "pytest", "_pytest", "hypothesis"}
    executable = {
        Path(entry.name).name for entry in opened.entries() if entry.isfile() and entry.mode & 0o111
    }
    assert not executable & PROGRAMS
    programs = {entry.name for entry in opened.entries() if "/bin/" in entry.name and entry.isfile()}
    assert programs == {"usr/local/bin/noctaya", "usr/local/bin/python3"}


def test_the_embedded_cluster_and_packages_for_development_are_not_in_it(opened: Archive) -> None:
    inside = set(names(opened))
    site = contents.SITE_PACKAGES[1:]
    assert f"{site}/noctaya/gateway/main.py" in inside
    for absent in (
        "noctaya/local",
        "mypy",
        "ruff",
        "grpc_tools",
        "jsonschema_rs",
        "openai",
        "xllamacpp",
        "docker",
    ):
        assert f"{site}/{absent}" not in inside


def test_no_file_gives_rights_and_none_can_be_changed_by_its_user(opened: Archive) -> None:
    for entry in opened.entries():
        assert not entry.mode & (stat.S_ISUID | stat.S_ISGID), entry.name
        assert entry.isfile() or entry.isdir(), f"{entry.name} is neither a file nor a folder"
        assert (entry.uid, entry.gid, entry.mtime) == (0, 0, 0)
        assert not entry.mode & 0o022 or entry.name == "tmp", f"{entry.name} can be written by others"
        assert "security.capability" not in str(entry.pax_headers)


def test_no_secret_and_no_folder_of_the_machine_that_made_it_stand_in_a_file_that_python_reads(
    opened: Archive,
) -> None:
    here = [os.fsencode(path) for path in (ROOT, sys.base_prefix) if str(path) != contents.PREFIX]
    for entry in opened.entries():
        content = opened.read(entry.name) if entry.isfile() else b""
        if not content.startswith(b"\x7fELF"):  # the interpreter's own search path is compiled in
            found = [shape for mark, shape in SECRETS.items() if mark in content and shape.search(content)]
            assert not found, entry.name
            assert not [path for path in here if path in content], entry.name


def test_everything_that_starts_is_compiled_and_is_not_checked_by_time(opened: Archive) -> None:
    inside = set(names(opened))
    tag = f"cpython-{contents.LIBRARY.rpartition('python')[2].replace('.', '')}"
    for module in ("noctaya/gateway/main", "noctaya/workers/main", "sanic/app"):
        folder, _, name = module.rpartition("/")
        compiled = f"{contents.SITE_PACKAGES[1:]}/{folder}/__pycache__/{name}.{tag}.pyc"
        assert compiled in inside
        assert opened.read(compiled)[4:8] == b"\x01\0\0\0", "PEP 552: made from a hash, and not checked"


def test_made_anew_it_is_the_same_to_the_byte(archive: Path, tmp_path: Path) -> None:
    site = site_packages()
    shutil.copytree(site, tmp_path / site.name, copy_function=os.link)
    again = product_image(cache=tmp_path)
    assert again != archive
    assert again.name == archive.name, "the sources were changed while this ran"
    same = subprocess.run(["cmp", archive, again], capture_output=True, text=True, check=False)
    assert (same.returncode, same.stdout) == (0, "")
