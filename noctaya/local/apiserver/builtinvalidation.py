"""Validation of the built-in kinds: the mistakes that people make, and the fields that may not change."""

from __future__ import annotations

import re

from noctaya.local.apiserver.kinds import Kind
from noctaya.local.apiserver.objectmeta import LABEL_RULE
from noctaya.local.apiserver.status import Cause, Json, Object, shown
from noctaya.local.apiserver.tablecells import at

_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_ENV_NAME = re.compile(r"[^=\x00]+")
_BASE64 = re.compile(r"(?:[A-Za-z0-9+/\s]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?\s*")
_MICRO_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}(Z|[-+]\d\d:\d\d)")
_IMMUTABLE: dict[str, tuple[tuple[str, ...], ...]] = {
    "apps/deployments": (("spec", "selector"),),
    "apps/replicasets": (("spec", "selector"),),
    "batch/jobs": (("spec", "selector"), ("spec", "template"), ("spec", "completionMode")),
    "storage.k8s.io/storageclasses": (
        ("provisioner",),
        ("parameters",),
        ("reclaimPolicy",),
        ("volumeBindingMode",),
    ),
    "/persistentvolumeclaims": (
        ("spec", "storageClassName"),
        ("spec", "accessModes"),
        ("spec", "volumeMode"),
    ),
    "rbac.authorization.k8s.io/rolebindings": (("roleRef",),),
    "rbac.authorization.k8s.io/clusterrolebindings": (("roleRef",),),
    "/secrets": (("type",),),
}


def _required(field: str) -> Cause:
    return Cause(field, "Required value", "FieldValueRequired")


def undecodable(kind: Kind, new: Object) -> str | None:
    """Why a body is none of this kind: values that the real server's types do not take. Only those that people get wrong."""
    if kind.storage == "/secrets":
        for value in (new.get("data") or {}).values() if isinstance(new.get("data"), dict) else ():
            if isinstance(value, str) and not _BASE64.fullmatch(value):
                return "illegal base64 data"
    if kind.storage == "coordination.k8s.io/leases" and isinstance(new.get("spec"), dict):
        for field in ("acquireTime", "renewTime"):
            value = new["spec"].get(field)
            if value is not None and not _MICRO_TIME.fullmatch(str(value)):
                pattern = "2006-01-02T15:04:05.000000Z07:00"
                return f'parsing time "{value}" as "{pattern}": cannot parse "{value}" as "2006"'
    return None


def problems(kind: Kind, old: Object | None, new: Object) -> list[Cause]:
    """What is wrong with the object, by field."""
    causes = _shape(kind, new)
    if causes:
        return causes
    match kind.storage:
        case "/pods":
            causes = _pod_spec(new.get("spec"), "spec")
        case "apps/deployments" | "apps/replicasets":
            causes = _workload(new)
        case "batch/jobs":
            causes = _job(new)
        case "/services":
            causes = _service(new)
        case "/persistentvolumeclaims":
            causes = _claim(new)
        case "storage.k8s.io/storageclasses":
            causes = [] if new.get("provisioner") else [_required("provisioner")]
        case "autoscaling/horizontalpodautoscalers":
            causes = _autoscaler(new)
        case "/configmaps" | "/secrets":
            causes = _data(new)
        case "coordination.k8s.io/leases":
            causes = _lease(new.get("spec") or {})
        case "/events":
            causes = _event(kind, new)
    return causes + (_changed(kind, old, new) if old is not None else [])


def _shape(kind: Kind, new: Object) -> list[Cause]:
    for field in ("spec", "data", "status"):
        if new.get(field) is not None and not isinstance(new[field], dict):
            return [Cause(field, f"Invalid value: {shown(new[field])}: must be an object")]
    needs_spec = (
        "/pods",
        "apps/deployments",
        "apps/replicasets",
        "batch/jobs",
        "/services",
        "/persistentvolumeclaims",
    )
    if kind.storage in needs_spec and not isinstance(new.get("spec"), dict):
        return [_required("spec")]
    return []


