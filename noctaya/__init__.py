"""Noctaya puts thousands of rarely used LLMs to sleep on Kubernetes and wakes one when a request for it arrives.

The packages are the architecture; imports point down only (`pyproject.toml`, import-linter):

    cli → ops, local → workers, gateway → leader, cache → kube → wire, api → telemetry, settings → errors
"""

import os

__version__ = "0.1.0"

# No process of ours forks without exec. gRPC reads this at import, so it stands where every import of ours begins; without
# it gRPC prints a warning into a program's output each time the node agent starts a process.
os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "0")
