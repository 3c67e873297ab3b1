"""A worker as a process of its own beside a control plane without a node: `noctaya worker` with the rights of its ServiceAccount.

Only its environment differs from a pod's: ports on the loopback, a kubeconfig with the account's token, and a scaler address that
leads to itself. It has no pod, and so says no uid of one: a Lease that belongs to a pod that is not there would be cleared away. It
ends with the context, and must not have ended before; the next one waits until the Lease of this one is old enough.
"""

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx2

from tests.acceptance.fleet import NAMESPACE
from tests.acceptance.waiting import until
from tests.ports import free_port

POD = "w0"
ANSWER_SECONDS = 60.0
MENDED_SECONDS = 60.0


@dataclass(slots=True)
class OutsideWorker:
    """A running worker, as somebody with a port-forward sees it."""

    process: asyncio.subprocess.Process
    admin: httpx2.AsyncClient
    log: Path
    seen: list[Any] = field(default_factory=list)

    async def readiness(self) -> tuple[int, dict[str, str]]:
        """Status of `/readyz`, and the problems in its body: name → sentence."""
        assert self.process.returncode is None, f"the worker has ended:\n{self.tail()}"
        answer = await self.admin.get("/readyz")
        return answer.status_code, {told["name"]: told["message"] for told in answer.json()["problems"]}

    async def until_ready(self) -> None:
        """Wait until it is ready and has no problem left."""

        async def claim() -> bool:
            self.seen[:] = [await self.readiness()]
            status, problems = self.seen[0]
            return status == 200 and not problems

        try:
            await until(claim, MENDED_SECONDS, "the worker is ready without a problem")
        except AssertionError as never:
            raise AssertionError(f"{never}; it says {self.seen}, and logs\n{self.tail()}") from None

    async def until_over(self, name: str) -> None:
        """Wait until it is ready and this problem is told no more."""

        async def claim() -> bool:
            self.seen[:] = [await self.readiness()]
            status, problems = self.seen[0]
            return status == 200 and name not in problems

        try:
            await until(claim, MENDED_SECONDS, f"{name} is over")
        except AssertionError as never:
            raise AssertionError(f"{never}; it says {self.seen}, and logs\n{self.tail()}") from None

    def tail(self) -> str:
        """The end of its log."""
        return self.log.read_text()[-4000:]

    async def until_problem(self, name: str, *words: str, status: int = 200) -> str:
        """Wait until this problem is told, with these words, at this status; gives the sentence."""

        async def claim() -> str:
            self.seen[:] = [await self.readiness()]
            code, problems = self.seen[0]
            sentence = problems.get(name, "")
            return sentence if code == status and all(word in sentence for word in words) else ""

        try:
            return await until(claim, ANSWER_SECONDS, f"/readyz is {status} and says {name} with {words}")
        except AssertionError as never:
            raise AssertionError(f"{never}; it says {self.seen}") from None

    async def problem_metrics(self) -> set[str]:
        """The problems that its metrics count."""
        text = (await self.admin.get("/metrics")).text
        start = 'noctaya_worker_problem{problem="'
        return {line.removeprefix(start).partition('"')[0] for line in text.splitlines() if start in line}


@asynccontextmanager
async def outside_worker(
    folder: Path, server: str, token: str, authority: str = ""
) -> AsyncIterator[OutsideWorker]:
    """Start a worker that reaches the API server at `server`, whose certificate `authority` (base64 PEM) signed."""
    admin, scaler, control = free_port(), free_port(), free_port()
    kubeconfig, log = folder / f"{admin}.kubeconfig", folder / f"{admin}.log"
    kubeconfig.write_text(json.dumps(_kubeconfig(server, token, authority)))
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("NOCTAYA_", "KUBE"))}
    told = {
        "KUBECONFIG": str(kubeconfig),
        "NOCTAYA_POD__NAME": POD,
        "NOCTAYA_POD__NAMESPACE": NAMESPACE,
        "NOCTAYA_SCALER__HOST": "127.0.0.1",
        "NOCTAYA_SCALER__PORT": str(scaler),
        "NOCTAYA_SCALER__ADDRESS": f"127.0.0.1:{scaler}",
        "NOCTAYA_CONTROL__HOST": "127.0.0.1",
        "NOCTAYA_CONTROL__PORT": str(control),
        "NOCTAYA_CONTROL__ADVERTISE": f"127.0.0.1:{control}",
        "NOCTAYA_ADMIN__HOST": "127.0.0.1",
        "NOCTAYA_ADMIN__PORT": str(admin),
    }
    with log.open("wb") as output:
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "noctaya", "worker", env=clean | told, stdout=output, stderr=output
        )
    try:
        url = f"http://127.0.0.1:{admin}"
        async with httpx2.AsyncClient(base_url=url, trust_env=False, timeout=10.0) as client:
            yield OutsideWorker(process, client, log)
        assert process.returncode is None, f"the worker has ended:\n{log.read_text()[-4000:]}"
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


def _kubeconfig(server: str, token: str, authority: str) -> dict[str, Any]:
    cluster = {"server": server} | ({"certificate-authority-data": authority} if authority else {})
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "it", "cluster": cluster}],
        "users": [{"name": "worker", "user": {"token": token}}],
        "contexts": [{"name": "it", "context": {"cluster": "it", "user": "worker"}}],
        "current-context": "it",
    }
