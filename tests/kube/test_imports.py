"""Importing the client stays light: a worker must not carry the model classes of the official client."""

from __future__ import annotations

import subprocess
import sys

PROGRAM = """
import sys
import aiohttp, msgspec, tenacity
before = set(sys.modules)
import noctaya.kube, noctaya.kube.events, noctaya.kube.leases, noctaya.kube.objects
from noctaya.kube import Client, ClusterConfig
Client(ClusterConfig(server="https://127.0.0.1:1"))
more = set(sys.modules) - before
print(len(more))
print(*sorted(name for name in sys.modules if name.split(".")[0] in ("kubernetes_asyncio", "yaml", "pydantic", "sanic", "grpc")))
"""


def test_kubernetes_asyncio_is_not_imported() -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True, timeout=60
    )
    count, heavy = done.stdout.split("\n")[:2]
    assert heavy == "", "loaded lazily, when a kubeconfig needs it"
    assert int(count) < 60, f"noctaya.kube brought {count} modules beyond aiohttp, msgspec and tenacity"
