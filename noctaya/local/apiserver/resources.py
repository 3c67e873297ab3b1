"""The built-in kinds that this server serves.

Only what the product and an operator with kubectl need. RBAC, network policies and the like are stored, not enforced.
"""

from __future__ import annotations

from noctaya.local.apiserver import columns as c
from noctaya.local.apiserver import eventconversion
from noctaya.local.apiserver.kinds import ALL_VERBS, Column, Kind, ScalePaths

ALL = ("all",)


def _core(kind: str, plural: str, columns: tuple[Column, ...], *short: str, **more: object) -> Kind:
    return Kind("", "v1", kind, plural, short_names=short, columns=columns, **more)  # type: ignore[arg-type]


def _named(
    group: str, kind: str, plural: str, columns: tuple[Column, ...], *short: str, **more: object
) -> Kind:
    version = str(more.pop("version", "v1"))
    return Kind(group, version, kind, plural, short_names=short, columns=columns, **more)  # type: ignore[arg-type]


RBAC = "rbac.authorization.k8s.io"
REVIEWS = "authorization.k8s.io/selfsubjectaccessreviews"
"""Answered, never stored: everybody who has the token may do everything."""

BUILTIN_KINDS: tuple[Kind, ...] = (
    _core("Namespace", "namespaces", c.NAMESPACE, "ns", namespaced=False, has_status=True,
          subresources=("finalize",), has_generation=False,
          verbs=tuple(verb for verb in ALL_VERBS if verb != "deletecollection")),
    _core("Node", "nodes", c.NODE, "no", namespaced=False, has_status=True, has_generation=False),
    _core("Pod", "pods", c.POD, "po", categories=ALL, has_status=True, subresources=("log", "eviction", "binding")),
    _core("Service", "services", c.SERVICE, "svc", categories=ALL, has_status=True, has_generation=False),
    _core("ConfigMap", "configmaps", c.CONFIG_MAP, "cm", has_generation=False),
    _core("Secret", "secrets", c.SECRET, has_generation=False),
    _core("ServiceAccount", "serviceaccounts", c.SERVICE_ACCOUNT, "sa", has_generation=False),
    _core("PersistentVolumeClaim", "persistentvolumeclaims", c.PERSISTENT_VOLUME_CLAIM, "pvc", has_status=True,
          has_generation=False),
    _core("PersistentVolume", "persistentvolumes", c.PERSISTENT_VOLUME, "pv", namespaced=False, has_status=True,
          has_generation=False),
    _core("Event", "events", c.EVENT, "ev", has_generation=False),
    _named("apps", "Deployment", "deployments", c.DEPLOYMENT, "deploy", categories=ALL, has_status=True,
           scale=ScalePaths()),
    _named("apps", "ReplicaSet", "replicasets", c.REPLICA_SET, "rs", categories=ALL, has_status=True,
           scale=ScalePaths()),
    _named("batch", "Job", "jobs", c.JOB, categories=ALL, has_status=True),
    _named("coordination.k8s.io", "Lease", "leases", c.LEASE, has_generation=False),
    _named("discovery.k8s.io", "EndpointSlice", "endpointslices", c.ENDPOINT_SLICE),
    _named("autoscaling", "HorizontalPodAutoscaler", "horizontalpodautoscalers", c.HORIZONTAL_POD_AUTOSCALER, "hpa",
           version="v2", categories=ALL, has_status=True, has_generation=False),
    _named("policy", "PodDisruptionBudget", "poddisruptionbudgets", c.POD_DISRUPTION_BUDGET, "pdb", has_status=True),
    _named("storage.k8s.io", "StorageClass", "storageclasses", c.STORAGE_CLASS, "sc", namespaced=False,
           has_generation=False),
    _named("events.k8s.io", "Event", "events", c.EVENT, "ev", storage="/events", has_generation=False,
           decode=eventconversion.to_core, encode=eventconversion.from_core),
    _named("apiextensions.k8s.io", "CustomResourceDefinition", "customresourcedefinitions", c.CREATED_AT, "crd", "crds",
           namespaced=False, has_status=True, categories=("api-extensions",)),
    _named(RBAC, "Role", "roles", c.CREATED_AT, has_generation=False),
    _named(RBAC, "RoleBinding", "rolebindings", c.BINDING, has_generation=False),
    _named(RBAC, "ClusterRole", "clusterroles", c.CREATED_AT, namespaced=False, has_generation=False),
    _named(RBAC, "ClusterRoleBinding", "clusterrolebindings", c.BINDING, namespaced=False, has_generation=False),
    _named("scheduling.k8s.io", "PriorityClass", "priorityclasses", c.PRIORITY_CLASS, "pc", namespaced=False),
    _named("authorization.k8s.io", "SelfSubjectAccessReview", "selfsubjectaccessreviews", (), namespaced=False,
           storage=REVIEWS, verbs=("create",)),
    _named("networking.k8s.io", "NetworkPolicy", "networkpolicies", c.NETWORK_POLICY, "netpol"),
)  # fmt: skip
