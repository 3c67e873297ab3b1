"""The embedded API server and kubectl against it, for what has to be applied rather than read."""

import os
from collections.abc import AsyncIterator, Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from noctaya.local.apiserver import ApiServer
from tests.deploy.manifests import DEADLINE_SECONDS, kubectl_program
from tests.kubectl_run import run_kubectl

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
        finished = await run_kubectl(
            program, *arguments, environment=environment, given=given, seconds=DEADLINE_SECONDS
        )
        assert finished.code == 0, finished.err + finished.out
        assert not finished.err, finished.err
        return finished.out

    return run