def _changed(kind: Kind, old: Object, new: Object) -> list[Cause]:
    causes = []
    for path in _IMMUTABLE.get(kind.storage, ()):
        before = at(old, *path, default=None)
        if before is not None and before != at(new, *path, default=None):
            causes.append(
                Cause(
                    ".".join(path),
                    f"Invalid value: {shown(at(new, *path, default=None))}: field is immutable",
                )
            )
    is_frozen = kind.storage in ("/configmaps", "/secrets") and old.get("immutable") is True
    if is_frozen and any(old.get(field) != new.get(field) for field in ("data", "binaryData", "immutable")):
        causes.append(
            Cause("data", "Forbidden: field is immutable when `immutable` is set", "FieldValueForbidden")
        )
    return causes


def _workload(new: Object) -> list[Cause]:
    spec = new["spec"]
    causes: list[Cause] = []
    replicas = spec.get("replicas")
    if not isinstance(replicas, int) or isinstance(replicas, bool) or replicas < 0:
        causes.append(
            Cause("spec.replicas", f"Invalid value: {replicas}: must be greater than or equal to 0")
        )
    selector = spec.get("selector")
    template = spec.get("template") if isinstance(spec.get("template"), dict) else {}
    if not isinstance(selector, dict) or not (
        selector.get("matchLabels") or selector.get("matchExpressions")
    ):
        causes.append(_required("spec.selector"))
    else:
        labels = at(template, "metadata", "labels", default={})
        wanted = selector.get("matchLabels") or {}
        if any(labels.get(key) != value for key, value in wanted.items()):
            causes.append(
                Cause(
                    "spec.template.metadata.labels",
                    f"Invalid value: {shown(labels)}: `selector` does not match template `labels`",
                )
            )
    causes.extend(_pod_spec(at(template, "spec", default=None), "spec.template.spec"))
    policy = at(template, "spec", "restartPolicy", default="Always")
    if policy != "Always":
        field = "spec.template.spec.restartPolicy"
        causes.append(
            Cause(
                field, f'Unsupported value: "{policy}": supported values: "Always"', "FieldValueNotSupported"
            )
        )
    return causes


def _job(new: Object) -> list[Cause]:
    template = at(new, "spec", "template", default={})
    causes = _pod_spec(at(template, "spec", default=None), "spec.template.spec")
    policy = at(template, "spec", "restartPolicy")
    if not causes and policy not in ("OnFailure", "Never"):
        text = f'Required value: valid values: "OnFailure", "Never" (got "{policy}")'
        causes.append(Cause("spec.template.spec.restartPolicy", text, "FieldValueRequired"))
    return causes


def _pod_spec(spec: Json, path: str) -> list[Cause]:
    if not isinstance(spec, dict) or not spec.get("containers"):
        return [_required(f"{path}.containers")]
    causes: list[Cause] = []
    volumes = {volume.get("name") for volume in spec.get("volumes") or [] if isinstance(volume, dict)}
    seen: set[str] = set()
    for listed in ("initContainers", "containers"):
        for index, container in enumerate(spec.get(listed) or []):
            where = f"{path}.{listed}[{index}]"
            if not isinstance(container, dict):
                causes.append(Cause(where, "Invalid value: must be an object"))
                continue
            causes.extend(_container(container, where, volumes))
            name = str(container.get("name", ""))
            if name in seen:
                causes.append(Cause(f"{where}.name", f'Duplicate value: "{name}"', "FieldValueDuplicate"))
            seen.add(name)
    return causes


def _container(container: Object, where: str, volumes: set[Json]) -> list[Cause]:
    causes: list[Cause] = []
    name = container.get("name")
    if not name:
        causes.append(_required(f"{where}.name"))
    elif not isinstance(name, str) or _LABEL.fullmatch(name) is None:
        causes.append(Cause(f"{where}.name", f'Invalid value: "{name}": {LABEL_RULE}'))
    if not container.get("image"):
        causes.append(_required(f"{where}.image"))
    for index, variable in enumerate(container.get("env") or []):
        if not isinstance(variable, dict) or not _ENV_NAME.fullmatch(str(variable.get("name") or "")):
            causes.append(_required(f"{where}.env[{index}].name"))
    for index, port in enumerate(container.get("ports") or []):
        number = port.get("containerPort") if isinstance(port, dict) else None
        if not isinstance(number, int) or not 0 < number < 65536:
            text = f"Invalid value: {number}: must be between 1 and 65535, inclusive"
            causes.append(Cause(f"{where}.ports[{index}].containerPort", text))
    for index, mount in enumerate(container.get("volumeMounts") or []):
        mounted = mount.get("name") if isinstance(mount, dict) else None
        if mounted not in volumes:
            field = f"{where}.volumeMounts[{index}].name"
            causes.append(Cause(field, f'Not found: "{mounted}"', "FieldValueNotFound"))
    return causes


