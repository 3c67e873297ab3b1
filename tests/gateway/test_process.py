"""`noctaya gateway` as a process: a taken port is named, a signal ends it cleanly, the import stays light."""

import asyncio
import os
import signal
import socket
import sys

import pytest

from noctaya.gateway.errors import CannotListen, PortInUse
from noctaya.gateway.listen import listening_socket
from noctaya.gateway.settings import HttpSettings
from tests.gateway.fake_worker import fake_worker
from tests.gateway.running import gateway
from tests.gateway.services import message

RUN = "from noctaya.gateway.main import run; from noctaya.gateway.settings import GatewaySettings; from noctaya.settings import load; raise SystemExit(run(load(GatewaySettings)))"


def environment(**more: str) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("NOCTAYA_")}
    ours = {
        "NOCTAYA_HTTP__HOST": "127.0.0.1",
        "NOCTAYA_HTTP__PORT": "0",
        "NOCTAYA_ADMIN__HOST": "127.0.0.1",
        "NOCTAYA_ADMIN__PORT": "0",
        "NOCTAYA_DRAIN__PROPAGATION_SECONDS": "0",
    }
    return kept | ours | more


async def test_a_port_in_use_is_named_with_the_setting_that_changes_it() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(PortInUse, match=f"{port}.*NOCTAYA_HTTP__PORT"):
            async with gateway("127.0.0.1:1", http=HttpSettings(host="127.0.0.1", port=port), ready=False):
                raise AssertionError("it cannot have started")


def test_an_address_of_another_machine_is_named() -> None:
    with pytest.raises(CannotListen, match=r"192\.0\.2\.1"):
        listening_socket("192.0.2.1", 0, "NOCTAYA_HTTP__HOST")


async def test_a_signal_ends_the_process_with_zero_after_its_last_word() -> None:
    async with fake_worker() as worker:
        worker.serve(message())
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-W",
            "error",
            "-c",
            RUN,
            env=environment(NOCTAYA_LINK__WORKERS=worker.address),
            stderr=asyncio.subprocess.PIPE,
        )
        try:
            await worker.until(lambda: len(worker.hellos) == 1, 30.0)
            process.send_signal(signal.SIGTERM)
            async with asyncio.timeout(15):
                _, told = await process.communicate()
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
        assert process.returncode == 0, told.decode()
        (line,) = told.decode().splitlines()
        assert "THE CONTROL LINK IS PLAINTEXT" in line, "no setting for TLS is the one thing worth a warning"
        assert worker.byes == 1


async def test_importing_a_gateway_loads_no_kubernetes_client() -> None:
    code = "import sys, noctaya.gateway.main; print([m for m in sys.modules if 'kube' in m])"
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", code, stdout=asyncio.subprocess.PIPE)
    async with asyncio.timeout(30):
        told, _ = await process.communicate()
    assert told.strip() == b"[]"
