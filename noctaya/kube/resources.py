"""The kinds that Noctaya reads and writes, and the URL paths under which an API server serves them.

A `Resource` is only a name: it carries no client and no state. Paths are built here and nowhere else, so that a wrong
scope (a namespace for a cluster-wide kind, or none for a namespaced object) is refused before a byte is sent.
"""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import quote


@dataclass(frozen=True, slots=True)
class Resource:
    """One kind as the API serves it: `Resource("apps", "v1", "deployments", "Deployment", namespaced=True)`."""

    group: str
    version: str
    plural: str
    kind: str
    namespaced: bool

    @property
    def api_version(self) -> str:
        """`v1` for the core group, `group/version` otherwise."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def full_name(self) -> str:
        """`deployments.apps`, as RBAC rules and `kubectl` write it; the bare plural for the core group."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    def path(
        self, namespace: str | None = None, name: str | None = None, subresource: str | None = None
    ) -> str:
        """The URL path of a collection (no name), an object, or an object's subresource.

        Raises ValueError when a namespace is given for a cluster-wide kind, when a namespaced object is named without
        its namespace, or when a part is empty.
        """
        if namespace is not None and not self.namespaced:
            raise ValueError(f"{self.full_name} is cluster-wide: it takes no namespace (got {namespace!r})")
        if name is not None and self.namespaced and namespace is None:
            raise ValueError(f"{self.full_name} is namespaced: {name!r} needs a namespace")
        if subresource is not None and name is None:
            raise ValueError(f"subresource {subresource!r} of {self.full_name} needs a name")
        if "" in (namespace, name, subresource):
            raise ValueError(f"{self.full_name}: namespace, name and subresource are None or not empty")
        prefix = f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"
        parts = [prefix]
        if namespace is not None:
            parts.append(f"namespaces/{quote(namespace, safe='')}")
        parts.append(self.plural)
        if name is not None:
            parts.append(quote(name, safe=":"))
        if subresource is not None:
            parts.append(subresource)
        return "/".join(parts)

    def describe(
        self, namespace: str | None = None, name: str | None = None, subresource: str | None = None
    ) -> str:
        """What a person calls it, for messages: `deployments.apps/scale models/llama`."""
        what = f"{self.full_name}/{subresource}" if subresource else self.full_name
        where = "/".join(part for part in (namespace, name) if part)
        return f"{what} {where}" if where else what


LLMSERVICES = Resource("serving.noctaya.io", "v1alpha1", "llmservices", "LLMService", namespaced=True)
INFERENCERUNTIMES = Resource(
    "serving.noctaya.io", "v1alpha1", "inferenceruntimes", "InferenceRuntime", namespaced=False
)

PODS = Resource("", "v1", "pods", "Pod", namespaced=True)
SERVICES = Resource("", "v1", "services", "Service", namespaced=True)
SECRETS = Resource("", "v1", "secrets", "Secret", namespaced=True)
CONFIGMAPS = Resource("", "v1", "configmaps", "ConfigMap", namespaced=True)
EVENTS = Resource("", "v1", "events", "Event", namespaced=True)
PVCS = Resource("", "v1", "persistentvolumeclaims", "PersistentVolumeClaim", namespaced=True)
PVS = Resource("", "v1", "persistentvolumes", "PersistentVolume", namespaced=False)
NAMESPACES = Resource("", "v1", "namespaces", "Namespace", namespaced=False)
NODES = Resource("", "v1", "nodes", "Node", namespaced=False)

DEPLOYMENTS = Resource("apps", "v1", "deployments", "Deployment", namespaced=True)
REPLICASETS = Resource("apps", "v1", "replicasets", "ReplicaSet", namespaced=True)
JOBS = Resource("batch", "v1", "jobs", "Job", namespaced=True)
LEASES = Resource("coordination.k8s.io", "v1", "leases", "Lease", namespaced=True)
ENDPOINTSLICES = Resource("discovery.k8s.io", "v1", "endpointslices", "EndpointSlice", namespaced=True)
HPAS = Resource("autoscaling", "v2", "horizontalpodautoscalers", "HorizontalPodAutoscaler", namespaced=True)
PDBS = Resource("policy", "v1", "poddisruptionbudgets", "PodDisruptionBudget", namespaced=True)
STORAGECLASSES = Resource("storage.k8s.io", "v1", "storageclasses", "StorageClass", namespaced=False)
CRDS = Resource(
    "apiextensions.k8s.io", "v1", "customresourcedefinitions", "CustomResourceDefinition", namespaced=False
)
SELFSUBJECTACCESSREVIEWS = Resource(
    "authorization.k8s.io", "v1", "selfsubjectaccessreviews", "SelfSubjectAccessReview", namespaced=False
)
"""Not stored: creating one asks whether we may do something, and the answer is the created object."""
SCALEDOBJECTS = Resource("keda.sh", "v1alpha1", "scaledobjects", "ScaledObject", namespaced=True)

ALL = (
    LLMSERVICES,
    INFERENCERUNTIMES,
    PODS,
    SERVICES,
    SECRETS,
    CONFIGMAPS,
    EVENTS,
    PVCS,
    PVS,
    NAMESPACES,
    NODES,
    DEPLOYMENTS,
    REPLICASETS,
    JOBS,
    LEASES,
    ENDPOINTSLICES,
    HPAS,
    PDBS,
    STORAGECLASSES,
    CRDS,
    SCALEDOBJECTS,
)
"""Every kind above, for tables (RBAC checks, tests)."""