def _service(new: Object) -> list[Cause]:
    spec = new["spec"]
    kind = spec.get("type")
    kinds = ("ClusterIP", "ExternalName", "LoadBalancer", "NodePort")
    if kind not in kinds:
        supported = ", ".join(f'"{one}"' for one in kinds)
        return [
            Cause(
                "spec.type",
                f'Unsupported value: "{kind}": supported values: {supported}',
                "FieldValueNotSupported",
            )
        ]
    if kind == "ExternalName":
        return [] if spec.get("externalName") else [_required("spec.externalName")]
    ports = spec.get("ports") or []
    if not ports and spec.get("clusterIP") != "None":
        return [_required("spec.ports")]
    causes: list[Cause] = []
    for index, port in enumerate(ports):
        number = port.get("port") if isinstance(port, dict) else None
        if not isinstance(number, int) or not 0 < number < 65536:
            text = f"Invalid value: {number}: must be between 1 and 65535, inclusive"
            causes.append(Cause(f"spec.ports[{index}].port", text))
        elif len(ports) > 1 and not port.get("name"):
            causes.append(_required(f"spec.ports[{index}].name"))
    return causes


def _claim(new: Object) -> list[Cause]:
    causes = [] if new["spec"].get("accessModes") else [
        Cause("spec.accessModes", "Required value: at least 1 access mode is required", "FieldValueRequired")
    ]  # fmt: skip
    if not at(new, "spec", "resources", "requests", "storage"):
        causes.append(_required("spec.resources[storage]"))
    return causes


def _autoscaler(new: Object) -> list[Cause]:
    target = at(new, "spec", "scaleTargetRef", default={})
    causes = [
        _required(f"spec.scaleTargetRef.{field}") for field in ("kind", "name") if not target.get(field)
    ]
    most = at(new, "spec", "maxReplicas", default=0)
    if not isinstance(most, int) or most < 1:
        causes.append(Cause("spec.maxReplicas", f"Invalid value: {most}: must be greater than 0"))
    return causes


def _data(new: Object) -> list[Cause]:
    causes = []
    for key, value in (new.get("data") or {}).items():
        if not isinstance(value, str):
            causes.append(Cause(f"data[{key}]", f"Invalid value: {shown(value)}: must be a string"))
        elif re.fullmatch(r"[-._a-zA-Z0-9]{1,253}", key) is None:
            text = f"Invalid value: \"{key}\": a valid config key must consist of alphanumeric characters, '-', '_' or '.'"
            causes.append(Cause(f"data[{key}]", text))
    return causes


def _lease(spec: Object) -> list[Cause]:
    causes = []
    duration, transitions = spec.get("leaseDurationSeconds"), spec.get("leaseTransitions")
    if isinstance(duration, int) and duration <= 0:
        causes.append(
            Cause("spec.leaseDurationSeconds", f"Invalid value: {duration}: must be greater than 0")
        )
    if isinstance(transitions, int) and transitions < 0:
        text = f"Invalid value: {transitions}: must be greater than or equal to 0"
        causes.append(Cause("spec.leaseTransitions", text))
    return causes


def _event(kind: Kind, new: Object) -> list[Cause]:
    """Rules of the newer event API, which applies to what comes through it or has a time of its own."""
    if not new.get("eventTime"):
        return [_required("eventTime")] if kind.group else []
    causes = [
        _required(shown_as)
        for field, shown_as in (
            ("reportingComponent", "reportingController"),
            ("reportingInstance", "reportingInstance"),
            ("action", "action"),
            ("reason", "reason"),
        )
        if not new.get(field)
    ]
    if new.get("type") not in ("Normal", "Warning"):
        causes.append(Cause("type", f'Invalid value: "": has invalid value: {new.get("type", "")}'))
    return causes
