"""KEDA taken away and brought back, as its users do: its kinds, its registrations at the API server, its programs.

What comes back is what was there: objects are read before they are deleted. How it fails: `CommandFailed` with kubectl's
words, or as `until` does.
"""

import asyncio
import json
from dataclasses import dataclass

from tests.acceptance.api import Object
from tests.cluster.cluster import Cluster
from tests.cluster.keda_pods import DEPLOYMENTS, WEBHOOKS
from tests.cluster.keda_release import METRICS_API, NAMESPACE

GROUP = ".keda.sh"
REMOVE_SECONDS = 180.0
READY_SECONDS = 180.0


@dataclass(slots=True)
class Keda:
    """The cluster's KEDA."""

    cluster: Cluster
    _kept: list[Object]

    @classmethod
    async def of(cls, cluster: Cluster) -> "Keda":
        """The one that is there now."""
        return cls(cluster, await asyncio.to_thread(_cluster_wide, cluster))

    async def remove(self) -> None:
        """Take it away; returns when the API server does not know its kinds any more."""
        await asyncio.to_thread(self._remove)

    async def install(self) -> None:
        """Bring it back; returns when its programs run."""
        await asyncio.to_thread(self._install)

    def _remove(self) -> None:
        kubectl = self.cluster.kubectl
        # Kinds first, with the operator there: it has a finalizer on each of their objects.
        kinds = [f"crd/{name}" for name in _names(self._kept, "CustomResourceDefinition")]
        kubectl("delete", *kinds, "--wait", timeout_seconds=REMOVE_SECONDS)
        kubectl("delete", f"apiservice/{METRICS_API}", f"validatingwebhookconfiguration/{WEBHOOKS}")
        deployments = [f"deployment/{name}" for name in DEPLOYMENTS]
        kubectl("scale", *deployments, "--replicas=0", namespace=NAMESPACE)
        kubectl(
            "wait", "--for=delete", "pod", "--all", "--timeout=120s", namespace=NAMESPACE, timeout_seconds=130
        )

    def _install(self) -> None:
        kubectl = self.cluster.kubectl
        kubectl.apply(self._kept, server_side=True)
        deployments = [f"deployment/{name}" for name in DEPLOYMENTS]
        kubectl("scale", *deployments, "--replicas=1", namespace=NAMESPACE)
        kubectl.wait(
            deployments[0],
            "condition=Available",
            *deployments[1:],
            namespace=NAMESPACE,
            timeout_seconds=READY_SECONDS,
        )


def _cluster_wide(cluster: Cluster) -> list[Object]:
    kubectl = cluster.kubectl
    kinds = [entry for entry in kubectl.get("crd")["items"] if entry["metadata"]["name"].endswith(GROUP)]
    others = [
        kubectl.get(f"apiservice/{METRICS_API}"),
        kubectl.get(f"validatingwebhookconfiguration/{WEBHOOKS}"),
    ]
    return [_as_new(entry) for entry in (*kinds, *others)]


def _as_new(entry: Object) -> Object:
    """The object as somebody would apply it."""
    fresh: Object = json.loads(json.dumps(entry))
    fresh.pop("status", None)
    kept = ("name", "labels", "annotations")
    fresh["metadata"] = {key: fresh["metadata"][key] for key in kept if key in fresh["metadata"]}
    return fresh


def _names(objects: list[Object], kind: str) -> list[str]:
    return [entry["metadata"]["name"] for entry in objects if entry["kind"] == kind]
