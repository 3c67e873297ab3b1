"""Certificates as files: read when they change, never half, never garbage, and never a key in a message."""

from __future__ import annotations

import logging
from dataclasses import replace
from pathlib import Path

import pytest

from noctaya.wire.errors import MaterialInvalid
from noctaya.wire.identity import Role
from noctaya.wire.material import AUTHORITIES, CERTIFICATE, KEY, Material, MountedMaterial
from noctaya.wire.tls_settings import TlsSettings, mounted, problem_of
from tests.wire.fleet_material import Issuer, Mount, is_secret_free

ISSUER = Issuer()
FIRST, SECOND = ISSUER.material(Role.WORKER), ISSUER.material(Role.WORKER)


def test_a_changed_mount_is_read_again_without_being_told(tmp_path: Path) -> None:
    mount, source = Mount(tmp_path / "tls"), MountedMaterial(tmp_path / "tls")
    mount.put(FIRST)
    assert source.current() == FIRST
    mount.put(SECOND)
    assert source.current() == SECOND
    assert source.problem is None


def test_an_unchanged_mount_is_not_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mount, source = Mount(tmp_path), MountedMaterial(tmp_path)
    mount.put(FIRST)
    source.current()
    monkeypatch.setattr(Path, "read_bytes", lambda path: pytest.fail(f"read {path}"))
    assert source.current() == FIRST


def test_a_secret_that_is_not_there_yet_is_none_and_taken_when_it_comes(tmp_path: Path) -> None:
    source = MountedMaterial(tmp_path / "tls")
    assert source.current() is None
    assert "tls.crt" in (source.problem or "")
    Mount(tmp_path / "tls").put(FIRST)
    assert source.current() == FIRST
    assert source.problem is None


@pytest.mark.parametrize("entry", [CERTIFICATE, KEY, AUTHORITIES])
def test_what_vanishes_leaves_the_last_good_one(tmp_path: Path, entry: str) -> None:
    mount, source = Mount(tmp_path), MountedMaterial(tmp_path)
    mount.put(FIRST)
    source.current()
    files = {CERTIFICATE: SECOND.certificate, KEY: SECOND.key, AUTHORITIES: SECOND.authorities}
    mount.put_files({name: text for name, text in files.items() if name != entry})
    assert source.current() == FIRST
    assert entry in (source.problem or "")
    mount.put(SECOND)
    assert source.current() == SECOND


BAD = {
    "certificate": (replace(SECOND, certificate=b"x"), CERTIFICATE),
    "empty certificate": (replace(SECOND, certificate=b""), CERTIFICATE),
    "key": (replace(SECOND, key=b"-----BEGIN PRIVATE KEY-----\nsecretsecretsecretsecret\n"), KEY),
    "another's key": (replace(SECOND, key=FIRST.key), KEY),
    "CAs": (replace(SECOND, authorities=b"none"), AUTHORITIES),
}


@pytest.mark.parametrize("bad", BAD)
def test_garbage_is_refused_by_name_and_quoted_nowhere(
    tmp_path: Path, bad: str, caplog: pytest.LogCaptureFixture
) -> None:
    material, entry = BAD[bad]
    with pytest.raises(MaterialInvalid) as refused:
        material.check()
    assert refused.value.entry == entry
    mount, source = Mount(tmp_path), MountedMaterial(tmp_path)
    mount.put(FIRST)
    source.current()
    mount.put(material)
    with caplog.at_level(logging.DEBUG):
        assert source.current() == FIRST
        assert source.current() == FIRST
    assert len(caplog.records) == 1, "the same problem is told once"
    told = str([record.__dict__ for record in caplog.records]) + repr(refused.value) + str(refused.value)
    assert entry in told
    assert is_secret_free(told, FIRST, material)
    assert "secretsecret" not in told
    assert refused.value.__cause__ is None


def test_a_mount_that_is_swapped_while_it_is_read_is_read_whole_the_next_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mount, source = Mount(tmp_path), MountedMaterial(tmp_path)
    mount.put(FIRST)
    other = Issuer().material(Role.WORKER)
    plain = MountedMaterial._read

    def read_and_be_overtaken(self: MountedMaterial) -> Material:
        found = plain(self)
        monkeypatch.undo()
        mount.put(other)
        return found

    monkeypatch.setattr(MountedMaterial, "_read", read_and_be_overtaken)
    assert source.current() is None
    assert source.current() == other


def test_material_does_not_show_its_key() -> None:
    assert is_secret_free(repr(FIRST) + str(FIRST) + f"{FIRST}", FIRST)


def test_an_empty_setting_is_plaintext_and_said_aloud(caplog: pytest.LogCaptureFixture) -> None:
    assert mounted(TlsSettings()) is None
    (record,) = caplog.records
    assert record.levelno == logging.WARNING
    assert "PLAINTEXT" in record.message
    assert problem_of(None) is None


def test_a_directory_is_a_source_that_says_what_is_wrong_with_it(tmp_path: Path) -> None:
    source = mounted(TlsSettings(directory=str(tmp_path)))
    assert "tls.crt" in (problem_of(source) or "")
    Mount(tmp_path).put(FIRST)
    assert problem_of(source) is None
