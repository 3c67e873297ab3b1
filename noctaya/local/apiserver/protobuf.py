"""Reading the protobuf bodies that `kubectl create namespace|secret|configmap|deployment|…` sends.

kubectl's typed commands speak protobuf and fall back to nothing else, though they accept JSON answers. This reads just the
messages that those commands make, from a table of field numbers; an unknown field or kind is refused, never dropped.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator
from datetime import UTC, datetime

from noctaya.local.apiserver import status
from noctaya.local.apiserver.status import Json, Object

MEDIA_TYPE = "application/vnd.kubernetes.protobuf"
_MAGIC = b"k8s\x00"

# Message -> field number -> (name, type). Types: string, int, bool, bytes, a message, `[]type`, `map:type`. A `?` marks a
# field that may be unset, so that a zero means zero; any other zero or empty value is left out.
_MESSAGES: dict[str, dict[int, tuple[str, str]]] = {
    "ObjectMeta": {
        1: ("name", "string"), 2: ("generateName", "string"), 3: ("namespace", "string"), 4: ("selfLink", "string"),
        5: ("uid", "string"), 6: ("resourceVersion", "string"), 7: ("generation", "int"), 8: ("creationTimestamp", "Time"),
        9: ("deletionTimestamp", "Time"), 10: ("deletionGracePeriodSeconds", "int?"), 11: ("labels", "map:string"),
        12: ("annotations", "map:string"), 13: ("ownerReferences", "[]OwnerReference"), 14: ("finalizers", "[]string"),
    },
    "OwnerReference": {
        1: ("kind", "string"), 3: ("name", "string"), 4: ("uid", "string"), 5: ("apiVersion", "string"),
        6: ("controller", "bool?"), 7: ("blockOwnerDeletion", "bool?"),
    },
    "Namespace": {1: ("metadata", "ObjectMeta"), 2: ("spec", "Ignored"), 3: ("status", "Ignored")},
    "ConfigMap": {
        1: ("metadata", "ObjectMeta"), 2: ("data", "map:string"), 3: ("binaryData", "map:bytes"), 4: ("immutable", "bool?"),
    },
    "Secret": {
        1: ("metadata", "ObjectMeta"), 2: ("data", "map:bytes"), 3: ("type", "string"), 4: ("stringData", "map:string"),
        5: ("immutable", "bool?"),
    },
    "ServiceAccount": {
        1: ("metadata", "ObjectMeta"), 3: ("imagePullSecrets", "[]LocalObjectReference"),
        4: ("automountServiceAccountToken", "bool?"),
    },
    "LocalObjectReference": {1: ("name", "string")},
    "Service": {1: ("metadata", "ObjectMeta"), 2: ("spec", "ServiceSpec"), 3: ("status", "Ignored")},
    "ServiceSpec": {
        1: ("ports", "[]ServicePort"), 2: ("selector", "map:string"), 3: ("clusterIP", "string"), 4: ("type", "string"),
        5: ("externalIPs", "[]string"), 7: ("sessionAffinity", "string"), 8: ("loadBalancerIP", "string"),
        10: ("externalName", "string"), 11: ("externalTrafficPolicy", "string"), 12: ("healthCheckNodePort", "int"),
        13: ("publishNotReadyAddresses", "bool"), 18: ("clusterIPs", "[]string"),
    },
    "ServicePort": {
        1: ("name", "string"), 2: ("protocol", "string"), 3: ("port", "int"), 4: ("targetPort", "IntOrString"),
        5: ("nodePort", "int"), 6: ("appProtocol", "string"),
    },
    "Deployment": {1: ("metadata", "ObjectMeta"), 2: ("spec", "DeploymentSpec"), 3: ("status", "Ignored")},
    "DeploymentSpec": {
        1: ("replicas", "int?"), 2: ("selector", "LabelSelector"), 3: ("template", "PodTemplateSpec"),
        4: ("strategy", "DeploymentStrategy"), 5: ("minReadySeconds", "int"), 6: ("revisionHistoryLimit", "int?"),
        7: ("paused", "bool"), 9: ("progressDeadlineSeconds", "int?"),
    },
    "DeploymentStrategy": {1: ("type", "string")},
    "LabelSelector": {1: ("matchLabels", "map:string"), 2: ("matchExpressions", "[]LabelSelectorRequirement")},
    "LabelSelectorRequirement": {1: ("key", "string"), 2: ("operator", "string"), 3: ("values", "[]string")},
    "Job": {1: ("metadata", "ObjectMeta"), 2: ("spec", "JobSpec"), 3: ("status", "Ignored")},
    "JobSpec": {
        1: ("parallelism", "int?"), 2: ("completions", "int?"), 3: ("activeDeadlineSeconds", "int?"),
        4: ("selector", "LabelSelector"), 5: ("manualSelector", "bool?"), 6: ("template", "PodTemplateSpec"),
        7: ("backoffLimit", "int?"), 8: ("ttlSecondsAfterFinished", "int?"),
    },
    "PodTemplateSpec": {1: ("metadata", "ObjectMeta"), 2: ("spec", "PodSpec")},
    "PodSpec": {
        2: ("containers", "[]Container"), 3: ("restartPolicy", "string"), 4: ("terminationGracePeriodSeconds", "int?"),
        5: ("activeDeadlineSeconds", "int?"), 6: ("dnsPolicy", "string"), 7: ("nodeSelector", "map:string"),
        8: ("serviceAccountName", "string"), 9: ("serviceAccount", "string"), 10: ("nodeName", "string"),
        11: ("hostNetwork", "bool"), 12: ("hostPID", "bool"), 13: ("hostIPC", "bool"),
        15: ("imagePullSecrets", "[]LocalObjectReference"), 16: ("hostname", "string"), 17: ("subdomain", "string"),
        19: ("schedulerName", "string"), 20: ("initContainers", "[]Container"), 24: ("priorityClassName", "string"),
    },
    "Container": {
        1: ("name", "string"), 2: ("image", "string"), 3: ("command", "[]string"), 4: ("args", "[]string"),
        5: ("workingDir", "string"), 6: ("ports", "[]ContainerPort"), 7: ("env", "[]EnvVar"),
        8: ("resources", "ResourceRequirements"), 13: ("terminationMessagePath", "string"), 14: ("imagePullPolicy", "string"),
        16: ("stdin", "bool"), 17: ("stdinOnce", "bool"), 18: ("tty", "bool"), 20: ("terminationMessagePolicy", "string"),
    },
    "ContainerPort": {
        1: ("name", "string"), 2: ("hostPort", "int"), 3: ("containerPort", "int"), 4: ("protocol", "string"),
        5: ("hostIP", "string"),
    },
    "EnvVar": {1: ("name", "string"), 2: ("value", "string")},
    "ResourceRequirements": {1: ("limits", "map:Quantity"), 2: ("requests", "map:Quantity")},
    "SelfSubjectAccessReview": {
        1: ("metadata", "ObjectMeta"), 2: ("spec", "SelfSubjectAccessReviewSpec"), 3: ("status", "Ignored"),
    },
    "SelfSubjectAccessReviewSpec": {1: ("resourceAttributes", "ResourceAttributes")},
    "ResourceAttributes": {
        1: ("namespace", "string"), 2: ("verb", "string"), 3: ("group", "string"), 4: ("version", "string"),
        5: ("resource", "string"), 6: ("subresource", "string"), 7: ("name", "string"),
    },
    "IntOrString": {1: ("type", "int"), 2: ("intVal", "int"), 3: ("strVal", "string")},
    "Quantity": {1: ("string", "string")},
    "Time": {1: ("seconds", "int"), 2: ("nanos", "int")},
    "Unknown": {1: ("typeMeta", "TypeMeta"), 2: ("raw", "raw"), 3: ("contentEncoding", "string"), 4: ("contentType", "string")},
    "TypeMeta": {1: ("apiVersion", "string"), 2: ("kind", "string")},
}  # fmt: skip
_NEEDS = "send JSON or YAML instead (kubectl apply -f)"


def decoded(raw: bytes) -> Object:
    """The object in a protobuf body; raises 400 for a torn one and 415 for kinds and fields that are not in the table."""
    if not raw.startswith(_MAGIC):
        raise status.bad_request("the body does not start as Kubernetes' protobuf does")
    try:
        envelope = _message("Unknown", raw[len(_MAGIC) :])
        identity = envelope.get("typeMeta") or {}
        kind = identity.get("kind", "")
        if kind not in _MESSAGES:
            raise status.unsupported_media_type(f"JSON and YAML for {kind}; {_NEEDS}")
        return {**identity, **_message(kind, envelope.get("raw") or b"")}
    except (IndexError, UnicodeDecodeError) as problem:
        raise status.bad_request(f"the protobuf body is torn: {problem}") from problem


def _varint(raw: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = raw[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return value, at


def _fields(raw: bytes) -> Iterator[tuple[int, int | bytes]]:
    at = 0
    while at < len(raw):
        tag, at = _varint(raw, at)
        match tag & 7:
            case 0:
                value, at = _varint(raw, at)
                yield tag >> 3, value
            case 2:
                length, at = _varint(raw, at)
                if at + length > len(raw):
                    raise IndexError(f"a field of {length} bytes ends after the body")
                yield tag >> 3, raw[at : at + length]
                at += length
            case wire_type:
                raise status.bad_request(f"the protobuf body has a field of wire type {wire_type}")


def _message(kind: str, raw: bytes) -> Object:
    known = _MESSAGES[kind]
    found: Object = {}
    for number, value in _fields(raw):
        if number not in known:
            raise status.unsupported_media_type(f"JSON and YAML for field {number} of {kind}; {_NEEDS}")
        name, of = known[number]
        if of.startswith("[]"):
            found.setdefault(name, []).append(_value(of[2:], value))
        elif of.startswith("map:"):
            pair = dict(_fields(_as_bytes(value)))
            found.setdefault(name, {})[_as_bytes(pair[1]).decode()] = _value(of[4:], pair.get(2, b""))
        else:
            shown = _value(of.removesuffix("?"), value)
            if of.endswith("?") or shown not in (None, "", 0, False, {}):
                found[name] = shown
    return found


def _as_bytes(value: int | bytes) -> bytes:
    return value if isinstance(value, bytes) else b""


def _value(of: str, value: int | bytes) -> Json:
    if isinstance(value, int):
        if of == "bool":
            return value != 0
        return value - (1 << 64) if value >= 1 << 63 else value
    match of:
        case "raw":
            return value
        case "string":
            return value.decode()
        case "bytes":
            return base64.b64encode(value).decode()
        case "Ignored":
            return None
    below = _message(of, value)
    match of:
        case "Time":
            return _time(below)
        case "Quantity":
            return below.get("string", "0")
        case "IntOrString":
            return below.get("strVal", "") if below.get("type") else below.get("intVal", 0)
    return below


def _time(found: Object) -> str | None:
    if not found.get("seconds"):
        return None
    return datetime.fromtimestamp(found["seconds"], UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
