"""The embedded API server and kubectl against it, for what has to be applied rather than read."""

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from noctaya.local.apiserver import ApiServer
from tests.deploy.manifests import DEADLINE_SECONDS, kubectl_program

Kubectl = Callable[..., Coroutine[Any, Any, str]]


@pytest.fixture
async def server() -> AsyncIterator[ApiServer]:
    async with ApiServer() as running:
        yield running


@pytest.fixture
async def kubectl(server: ApiServer, tmp_path: Path) -> Kubectl:
    """`await kubectl("apply", "-f", "-", given=text)`: its output; a failure or a warning fails the test."""
    program, config = kubectl_program(), server.kubeconfig(tmp_path / "kubeconfig")
    environment = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "KUBECONFIG": str(config)}

    async def run(*arguments: str, given: str = "") -> str:
        process = await asyncio.create_subprocess_exec(
            program,
            *arguments,
            env=environment,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        try:
            async with asyncio.timeout(DEADLINE_SECONDS):
                out, errors = await process.communicate(given.encode())
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
        assert process.returncode == 0, errors.decode() + out.decode()
        assert not errors, errors.decode()
        return out.decode()

    return run
