"""The last good routes on disk: a restarted container serves before any worker answers."""

import os
import stat
from pathlib import Path

import pytest

from noctaya.gateway.settings import GatewaySettings
from noctaya.gateway.snapshot import decode_into, encode
from noctaya.gateway.state import GatewayState
from noctaya.wire import control
from tests.gateway.fake_engine import fake_engine
from tests.gateway.fake_worker import FakeWorker
from tests.gateway.running import gateway, until, words
from tests.gateway.services import KEY, SECRET, endpoint, message, update
from tests.gateway.test_keys import RIGHT


def state() -> GatewayState:
    return GatewayState(GatewaySettings(), lambda: 0.0)


def test_routes_positions_and_policy_come_back() -> None:
    first, second = state(), state()
    policy = control.FleetPolicy(open_namespaces=["ai"])
    first.welcome(control.Welcome(fleet="fleet-1", key_digest_secret=SECRET, policy=policy))
    first.take(update(message(endpoints=[endpoint(1)]), epoch=3, version=9))
    assert decode_into(second, encode(first)) == 1
    assert [service.key for service in second.routes] == [KEY]
    assert second.routes.known() == first.routes.known()
    assert second.gate == first.gate
    assert second.balance.pick(KEY, 0.0) is None, "an endpoint from a file must prove itself first"


@pytest.mark.parametrize("data", [b"", b"rubbish", b"\x93\x01\x02\x03"])
def test_a_file_that_is_not_ours_is_refused(data: bytes) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - whatever the decoder says
        decode_into(state(), data)


async def test_a_restarted_gateway_serves_from_its_file_while_no_worker_answers(tmp_path: Path) -> None:
    async with fake_engine() as engine:
        worker = FakeWorker(open_namespaces=())
        await worker.start()
        worker.serve(
            message(endpoints=[endpoint(engine.port)], auth_required=True, keys=[{"hmac_sha256": RIGHT}])
        )
        async with gateway(worker.address, snapshot_dir=str(tmp_path)):
            await worker.until_applied()
            await until(lambda: (tmp_path / "routes").exists() and (tmp_path / "routes").stat().st_size > 200)
        await worker.stop()
        assert stat.S_IMODE((tmp_path / "routes").stat().st_mode) == 0o600
        async with gateway(worker.address, snapshot_dir=str(tmp_path)) as running:
            async with running.openai(key="sk-right") as client:
                assert await words(client, KEY) == "Good night!"
                assert engine.probes >= 1
        assert os.listdir(tmp_path) == ["routes"]
