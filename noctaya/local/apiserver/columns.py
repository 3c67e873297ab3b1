"""Table columns of the built-in kinds, as kubectl users know them.

Each cell is a small function of the object; wall time comes in as `now`, so a table can be tested.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime

from noctaya.local.apiserver.kinds import Column
from noctaya.local.apiserver.podcolumns import POD as POD
from noctaya.local.apiserver.status import Json, Object
from noctaya.local.apiserver.tablecells import (
    age,
    at,
    creation,
    human_duration,
    joined,
    seconds_since,
    selector_text,
)

Cell = Callable[[Object, float], Json]

NAME = Column("Name", lambda o, _: o["metadata"]["name"], format="name", description="Name of the object")
AGE = Column("Age", lambda o, now: age(creation(o), now), description="Time since creation")


def _path(*keys: str, default: Json = "") -> Cell:
    return lambda o, _: at(o, *keys, default=default)


def _containers(what: str) -> Cell:
    return lambda o, _: joined(
        c.get(what, "") for c in at(o, "spec", "template", "spec", "containers", default=[])
    )


def _workload_selector(o: Object, _: float) -> str:
    return selector_text(at(o, "spec", "selector", default={}))


def _deployment_ready(o: Object, _: float) -> str:
    return f"{at(o, 'status', 'readyReplicas', default=0)}/{at(o, 'spec', 'replicas', default=0)}"


DEPLOYMENT = (
    NAME,
    Column("Ready", _deployment_ready),
    Column("Up-to-date", _path("status", "updatedReplicas", default=0)),
    Column("Available", _path("status", "availableReplicas", default=0)),
    AGE,
    Column("Containers", _containers("name"), priority=1),
    Column("Images", _containers("image"), priority=1),
    Column("Selector", _workload_selector, priority=1),
)
REPLICA_SET = (
    NAME,
    Column("Desired", _path("spec", "replicas", default=0)),
    Column("Current", _path("status", "replicas", default=0)),
    Column("Ready", _path("status", "readyReplicas", default=0)),
    AGE,
    Column("Containers", _containers("name"), priority=1),
    Column("Images", _containers("image"), priority=1),
    Column("Selector", _workload_selector, priority=1),
)


def _service_external(o: Object, _: float) -> str:
    if at(o, "spec", "type") == "ExternalName":
        return str(at(o, "spec", "externalName"))
    return joined(at(o, "spec", "externalIPs", default=[])) or "<none>"


def _service_ports(o: Object, _: float) -> str:
    shown = []
    for port in at(o, "spec", "ports", default=[]):
        node = f":{port['nodePort']}" if port.get("nodePort") else ""
        shown.append(f"{port['port']}{node}/{port.get('protocol', 'TCP')}")
    return joined(shown) or "<none>"


SERVICE = (
    NAME,
    Column("Type", _path("spec", "type")),
    Column("Cluster-IP", lambda o, _: at(o, "spec", "clusterIP") or "<none>"),
    Column("External-IP", _service_external),
    Column("Port(s)", _service_ports),
    AGE,
    Column(
        "Selector",
        lambda o, _: selector_text({"matchLabels": at(o, "spec", "selector", default={})}),
        priority=1,
    ),
)


def _job_status(o: Object, _: float) -> str:
    if o["metadata"].get("deletionTimestamp"):
        return "Terminating"
    true = {c["type"] for c in at(o, "status", "conditions", default=[]) if c.get("status") == "True"}
    named = {
        "Complete": "Complete",
        "Failed": "Failed",
        "Suspended": "Suspended",
        "FailureTarget": "FailureTarget",
    }
    for kind, shown in named.items():
        if kind in true:
            return shown
    return "Running"


def _job_completions(o: Object, _: float) -> str:
    wanted = at(o, "spec", "completions", default=at(o, "spec", "parallelism", default=1))
    return f"{at(o, 'status', 'succeeded', default=0)}/{wanted}"


def _job_duration(o: Object, now: float) -> str:
    start, end = at(o, "status", "startTime"), at(o, "status", "completionTime")
    if not start:
        return ""
    return human_duration(seconds_since(start, now) - (seconds_since(end, now) if end else 0.0))


JOB = (
    NAME,
    Column("Status", _job_status),
    Column("Completions", _job_completions),
    Column("Duration", _job_duration),
    AGE,
    Column("Containers", _containers("name"), priority=1),
    Column("Images", _containers("image"), priority=1),
)


def _event_last_seen(o: Object, now: float) -> str:
    seen = at(o, "series", "lastObservedTime") or o.get("lastTimestamp") or o.get("eventTime") or creation(o)
    return age(seen, now)


def _event_object(o: Object, _: float) -> str:
    involved = o.get("involvedObject") or {}
    return f"{str(involved.get('kind', '')).lower()}/{involved.get('name', '')}"


EVENT = (
    Column("Last Seen", _event_last_seen),
    Column("Type", _path("type")),
    Column("Reason", _path("reason")),
    Column("Object", _event_object),
    Column("Subobject", _path("involvedObject", "fieldPath"), priority=1),
    Column(
        "Source", lambda o, _: at(o, "source", "component") or o.get("reportingComponent", ""), priority=1
    ),
    Column("Message", lambda o, _: str(o.get("message", "")).strip()),
    Column("First Seen", lambda o, now: age(o.get("firstTimestamp") or creation(o), now), priority=1),
    Column(
        "Count",
        lambda o, _: o.get("count") or at(o, "series", "count", default=1),
        priority=1,
    ),
    Column("Name", lambda o, _: o["metadata"]["name"], format="name", priority=1),
)


def _node_status(o: Object, _: float) -> str:
    ready = [c for c in at(o, "status", "conditions", default=[]) if c.get("type") == "Ready"]
    shown = "Ready" if ready and ready[0].get("status") == "True" else "NotReady" if ready else "Unknown"
    return f"{shown},SchedulingDisabled" if at(o, "spec", "unschedulable") else shown


def _node_roles(o: Object, _: float) -> str:
    prefix = "node-role.kubernetes.io/"
    roles = sorted(k.removeprefix(prefix) for k in o["metadata"].get("labels") or {} if k.startswith(prefix))
    return joined(roles) or "<none>"


def _node_address(kind: str) -> Cell:
    def cell(o: Object, _: float) -> str:
        found = [a["address"] for a in at(o, "status", "addresses", default=[]) if a.get("type") == kind]
        return found[0] if found else "<none>"

    return cell


NODE = (
    NAME,
    Column("Status", _node_status),
    Column("Roles", _node_roles),
    AGE,
    Column("Version", _path("status", "nodeInfo", "kubeletVersion")),
    Column("Internal-IP", _node_address("InternalIP"), priority=1),
    Column("External-IP", _node_address("ExternalIP"), priority=1),
    Column("OS-Image", lambda o, _: at(o, "status", "nodeInfo", "osImage") or "<unknown>", priority=1),
)


def _access_modes(modes: list[str]) -> str:
    short = {
        "ReadWriteOnce": "RWO",
        "ReadOnlyMany": "ROX",
        "ReadWriteMany": "RWX",
        "ReadWriteOncePod": "RWOP",
    }
    return joined(short.get(mode, mode) for mode in modes)


def _phase(o: Object, _: float) -> Json:
    return "Terminating" if o["metadata"].get("deletionTimestamp") else at(o, "status", "phase")


PERSISTENT_VOLUME_CLAIM = (
    NAME,
    Column("Status", _phase),
    Column("Volume", _path("spec", "volumeName")),
    Column("Capacity", _path("status", "capacity", "storage")),
    Column("Access Modes", lambda o, _: _access_modes(at(o, "status", "accessModes", default=[]))),
    Column("StorageClass", _path("spec", "storageClassName")),
    Column("VolumeAttributesClass", lambda o, _: at(o, "spec", "volumeAttributesClassName") or "<unset>"),
    AGE,
    Column("VolumeMode", lambda o, _: at(o, "spec", "volumeMode") or "<unset>", priority=1),
)


def _claim(o: Object, _: float) -> str:
    claim = at(o, "spec", "claimRef", default={})
    return f"{claim.get('namespace', '')}/{claim.get('name', '')}" if claim else ""


PERSISTENT_VOLUME = (
    NAME,
    Column("Capacity", _path("spec", "capacity", "storage")),
    Column("Access Modes", lambda o, _: _access_modes(at(o, "spec", "accessModes", default=[]))),
    Column("Reclaim Policy", _path("spec", "persistentVolumeReclaimPolicy")),
    Column("Status", _phase),
    Column("Claim", _claim),
    Column("StorageClass", _path("spec", "storageClassName")),
    AGE,
)
CONFIG_MAP = (
    NAME,
    Column("Data", lambda o, _: len(o.get("data") or {}) + len(o.get("binaryData") or {})),
    AGE,
)
SECRET = (
    NAME,
    Column("Type", _path("type")),
    Column("Data", lambda o, _: len(o.get("data") or {})),
    AGE,
)
NAMESPACE = (NAME, Column("Status", _path("status", "phase")), AGE)
SERVICE_ACCOUNT = (NAME, Column("Secrets", lambda o, _: len(o.get("secrets") or [])), AGE)
LEASE = (NAME, Column("Holder", _path("spec", "holderIdentity")), AGE)


def _slice_endpoints(o: Object, _: float) -> str:
    addresses = [a for e in o.get("endpoints") or [] for a in e.get("addresses") or []]
    shown = joined(addresses[:3])
    return f"{shown} + {len(addresses) - 3} more..." if len(addresses) > 3 else shown or "<unset>"


ENDPOINT_SLICE = (
    NAME,
    Column("AddressType", _path("addressType")),
    Column("Ports", lambda o, _: joined(str(p.get("port", "*")) for p in o.get("ports") or []) or "<unset>"),
    Column("Endpoints", _slice_endpoints),
    AGE,
)


def _hpa_reference(o: Object, _: float) -> str:
    target = at(o, "spec", "scaleTargetRef", default={})
    return f"{target.get('kind', '')}/{target.get('name', '')}"


def _hpa_targets(o: Object, _: float) -> str:
    current = at(o, "status", "currentMetrics", default=None) or []
    shown = []
    for index, metric in enumerate(at(o, "spec", "metrics", default=[])):
        source = metric.get(metric["type"][0].lower() + metric["type"][1:]) or {}
        target = source.get("target") or {}
        wanted = target.get("averageValue") or target.get("value") or target.get("averageUtilization")
        measured: Json = "<unknown>"
        if index < len(current):
            seen = current[index]
            values = (seen.get(seen["type"][0].lower() + seen["type"][1:]) or {}).get("current") or {}
            measured = (
                values.get("averageValue")
                or values.get("value")
                or values.get("averageUtilization", "<unknown>")
            )
        average = " (avg)" if target.get("averageValue") else ""
        shown.append(f"{measured}/{wanted}{average}")
    return ", ".join(shown) or "<none>"


HORIZONTAL_POD_AUTOSCALER = (
    NAME,
    Column("Reference", _hpa_reference),
    Column("Targets", _hpa_targets),
    Column("MinPods", lambda o, _: str(at(o, "spec", "minReplicas", default="<unset>"))),
    Column("MaxPods", _path("spec", "maxReplicas", default=0)),
    Column("Replicas", _path("status", "currentReplicas", default=0)),
    AGE,
)
POD_DISRUPTION_BUDGET = (
    NAME,
    Column("Min Available", lambda o, _: str(at(o, "spec", "minAvailable", default="N/A"))),
    Column("Max Unavailable", lambda o, _: str(at(o, "spec", "maxUnavailable", default="N/A"))),
    Column("Allowed Disruptions", _path("status", "disruptionsAllowed", default=0)),
    AGE,
)
STORAGE_CLASS = (
    NAME,
    Column("Provisioner", _path("provisioner")),
    Column("ReclaimPolicy", _path("reclaimPolicy")),
    Column("VolumeBindingMode", _path("volumeBindingMode")),
    Column("AllowVolumeExpansion", _path("allowVolumeExpansion", default=False)),
    AGE,
)


def _utc(o: Object, _: float) -> str:
    text = str(creation(o))
    return datetime.fromisoformat(text.replace("Z", "+00:00")).astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


CREATED_AT = (NAME, Column("Created At", _utc))
PRIORITY_CLASS = (
    NAME,
    Column("Value", _path("value", default=0)),
    Column("Global-Default", _path("globalDefault", default=False), type="boolean"),
    AGE,
    Column("PreemptionPolicy", _path("preemptionPolicy", default="PreemptLowerPriority")),
)
NETWORK_POLICY = (
    NAME,
    Column("Pod-Selector", lambda o, _: selector_text(at(o, "spec", "podSelector", default={}))),
    AGE,
)
BINDING = (
    NAME,
    Column("Role", lambda o, _: f"{at(o, 'roleRef', 'kind')}/{at(o, 'roleRef', 'name')}"),
    AGE,
)
PLAIN = (NAME, AGE)
