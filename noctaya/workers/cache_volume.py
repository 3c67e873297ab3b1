"""Where a service keeps weights that its engine fetches: a claim of its own, a folder of the node, or nowhere.

With `pvc://` the weights are already there and no cache object is made, whatever the strategy says. A claim is created once
and never changed by us: what it holds is worth more than its spec (`apply.py` compares the hash and names the drift).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from noctaya.api.conditions import Reason
from noctaya.api.llmservice import LLMServiceSpec
from noctaya.api.names import child_names
from noctaya.workers.errors import SpecProblem
from noctaya.workers.models import CACHE_PATH, Model

DEFAULT_SIZE = "50Gi"
HOST_ROOT = "/var/lib/noctaya/cache"
_ACCESS_MODES = {"NodeLocalPVC": "ReadWriteOnce", "SharedPVC": "ReadWriteMany"}


@dataclass(frozen=True, slots=True)
class Cache:
    """What a cache strategy means for the pod and for the namespace."""

    volume: dict[str, Any] | None = None
    """The volume's source, without its name; None when nothing is mounted."""
    mount_path: str = CACHE_PATH
    environment: dict[str, str] = field(default_factory=dict)
    claim_spec: dict[str, Any] | None = None
    """Spec of the PersistentVolumeClaim `<svc>-cache`; None when there is none of our own."""


NO_CACHE = Cache()
_HUBS = {"HF_HOME": f"{CACHE_PATH}/hf", "MODELSCOPE_CACHE": f"{CACHE_PATH}/modelscope"}


def cache_for(namespace: str, name: str, spec: LLMServiceSpec, model: Model) -> Cache:
    """The cache of a service.

    Raises:
        SpecProblem: Render or Prewarm; a strategy that this version cannot do.
    """
    strategy = spec.cache.strategy
    if strategy == "BakedImage":
        raise SpecProblem(
            Reason.RENDER,
            "spec.cache.strategy BakedImage is not supported yet by this version; use None or a cache",
        )
    if not model.is_fetched_by_engine:
        return NO_CACHE
    if spec.cache.prewarm:
        raise SpecProblem(
            Reason.PREWARM,
            "spec.cache.prewarm is not supported yet by this version; remove it, and the engine fetches the weights at "
            "its first start",
        )
    if strategy == "None":
        return NO_CACHE
    if strategy == "HostPath":
        # A folder a namespace: "<namespace>-<name>" would mix a-b/c with a/b-c.
        path = f"{HOST_ROOT}/{namespace}/{name}"
        return Cache(volume={"hostPath": {"path": path, "type": "DirectoryOrCreate"}}, environment=_HUBS)
    shared = spec.cache.claim_name
    claim = shared or child_names(name).cache_claim
    return Cache(
        volume={"persistentVolumeClaim": {"claimName": claim}},
        environment=_HUBS,
        claim_spec=None if shared else _claim(spec, _ACCESS_MODES[strategy]),
    )


def _claim(spec: LLMServiceSpec, access_mode: str) -> dict[str, Any]:
    size = str(spec.cache.size) if spec.cache.size is not None else DEFAULT_SIZE
    claim: dict[str, Any] = {"accessModes": [access_mode], "resources": {"requests": {"storage": size}}}
    if spec.cache.storage_class_name:
        claim["storageClassName"] = spec.cache.storage_class_name
    return claim
