"""The ScaledObject CustomResourceDefinition of `keda.sh/v1alpha1`, as far as the stand-in serves it.

Written anew: the fields that KEDA 2.20 knows and that something here reads, its bounds, its printer columns. What the stand-in
refuses (fallback, other triggers) is in the schema all the same, so that a manifest made for a real KEDA is stored and then
refused with a condition that says why.
"""

from typing import Any

from noctaya.kube.resources import SCALEDOBJECTS

INT32: dict[str, Any] = {"type": "integer", "format": "int32"}
ANYTHING: dict[str, Any] = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
STRING: dict[str, Any] = {"type": "string"}
STRINGS: dict[str, Any] = {"type": "array", "items": STRING}
BOOLEAN: dict[str, Any] = {"type": "boolean"}


def crds() -> list[dict[str, Any]]:
    """Every CRD that the stand-in needs; apply them before it starts."""
    return [_scaledobjects()]


def _scaledobjects() -> dict[str, Any]:
    resource = SCALEDOBJECTS
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {
            "name": resource.full_name,
            "labels": {"app.kubernetes.io/part-of": "keda-operator", "app.kubernetes.io/version": "2.20.2"},
        },
        "spec": {
            "group": resource.group,
            "scope": "Namespaced",
            "names": {
                "kind": resource.kind,
                "listKind": "ScaledObjectList",
                "plural": resource.plural,
                "singular": "scaledobject",
                "shortNames": ["so"],
            },
            "versions": [
                {
                    "name": resource.version,
                    "served": True,
                    "storage": True,
                    "additionalPrinterColumns": _columns(),
                    "subresources": {"status": {}},
                    "schema": {
                        "openAPIV3Schema": {
                            "type": "object",
                            "description": "ScaledObject scales a workload by what its triggers say.",
                            "required": ["spec"],
                            "properties": {
                                "apiVersion": STRING,
                                "kind": STRING,
                                "metadata": {"type": "object"},
                                "spec": _spec(),
                                "status": _status(),
                            },
                        }
                    },
                }
            ],
        },
    }


def _columns() -> list[dict[str, str]]:
    def condition(name: str) -> dict[str, str]:
        return {"name": name, "type": "string", "jsonPath": f'.status.conditions[?(@.type=="{name}")].status'}

    return [
        {"name": "ScaleTargetKind", "type": "string", "jsonPath": ".status.scaleTargetKind"},
        {"name": "ScaleTargetName", "type": "string", "jsonPath": ".spec.scaleTargetRef.name"},
        {"name": "Min", "type": "integer", "jsonPath": ".spec.minReplicaCount"},
        {"name": "Max", "type": "integer", "jsonPath": ".spec.maxReplicaCount"},
        condition("Ready"),
        condition("Active"),
        condition("Fallback"),
        condition("Paused"),
        {"name": "Triggers", "type": "string", "jsonPath": ".status.triggersTypes"},
        {"name": "Authentications", "type": "string", "jsonPath": ".status.authenticationsTypes"},
        {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
    ]


def _spec() -> dict[str, Any]:
    return {
        "type": "object",
        "required": ["scaleTargetRef", "triggers"],
        "properties": {
            "scaleTargetRef": {
                "type": "object",
                "required": ["name"],
                "properties": {
                    "apiVersion": STRING,
                    "kind": STRING,
                    "name": STRING,
                    "envSourceContainerName": STRING,
                },
            },
            "pollingInterval": {**INT32, "minimum": 1},
            "cooldownPeriod": {**INT32, "minimum": 0},
            "initialCooldownPeriod": {**INT32, "minimum": 0},
            "idleReplicaCount": {**INT32, "minimum": 0},
            "minReplicaCount": {**INT32, "minimum": 0},
            "maxReplicaCount": {**INT32, "minimum": 1},
            "fallback": ANYTHING,
            "advanced": {
                "type": "object",
                "properties": {
                    "restoreToOriginalReplicaCount": BOOLEAN,
                    "scalingModifiers": ANYTHING,
                    "horizontalPodAutoscalerConfig": {
                        "type": "object",
                        "properties": {
                            "name": STRING,
                            "behavior": {
                                "type": "object",
                                "properties": {"scaleUp": _scaling_rules(), "scaleDown": _scaling_rules()},
                            },
                        },
                    },
                },
            },
            "triggers": {
                "type": "array",
                "minItems": 1,
                "items": {
                    "type": "object",
                    "required": ["type", "metadata"],
                    "properties": {
                        "type": STRING,
                        "name": STRING,
                        "metadata": {"type": "object", "additionalProperties": STRING},
                        "metricType": STRING,
                        "useCachedMetrics": BOOLEAN,
                        "authenticationRef": {
                            "type": "object",
                            "required": ["name"],
                            "properties": {"name": STRING, "kind": STRING},
                        },
                    },
                },
            },
        },
        "x-kubernetes-validations": [
            {
                "rule": "!has(self.idleReplicaCount) || (has(self.minReplicaCount) && "
                "self.idleReplicaCount < self.minReplicaCount)",
                "message": "idleReplicaCount must be less than minReplicaCount",
            },
            {
                "rule": "!has(self.minReplicaCount) || "
                "self.minReplicaCount <= (has(self.maxReplicaCount) ? self.maxReplicaCount : 100)",
                "message": "minReplicaCount must not exceed maxReplicaCount",
            },
        ],
    }


def _scaling_rules() -> dict[str, Any]:
    return {
        "type": "object",
        "properties": {
            "stabilizationWindowSeconds": {**INT32, "minimum": 0, "maximum": 3600},
            "selectPolicy": STRING,
            "tolerance": {
                "anyOf": [{"type": "integer"}, {"type": "string"}],
                "x-kubernetes-int-or-string": True,
            },
            "policies": {
                "type": "array",
                "x-kubernetes-list-type": "atomic",
                "items": {
                    "type": "object",
                    "required": ["type", "value", "periodSeconds"],
                    "properties": {"type": STRING, "value": INT32, "periodSeconds": INT32},
                },
            },
        },
    }


def _status() -> dict[str, Any]:
    return {
        "type": "object",
        "properties": {
            "conditions": {
                "type": "array",
                "items": {
                    "type": "object",
                    "required": ["type", "status"],
                    "properties": {"type": STRING, "status": STRING, "reason": STRING, "message": STRING},
                },
            },
            "hpaName": STRING,
            "scaleTargetKind": STRING,
            "scaleTargetGVKR": {
                "type": "object",
                "properties": {"group": STRING, "version": STRING, "kind": STRING, "resource": STRING},
            },
            "originalReplicaCount": INT32,
            "pausedReplicaCount": INT32,
            "lastActiveTime": {"type": "string", "format": "date-time"},
            "externalMetricNames": STRINGS,
            "resourceMetricNames": STRINGS,
            "compositeScalerName": STRING,
            "triggersTypes": STRING,
            "authenticationsTypes": STRING,
            "health": ANYTHING,
            "triggersActivity": {
                "type": "object",
                "additionalProperties": {"type": "object", "properties": {"isActive": BOOLEAN}},
            },
        },
    }
