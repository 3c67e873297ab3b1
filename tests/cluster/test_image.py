"""Images made of this machine's files, without a cluster."""

import io
import json
import os
import subprocess
import tarfile
from pathlib import Path

import pytest

from deploy.image.libraries import LibraryMissing, needed_by
from tests.cluster.image import Image, Layer, foundation, program_image, python_image


def contents(archive: Path) -> tuple[dict[str, tarfile.TarInfo], tarfile.TarFile]:
    """Entries of an image's last layer by path, and the layer to read them from."""
    with tarfile.open(archive) as image:
        (manifest,) = json.loads(_read(image, "manifest.json"))
        layer = tarfile.open(fileobj=io.BytesIO(_read(image, manifest["Layers"][-1])))
    return {entry.name: entry for entry in layer}, layer


def _read(archive: tarfile.TarFile, name: str) -> bytes:
    file = archive.extractfile(name)
    assert file is not None
    return file.read()


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A folder with a program, a text, and things that no image needs."""
    root = tmp_path / "tree"
    (root / "package" / "__pycache__").mkdir(parents=True)
    (root / "package" / "__init__.py").write_text("x = 1\n")
    (root / "package" / "__pycache__" / "__init__.pyc").write_bytes(b"compiled")
    (root / "run").write_text("#!/bin/sh\n")
    (root / "run").chmod(0o700)
    (root / "link").symlink_to("run")
    return root


def test_the_same_files_give_the_same_bytes_whatever_their_times_and_modes(
    tree: Path, tmp_path: Path
) -> None:
    def write(name: str) -> bytes:
        layer = foundation()
        layer.tree(tree, "app")
        return Image("test:1", (layer,), entrypoint=("/app/run",)).write(tmp_path / name).read_bytes()

    first = write("first.tar")
    os.utime(tree / "run", (1, 1))
    (tree / "run").chmod(0o755)
    (tree / "package" / "__init__.py").chmod(0o600)
    assert write("second.tar") == first


def test_a_layer_holds_what_runs_and_nothing_else(tree: Path, tmp_path: Path) -> None:
    layer = Layer()
    layer.tree(tree, "opt/app")
    entries, opened = contents(Image("test:1", (layer,)).write(tmp_path / "image.tar"))
    with opened:
        assert set(entries) == {
            "opt",
            "opt/app",
            "opt/app/link",
            "opt/app/package",
            "opt/app/package/__init__.py",
            "opt/app/run",
        }
        assert entries["opt/app/link"].isfile()  # a copy: what a link points at may not be in the image
        assert {entry.mode for entry in entries.values() if entry.isfile()} == {0o755, 0o644}
        assert {(entry.uid, entry.gid, entry.mtime) for entry in entries.values()} == {(0, 0, 0)}


def test_an_image_of_a_program_holds_its_libraries_and_its_entrypoint(tmp_path: Path) -> None:
    archive = program_image("test:1", Path("/bin/sh"), path="/shell").write(tmp_path / "image.tar")
    entries, opened = contents(archive)
    opened.close()
    assert "shell" in entries
    assert any(Path(name).name.startswith("libc.so") for name in entries)
    with tarfile.open(archive) as image:
        (manifest,) = json.loads(_read(image, "manifest.json"))
        config = json.loads(_read(image, manifest["Config"]))
    assert manifest["RepoTags"] == ["test:1"]
    assert config["config"]["Entrypoint"] == ["/shell"]
    assert config["config"]["User"] == "65532"


@pytest.mark.skipif(os.geteuid() != 0, reason="chroot needs root")
def test_python_runs_from_its_image_alone(tree: Path, tmp_path: Path) -> None:
    archive = python_image("test:1", site_packages=tree).write(tmp_path / "python.tar")
    root = tmp_path / "root"
    with tarfile.open(archive) as image:
        (manifest,) = json.loads(_read(image, "manifest.json"))
        for name in manifest["Layers"]:
            with tarfile.open(fileobj=io.BytesIO(_read(image, name))) as layer:
                layer.extractall(root, filter="tar")
    program = "import package, sqlite3, ssl, sys; print(package.x, sys.prefix, ssl.HAS_TLSv1_3)"
    ran = subprocess.run(
        ["chroot", root, "/usr/local/bin/python3", "-c", program],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env={"PATH": os.environ["PATH"]},
    )
    assert (ran.stdout, ran.stderr) == ("1 /usr/local True\n", "")


def test_a_library_that_this_machine_lacks_is_named_before_an_image_is_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ldd = tmp_path / "ldd"
    ldd.write_text(
        "#!/bin/sh\necho '  libc.so.6 => /lib/libc.so.6 (0x01)'\necho '  libnone.so.1 => not found'\n"
    )
    ldd.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    with pytest.raises(LibraryMissing, match=r"libnone\.so\.1"):
        needed_by([tmp_path / "program"])
