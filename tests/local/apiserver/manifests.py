"""Objects that the tests put into a cluster."""

from __future__ import annotations

import copy
from typing import Any

Object = dict[str, Any]

_WIDGET_SCHEMA: Object = {
    "type": "object",
    "required": ["spec"],
    "properties": {
        "spec": {
            "type": "object",
            "required": ["size"],
            "x-kubernetes-validations": [
                {"rule": "self.scaling.min <= self.scaling.max", "message": "min must not pass max"},
                {"rule": "duration(self.timeout) > duration('0s')", "message": "timeout must be positive", "fieldPath": ".timeout"},
            ],
            "properties": {
                "size": {"type": "integer", "minimum": 1, "maximum": 100, "format": "int32"},
                "color": {"type": "string", "enum": ["red", "green"], "default": "red"},
                "timeout": {"type": "string", "default": "5m"},
                "memory": {"x-kubernetes-int-or-string": True, "pattern": "^[0-9]+[GM]i$"},
                "owner": {
                    "type": "string",
                    "x-kubernetes-validations": [{"rule": "self == oldSelf", "message": "owner is immutable"}],
                },
                "note": {"type": "string", "nullable": True},
                "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
                "replicas": {"type": "integer", "default": 1},
                "scaling": {
                    "type": "object",
                    "default": {},
                    "properties": {
                        "min": {"type": "integer", "minimum": 0, "default": 0},
                        "max": {"type": "integer", "minimum": 1, "default": 1},
                    },
                },
                "ports": {
                    "type": "array",
                    "x-kubernetes-list-type": "map",
                    "x-kubernetes-list-map-keys": ["name"],
                    "items": {
                        "type": "object",
                        "required": ["name"],
                        "properties": {"name": {"type": "string"}, "port": {"type": "integer", "default": 80}},
                    },
                },
                "tags": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}},
            },
        },
        "status": {
            "type": "object",
            "properties": {
                "phase": {"type": "string"},
                "replicas": {"type": "integer"},
                "conditions": {
                    "type": "array",
                    "x-kubernetes-list-type": "map",
                    "x-kubernetes-list-map-keys": ["type"],
                    "items": {
                        "type": "object",
                        "required": ["type", "status"],
                        "properties": {"type": {"type": "string"}, "status": {"type": "string"}},
                    },
                },
            },
        },
    },
}  # fmt: skip

WIDGETS: Object = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "widgets.example.test"},
    "spec": {
        "group": "example.test",
        "scope": "Namespaced",
        "names": {"kind": "Widget", "plural": "widgets", "singular": "widget", "shortNames": ["wg"]},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "subresources": {
                    "status": {},
                    "scale": {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"},
                },
                "additionalPrinterColumns": [
                    {"name": "Phase", "type": "string", "jsonPath": ".status.phase"},
                    {"name": "Size", "type": "integer", "jsonPath": ".spec.size", "priority": 1},
                    {
                        "name": "Ready",
                        "type": "string",
                        "jsonPath": '.status.conditions[?(@.type=="Ready")].status',
                    },
                    {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
                ],
                "schema": {"openAPIV3Schema": _WIDGET_SCHEMA},
            }
        ],
    },
}


def widgets_definition() -> Object:
    """A definition of the kind Widget, with defaults, CEL rules, a keyed list and a set."""
    return copy.deepcopy(WIDGETS)


def widget(name: str = "w", **spec: Any) -> Object:
    """A Widget; size 1 unless said otherwise."""
    return {
        "apiVersion": "example.test/v1",
        "kind": "Widget",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"size": 1, **spec},
    }


def config_map(name: str = "c", **data: str) -> Object:
    """A ConfigMap in the default namespace."""
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": "default"},
        "data": data,
    }


def deployment(name: str = "d", image: str = "app:1", replicas: int | None = None) -> Object:
    """A Deployment of one container; without replicas unless given."""
    spec: Object = {
        "selector": {"matchLabels": {"app": name}},
        "template": {
            "metadata": {"labels": {"app": name}},
            "spec": {"containers": [{"name": "main", "image": image, "env": [{"name": "A", "value": "1"}]}]},
        },
    }
    if replicas is not None:
        spec["replicas"] = replicas
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "namespace": "default"},
        "spec": spec,
    }


def pod(name: str = "p", node: str = "") -> Object:
    """A Pod of one container, bound to a node if one is named."""
    spec: Object = {"containers": [{"name": "main", "image": "app:1"}]}
    if node:
        spec["nodeName"] = node
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default"},
        "spec": spec,
    }
