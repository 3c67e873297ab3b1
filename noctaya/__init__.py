"""Noctaya puts thousands of rarely used LLMs to sleep on Kubernetes and wakes one when a request for it arrives.

The packages are the architecture; imports point down only (`pyproject.toml`, import-linter):

    cli → ops, local → workers, gateway → leader, cache → kube → wire, api → telemetry, settings → errors
"""

import importlib
import os
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from noctaya.ops.client import AsyncClient as AsyncClient
    from noctaya.ops.sync_client import Client as Client

__version__ = "0.1.0"

_CLIENTS = {"AsyncClient": "noctaya.ops.client", "Client": "noctaya.ops.sync_client"}

# No process of ours forks without exec. gRPC reads this at import, so it stands where every import of ours begins; without
# it gRPC prints a warning into a program's output each time the node agent starts a process.
os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "0")


def __getattr__(name: str) -> Any:
    """The clients are imported when they are asked for: no role pays for them."""
    if name not in _CLIENTS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_CLIENTS[name]), name)
