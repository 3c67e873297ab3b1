"""A small Kubernetes API server on one asyncio loop: enough for Noctaya's own processes and for kubectl.

It serves discovery, the built-in kinds of `resources.py` and custom resource definitions (defaults, pruning, validation,
CEL), with list and watch (resourceVersion, bookmarks, 410), patches, server-side apply with field managers, the status, scale
and log subresources, tables, finalizers and graceful deletion. It runs no controllers and enforces no RBAC. It must never
listen beyond loopback.
"""

from noctaya.local.apiserver.cluster import Cluster
from noctaya.local.apiserver.deletes import Deleted, DeleteOptions
from noctaya.local.apiserver.handlers import HttpLimits
from noctaya.local.apiserver.logs import LogRequest, LogSource
from noctaya.local.apiserver.server import ApiServer, ClientConfig
from noctaya.local.apiserver.status import ApiError
from noctaya.local.apiserver.storage import Change, Storage, Watch
from noctaya.local.apiserver.writes import WriteOptions, Written

__all__ = [
    "ApiError",
    "ApiServer",
    "Change",
    "ClientConfig",
    "Cluster",
    "DeleteOptions",
    "Deleted",
    "HttpLimits",
    "LogRequest",
    "LogSource",
    "Storage",
    "Watch",
    "WriteOptions",
    "Written",
]
