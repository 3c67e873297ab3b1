"""The control link with mutual TLS: what a gateway does before it has a certificate, with one, and with a wrong one."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from noctaya.gateway.settings import GatewaySettings
from noctaya.settings import load
from noctaya.wire.identity import Role
from noctaya.wire.mutual_tls import RoleCheck
from noctaya.wire.tls_settings import TlsSettings
from tests.gateway.fake_engine import fake_engine
from tests.gateway.fake_worker import FakeWorker, fake_worker
from tests.gateway.running import gateway, until, words
from tests.gateway.services import KEY, endpoint, message
from tests.wire.fleet_material import NAMESPACE, Given, Issuer, Mount, is_secret_free

ISSUER = Issuer()
WORKER, GATEWAY = ISSUER.material(Role.WORKER), ISSUER.material(Role.GATEWAY)
CONTROL = "noctaya.control.v1.Control"


def tls(mount: Mount) -> TlsSettings:
    return TlsSettings(directory=str(mount.directory))


def test_the_setting_has_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NOCTAYA_TLS__DIRECTORY", "/etc/noctaya/tls")
    assert load(GatewaySettings).tls == TlsSettings(directory="/etc/noctaya/tls")
    monkeypatch.delenv("NOCTAYA_TLS__DIRECTORY")
    assert load(GatewaySettings).tls.directory == ""


async def test_a_request_is_served_over_a_secure_link_and_no_key_is_logged(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    mount = Mount(tmp_path / "tls")
    mount.put(GATEWAY)
    check = RoleCheck(NAMESPACE, {CONTROL: (Role.GATEWAY,)})
    with caplog.at_level(logging.DEBUG):
        async with fake_engine() as engine, fake_worker(tls=Given(WORKER), interceptors=(check,)) as worker:
            worker.serve(message(endpoints=[endpoint(engine.port)]))
            async with gateway(worker.address, tls=tls(mount)) as running, running.openai() as client:
                assert await words(client, KEY) == "Good night!"
                _, told = await running.admin("/readyz")
                assert "certificate" not in str(told)
    assert check.refused == {}
    assert is_secret_free(str([record.__dict__ for record in caplog.records]), GATEWAY, WORKER)


async def test_a_gateway_waits_for_its_certificate_says_so_and_links_when_it_comes(tmp_path: Path) -> None:
    mount = Mount(tmp_path / "tls")
    async with fake_worker(tls=Given(WORKER)) as worker:
        worker.serve(message())
        async with gateway(worker.address, ready=False, tls=tls(mount)) as running:
            status, told = await running.admin("/readyz")
            assert status == 503
            assert "certificate is not usable" in str(told)
            assert worker.hellos == []
            mount.put(GATEWAY)
            await running.until_ready()
            assert len(worker.hellos) == 1


@pytest.mark.parametrize("is_gateway_secure", [False, True])
async def test_a_secure_end_and_a_plaintext_end_tell_each_other_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, *, is_gateway_secure: bool
) -> None:
    mount = Mount(tmp_path / "tls")
    mount.put(GATEWAY)
    caplog.set_level(logging.DEBUG)
    async with fake_worker(tls=None if is_gateway_secure else Given(WORKER)) as worker:
        worker.serve(message())
        settings = tls(mount) if is_gateway_secure else TlsSettings()
        async with gateway(worker.address, ready=False, tls=settings) as running:
            await until(lambda: "link ended" in caplog.text)
            assert (await running.admin("/readyz"))[0] == 503
        assert worker.hellos == []


async def test_whoever_holds_a_workers_certificate_is_no_gateway(tmp_path: Path) -> None:
    mount = Mount(tmp_path / "tls")
    mount.put(WORKER)
    check = RoleCheck(NAMESPACE, {CONTROL: (Role.GATEWAY,)})
    async with fake_worker(tls=Given(WORKER), interceptors=(check,)) as worker:
        worker.serve(message())
        async with gateway(worker.address, ready=False, tls=tls(mount)):
            await until(lambda: check.refused.get((CONTROL, "worker"), 0) > 0)
        assert worker.hellos == []


async def test_a_link_lives_through_rotated_certificates_and_a_new_one_uses_them(tmp_path: Path) -> None:
    mount, source, after = Mount(tmp_path / "tls"), Given(WORKER), Issuer()
    mount.put(GATEWAY)
    worker = FakeWorker(tls=source)
    await worker.start()
    worker.serve(message())
    async with gateway(worker.address, tls=tls(mount)):
        source.material = after.material(Role.WORKER, trusts=(ISSUER, after))
        mount.put(after.material(Role.GATEWAY, trusts=(ISSUER, after)))
        reports = len(worker.reports)
        await worker.until(lambda: len(worker.reports) >= reports + 2)
        assert len(worker.hellos) == 1, "one link all the time"
        await worker.stop()
        source.material = after.material(Role.WORKER)
        await worker.start(worker.port)
        await worker.until(lambda: len(worker.hellos) == 2)
    await worker.stop()
