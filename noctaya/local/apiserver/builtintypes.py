"""Merge types of the built-in kinds, as Kubernetes declares them in its API types; only where they differ from the deduced."""

from __future__ import annotations

from noctaya.local.apiserver.kinds import Kind
from noctaya.local.apiserver.mergetypes import ATOMIC, DEDUCED, SET, MergeType, keyed, patched_by, structure

METADATA = structure(finalizers=SET, ownerReferences=keyed("uid", of=ATOMIC))

_ENV = keyed(
    "name",
    of=structure(
        valueFrom=structure(
            configMapKeyRef=ATOMIC, secretKeyRef=ATOMIC, fieldRef=ATOMIC, resourceFieldRef=ATOMIC
        )
    ),
)
_CONTAINER = structure(
    env=_ENV,
    ports=keyed("containerPort", "protocol", protocol="TCP"),
    volumeMounts=keyed("mountPath"),
    volumeDevices=keyed("devicePath"),
    resources=structure(claims=keyed("name")),
)
_VOLUME = structure(
    configMap=structure(items=MergeType()),
    persistentVolumeClaim=DEDUCED,
    downwardAPI=structure(items=MergeType(items=structure(fieldRef=ATOMIC, resourceFieldRef=ATOMIC))),
)
_POD_SPEC = structure(
    containers=keyed("name", of=_CONTAINER),
    initContainers=keyed("name", of=_CONTAINER),
    ephemeralContainers=keyed("name", of=_CONTAINER),
    volumes=keyed("name", of=_VOLUME),
    imagePullSecrets=keyed("name", of=ATOMIC),
    hostAliases=keyed("ip"),
    topologySpreadConstraints=keyed(
        "topologyKey", "whenUnsatisfiable", of=structure(labelSelector=ATOMIC), patch_key="topologyKey"
    ),
    resourceClaims=keyed("name"),
    schedulingGates=keyed("name"),
    nodeSelector=ATOMIC,
    affinity=structure(nodeAffinity=structure(requiredDuringSchedulingIgnoredDuringExecution=ATOMIC)),
)
_POD_TEMPLATE = structure(metadata=METADATA, spec=_POD_SPEC)
_CONDITIONS = keyed("type")
_CONDITIONS_STATUS = structure(conditions=_CONDITIONS)
_WORKLOAD_SPEC = structure(selector=ATOMIC, template=_POD_TEMPLATE)

_BY_STORAGE: dict[str, MergeType] = {
    "/pods": structure(
        spec=_POD_SPEC,
        status=structure(
            conditions=_CONDITIONS,
            podIPs=keyed("ip"),
            hostIPs=patched_by("ip"),
            resourceClaimStatuses=keyed("name"),
        ),
    ),
    "/services": structure(
        spec=structure(ports=keyed("port", "protocol", protocol="TCP"), selector=ATOMIC, clientIP=DEDUCED),
        status=_CONDITIONS_STATUS,
    ),
    "/namespaces": structure(status=_CONDITIONS_STATUS),
    "/nodes": structure(
        spec=structure(podCIDRs=SET),
        status=structure(conditions=_CONDITIONS, addresses=patched_by("type")),
    ),
    "/persistentvolumeclaims": structure(
        spec=structure(selector=ATOMIC, dataSource=ATOMIC), status=_CONDITIONS_STATUS
    ),
    "/persistentvolumes": structure(spec=structure(claimRef=DEDUCED)),
    "/secrets": DEDUCED,
    "/serviceaccounts": structure(secrets=keyed("name"), imagePullSecrets=MergeType()),
    "/events": structure(involvedObject=ATOMIC, related=ATOMIC),
    "apps/deployments": structure(spec=_WORKLOAD_SPEC, status=_CONDITIONS_STATUS),
    "apps/replicasets": structure(spec=_WORKLOAD_SPEC, status=_CONDITIONS_STATUS),
    "batch/jobs": structure(
        spec=_WORKLOAD_SPEC,
        status=structure(
            conditions=patched_by("type"), uncountedTerminatedPods=structure(failed=SET, succeeded=SET)
        ),
    ),
    "autoscaling/horizontalpodautoscalers": structure(
        spec=structure(scaleTargetRef=ATOMIC), status=_CONDITIONS_STATUS
    ),
    "policy/poddisruptionbudgets": structure(spec=structure(selector=ATOMIC), status=_CONDITIONS_STATUS),
    "discovery.k8s.io/endpointslices": structure(endpoints=MergeType(items=ATOMIC)),
    "networking.k8s.io/networkpolicies": structure(spec=structure(podSelector=ATOMIC)),
    "rbac.authorization.k8s.io/rolebindings": structure(roleRef=ATOMIC),
    "rbac.authorization.k8s.io/clusterrolebindings": structure(roleRef=ATOMIC),
    "apiextensions.k8s.io/customresourcedefinitions": structure(status=_CONDITIONS_STATUS),
}
_TYPES = {
    storage: MergeType(fields={"metadata": METADATA, **described.fields})
    for storage, described in _BY_STORAGE.items()
}
_PLAIN = structure(metadata=METADATA)


def merge_type(kind: Kind) -> MergeType:
    """How objects of a kind merge."""
    if kind.merge_type is not None:
        return kind.merge_type
    return _TYPES.get(kind.storage, _PLAIN)
