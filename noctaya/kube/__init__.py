"""The thin Kubernetes client: session and credentials, kinds, list+watch store, apply, leases, events, typed errors.

One aiohttp session, msgspec partial structs and no model classes. This package decides nothing about Noctaya: it must never
know what an LLMService means, never retry a call that is not idempotent, and never import kubernetes_asyncio unless a
kubeconfig's credentials need it (that import costs a second and 70 MB).
"""

from noctaya.kube.client import Client, ListResult, PatchType, Propagation
from noctaya.kube.config import ClusterConfig
from noctaya.kube.reflector import Change, ChangeKind
from noctaya.kube.resources import Resource
from noctaya.kube.store import Step, Store

__all__ = [
    "Change",
    "ChangeKind",
    "Client",
    "ClusterConfig",
    "ListResult",
    "PatchType",
    "Propagation",
    "Resource",
    "Step",
    "Store",
]
