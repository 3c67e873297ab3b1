"""The working directory: one cluster's alone, gone when it was temporary, and never in the way of a person's own files."""

import tempfile
from pathlib import Path

import pytest
import yaml

from noctaya.local.errors import DirectoryUnusable, ForeignKubeconfig, StateInUse
from noctaya.local.workdir import kubeconfig_path, working_directory

OURS = yaml.safe_dump({"clusters": [{"name": "noctaya-local"}]})


def test_a_temporary_directory_is_gone_afterwards() -> None:
    with working_directory(None) as path:
        (path / "pods").mkdir()
        assert path.parent == Path(tempfile.gettempdir()).resolve()
    assert not path.exists()


def test_a_state_directory_is_made_and_stays(tmp_path: Path) -> None:
    with working_directory(tmp_path / "deep" / "state") as path:
        assert path.is_dir()
    assert path.is_dir()


def test_a_relative_state_directory_is_told_to_pods_as_an_absolute_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with working_directory(Path("state")) as path:
        assert path == tmp_path.resolve() / "state"
    assert kubeconfig_path(Path("config"), path) == tmp_path / "config"


def test_two_clusters_cannot_share_a_state_directory_at_the_same_time(tmp_path: Path) -> None:
    with working_directory(tmp_path), pytest.raises(StateInUse, match="--state"), working_directory(tmp_path):
        pass
    with working_directory(tmp_path) as path:
        assert path == tmp_path.resolve()


def test_a_state_directory_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with (
        pytest.raises(DirectoryUnusable, match=r"file.*choose another path"),
        working_directory(tmp_path / "file"),
    ):
        pass


@pytest.mark.parametrize("text", ["", OURS], ids=["missing or empty", "ours"])
def test_a_kubeconfig_of_ours_may_be_written_again(tmp_path: Path, text: str) -> None:
    wanted = tmp_path / "config"
    wanted.write_text(text)
    assert kubeconfig_path(wanted, tmp_path) == wanted


@pytest.mark.parametrize("text", ["clusters: [{name: production}]", "notes", "[", "clusters: 7"])
def test_a_persons_own_kubeconfig_is_never_touched(tmp_path: Path, text: str) -> None:
    wanted = tmp_path / "config"
    wanted.write_text(text)
    with pytest.raises(ForeignKubeconfig, match="--kubeconfig"):
        kubeconfig_path(wanted, tmp_path)
    assert wanted.read_text() == text


def test_a_kubeconfig_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(DirectoryUnusable, match="file/config"):
        kubeconfig_path(tmp_path / "file" / "config", tmp_path)
