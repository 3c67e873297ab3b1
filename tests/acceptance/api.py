"""The API server as tests read it: plain HTTP, a few milliseconds a look, where a kubectl would take a tenth of a second.

Independent of the product's own client on purpose. Only for a process in the cluster's network (fixture `network`).
How it fails: `Refused` with the status and the API server's own words.
"""

import base64
import json
import ssl
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import httpx2

Object = dict[str, Any]
TIMEOUT_SECONDS = 30.0

FOLDERS: Mapping[str, str] = {
    "configmaps": "/api/v1",
    "endpoints": "/api/v1",
    "endpointslices": "/apis/discovery.k8s.io/v1",
    "events": "/api/v1",
    "namespaces": "/api/v1",
    "nodes": "/api/v1",
    "persistentvolumeclaims": "/api/v1",
    "persistentvolumes": "/api/v1",
    "resourcequotas": "/api/v1",
    "serviceaccounts": "/api/v1",
    "pods": "/api/v1",
    "secrets": "/api/v1",
    "services": "/api/v1",
    "deployments": "/apis/apps/v1",
    "replicasets": "/apis/apps/v1",
    "jobs": "/apis/batch/v1",
    "rolebindings": "/apis/rbac.authorization.k8s.io/v1",
    "leases": "/apis/coordination.k8s.io/v1",
    "horizontalpodautoscalers": "/apis/autoscaling/v2",
    "poddisruptionbudgets": "/apis/policy/v1",
    "networkpolicies": "/apis/networking.k8s.io/v1",
    "scaledobjects": "/apis/keda.sh/v1alpha1",
    "inferenceruntimes": "/apis/serving.noctaya.io/v1alpha1",
    "llmservices": "/apis/serving.noctaya.io/v1alpha1",
}
"""Where a kind's objects are."""
CLUSTER_WIDE = frozenset({"inferenceruntimes", "namespaces", "nodes", "persistentvolumes"})


class Refused(Exception):
    """The API server said no."""

    def __init__(self, method: str, path: str, answer: httpx2.Response) -> None:
        super().__init__(f"{method} {path}: {answer.status_code} {answer.text}")
        self.status = answer.status_code
        self.words = answer.text


class Api:
    """`await api.get("pods", name, namespace)` and its like; kinds are those of `FOLDERS`."""

    def __init__(self, client: httpx2.AsyncClient) -> None:
        self._client = client

    async def find(self, kind: str, name: str, namespace: str = "") -> Object | None:
        """One object, or None when there is none."""
        try:
            return await self.get(kind, name, namespace)
        except Refused as refused:
            if refused.status == 404:
                return None
            raise

    async def get(self, kind: str, name: str, namespace: str = "") -> Object:
        """One object."""
        return await self.request("GET", path_of(kind, name, namespace))

    async def list(self, kind: str, namespace: str = "", *, selector: str = "") -> list[Object]:
        """Objects of one namespace, or of all, by label."""
        found = await self.request(
            "GET", path_of(kind, "", namespace), parameters={"labelSelector": selector}
        )
        items: list[Object] = found["items"]
        return items

    async def patch(
        self, kind: str, name: str, change: Object, namespace: str = "", *, subresource: str = ""
    ) -> Object:
        """A merge patch."""
        return await self.request(
            "PATCH", path_of(kind, name, namespace, subresource), body=change, media="merge-patch"
        )

    async def create(self, kind: str, body: Object, namespace: str = "") -> Object:
        """Create an object."""
        return await self.request("POST", path_of(kind, "", namespace), body=body)

    async def delete(self, kind: str, name: str, namespace: str = "") -> None:
        """Delete an object, without waiting; one that is gone already is fine."""
        try:
            await self.request("DELETE", path_of(kind, name, namespace))
        except Refused as refused:
            if refused.status != 404:
                raise

    async def evict(self, pod: str, namespace: str) -> None:
        """Ask for a pod's eviction, as `kubectl drain` does; `Refused` with 429 when a disruption budget forbids it."""
        body = {
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"name": pod, "namespace": namespace},
        }
        await self.request("POST", path_of("pods", pod, namespace, "eviction"), body=body)

    async def request(
        self,
        method: str,
        path: str,
        *,
        body: Object | None = None,
        media: str = "",
        parameters: Mapping[str, str] | None = None,
    ) -> Object:
        """Any request; `media` is what stands before `+json` in a patch's content type."""
        headers = {"content-type": f"application/{media}+json" if media else "application/json"}
        content = None if body is None else json.dumps(body)
        answer = await self._client.request(
            method, path, content=content, headers=headers, params=dict(parameters or {})
        )
        if answer.is_error:
            raise Refused(method, path, answer)
        found: Object = answer.json()
        return found


def path_of(kind: str, name: str, namespace: str, subresource: str = "") -> str:
    """An object's or a collection's path."""
    where = f"/namespaces/{namespace}" if namespace and kind not in CLUSTER_WIDE else ""
    parts = [f"{FOLDERS[kind]}{where}/{kind}", name, subresource]
    return "/".join(part for part in parts if part)


def open_client(kubeconfig: Path) -> httpx2.AsyncClient:
    """An HTTP client of the API server that a kubeconfig names; the caller closes it."""
    config = json.loads(kubeconfig.read_text())
    cluster, user = config["clusters"][0]["cluster"], config["users"][0]["user"]
    trust = ssl.create_default_context(
        cadata=base64.b64decode(cluster["certificate-authority-data"]).decode()
    )
    with tempfile.NamedTemporaryFile() as identity:  # OpenSSL reads certificates from files only
        identity.write(base64.b64decode(user["client-certificate-data"]))
        identity.write(base64.b64decode(user["client-key-data"]))
        identity.flush()
        trust.load_cert_chain(identity.name)
    return httpx2.AsyncClient(
        base_url=cluster["server"], verify=trust, timeout=TIMEOUT_SECONDS, trust_env=False
    )
