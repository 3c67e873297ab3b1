"""Tells gRPC that this process never forks without exec; imported before gRPC is.

Its fork handlers would only print a warning into a program's output each time the node agent starts a process.
"""

import os

os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "0")
