"""The product as plain processes beside a control plane without a node: one worker, one gateway, no containers.

For measurements of what the control plane and KEDA do; no model ever runs. Everything listens on loopback and ends with the
body of `roles`.
"""

import asyncio
import contextlib
import os
import re
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import aiohttp

from tests.cluster.errors import tail
from tests.ports import LOOPBACK, free_ports

START_SECONDS = 60.0
STOP_SECONDS = 20.0


@dataclass(frozen=True, slots=True)
class Roles:
    """Where the two listen."""

    gateway: str
    worker_admin: str
    session: aiohttp.ClientSession

    async def metric(self, name: str, **labels: str) -> float:
        """The sum of a worker's series of this name that carry these labels."""
        async with self.session.get(f"{self.worker_admin}/metrics") as answer:
            text = await answer.text()
        total = 0.0
        for line in text.splitlines():
            found = re.match(rf"{re.escape(name)}(?:\{{(.*)\}})? (\S+)$", line)
            if found and all(f'{key}="{value}"' in (found[1] or "") for key, value in labels.items()):
                total += float(found[2])
        return total


@asynccontextmanager
async def roles(kubeconfig: Path, logs: Path) -> AsyncIterator[Roles]:
    """Have a worker and a gateway up and ready for the body."""
    scaler, control, worker_admin, http, gateway_admin = free_ports(5)
    worker = {
        "NOCTAYA_KUBE__KUBECONFIG": str(kubeconfig),
        "NOCTAYA_POD__NAME": "worker",
        "NOCTAYA_SCALER__HOST": LOOPBACK,
        "NOCTAYA_SCALER__PORT": str(scaler),
        "NOCTAYA_SCALER__ADDRESS": f"{LOOPBACK}:{scaler}",
        "NOCTAYA_CONTROL__HOST": LOOPBACK,
        "NOCTAYA_CONTROL__PORT": str(control),
        "NOCTAYA_ADMIN__HOST": LOOPBACK,
        "NOCTAYA_ADMIN__PORT": str(worker_admin),
    }
    gateway = {
        "NOCTAYA_POD__NAME": "gateway",
        "NOCTAYA_LINK__WORKERS": f"{LOOPBACK}:{control}",
        "NOCTAYA_HTTP__HOST": LOOPBACK,
        "NOCTAYA_HTTP__PORT": str(http),
        "NOCTAYA_ADMIN__HOST": LOOPBACK,
        "NOCTAYA_ADMIN__PORT": str(gateway_admin),
        "NOCTAYA_DRAIN__PROPAGATION_SECONDS": "0",
    }
    async with aiohttp.ClientSession() as session, _process("worker", worker, logs):
        await _ready(session, f"http://{LOOPBACK}:{worker_admin}/readyz", logs / "noctaya-worker.log")
        async with _process("gateway", gateway, logs):
            await _ready(session, f"http://{LOOPBACK}:{gateway_admin}/readyz", logs / "noctaya-gateway.log")
            yield Roles(f"http://{LOOPBACK}:{http}", f"http://{LOOPBACK}:{worker_admin}", session)


@asynccontextmanager
async def _process(role: str, environment: dict[str, str], logs: Path) -> AsyncIterator[None]:
    with (logs / f"noctaya-{role}.log").open("wb") as log:
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "noctaya", role, env={**os.environ, **environment}, stdout=log, stderr=log
        )  # fmt: skip
    try:
        yield
    finally:
        if process.returncode is None:
            process.terminate()
        try:
            async with asyncio.timeout(STOP_SECONDS):
                await process.wait()
        except TimeoutError:
            process.kill()
            await process.wait()


async def _ready(session: aiohttp.ClientSession, url: str, log: Path) -> None:
    seen = "it does not listen"
    try:
        async with asyncio.timeout(START_SECONDS):
            while True:
                with contextlib.suppress(aiohttp.ClientConnectionError):
                    async with session.get(url) as answer:
                        if answer.status == 200:
                            return
                        seen = await answer.text()
                await asyncio.sleep(0.1)
    except TimeoutError:
        raise TimeoutError(f"{url} is not ready after {START_SECONDS:.0f} s: {seen}\n{tail(log)}") from None
