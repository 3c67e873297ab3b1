"""The HorizontalPodAutoscaler that KEDA makes of a ScaledObject, and how it is read back (keda.md, sections 4.1 and 5). Pure."""

from collections.abc import Mapping, Sequence
from typing import Any

from noctaya.kube.resources import HPAS, SCALEDOBJECTS
from noctaya.local.keda.errors import EditedHpa, InvalidScaledObject
from noctaya.local.keda.hpa import Bounds
from noctaya.local.keda.ports import MetricSpec
from noctaya.local.keda.records import Key, Record
from noctaya.local.keda.spec import Pause, Scaling, Trigger
from noctaya.local.keda.triggers import metric_name
from noctaya.local.keda.values import parse_quantity, quantity

NAME_LABEL = "scaledobject.keda.sh/name"
EXCLUDED_LABELS = "scaledobject.keda.sh/hpa-excluded-labels"
VERSION = "2.20.2"
"""The KEDA that is stood in for."""

Offered = Sequence[tuple[Trigger, MetricSpec]]
"""Every metric that the triggers offer, in order."""


def manifest(record: Record, scaling: Scaling, pause: Pause, offered: Offered) -> dict[str, Any]:
    """The whole object to create or to replace with.

    Raises:
        InvalidScaledObject: two metrics have one name, or a target is not above zero.
    """
    excluded = {label.strip() for label in record.metadata.annotations.get(EXCLUDED_LABELS, "").split(",")}
    labels = {name: value for name, value in record.metadata.labels.items() if name not in excluded}
    spec: dict[str, Any] = {
        "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": scaling.target},
        "minReplicas": scaling.hpa_minimum,
        "maxReplicas": scaling.maximum,
        "metrics": _metrics(record.name, offered),
    }
    behavior = _behavior(scaling.behavior, pause)
    if behavior:
        spec["behavior"] = behavior
    return {
        "apiVersion": HPAS.api_version,
        "kind": HPAS.kind,
        "metadata": {
            "name": scaling.hpa_name,
            "namespace": record.namespace,
            "labels": {
                **labels,
                "app.kubernetes.io/managed-by": "keda-operator",
                "app.kubernetes.io/name": scaling.hpa_name,
                "app.kubernetes.io/part-of": record.name,
                "app.kubernetes.io/version": VERSION,
                NAME_LABEL: record.name,
            },
            "annotations": dict(record.metadata.annotations),
            "ownerReferences": [
                {
                    "apiVersion": SCALEDOBJECTS.api_version,
                    "kind": SCALEDOBJECTS.kind,
                    "name": record.name,
                    "uid": record.uid,
                    "controller": True,
                    "blockOwnerDeletion": True,
                }
            ],
        },
        "spec": spec,
    }


def _metrics(name: str, offered: Offered) -> list[dict[str, Any]]:
    metrics: dict[str, dict[str, Any]] = {}
    for trigger, spec in offered:
        full = metric_name(trigger, spec.name)
        if full in metrics:
            raise InvalidScaledObject(f"two triggers offer the metric {full}; metric names must be unique")
        if spec.target <= 0:
            raise InvalidScaledObject(
                f"the target of metric {full} is not above zero; correct the scaler's GetMetricSpec"
            )
        field = "value" if trigger.metric_type == "Value" else "averageValue"
        metrics[full] = {
            "type": "External",
            "external": {
                "metric": {"name": full, "selector": {"matchLabels": {NAME_LABEL: name}}},
                "target": {"type": trigger.metric_type, field: quantity(spec.target)},
            },
        }
    return list(metrics.values())


def _behavior(given: Mapping[str, Any] | None, pause: Pause) -> dict[str, Any]:
    behavior = {direction: dict(rules) for direction, rules in (given or {}).items() if rules is not None}
    if pause.blocks_scale_in:
        behavior.setdefault("scaleDown", {})["selectPolicy"] = "Disabled"
    if pause.blocks_scale_out:
        behavior.setdefault("scaleUp", {})["selectPolicy"] = "Disabled"
    return behavior


def is_same(record: Record, wanted: Mapping[str, Any]) -> bool:
    """Whether an existing HPA already says everything that `wanted` says; what the API server defaulted does not count."""
    metadata = wanted["metadata"]
    return (
        record.metadata.labels == metadata["labels"]
        and record.metadata.annotations == metadata["annotations"]
        and _contains(record.spec, wanted["spec"])
        and ("behavior" in record.spec) == ("behavior" in wanted["spec"])
    )


def _contains(found: Any, wanted: Any) -> bool:
    if isinstance(wanted, Mapping):
        return isinstance(found, Mapping) and all(
            name in found and _contains(found[name], value) for name, value in wanted.items()
        )
    if isinstance(wanted, list):
        return (
            isinstance(found, list)
            and len(found) == len(wanted)
            and all(_contains(one, other) for one, other in zip(found, wanted, strict=True))
        )
    return bool(found == wanted)


def owner(record: Record) -> Key | None:
    """The ScaledObject that an HPA belongs to, or None for one that is not KEDA's."""
    controller = record.metadata.controller()
    if controller is None or controller.kind != SCALEDOBJECTS.kind:
        return None
    return (record.namespace, controller.name)


def target_name(record: Record) -> str:
    """The Deployment that an HPA scales."""
    name: str = (record.spec.get("scaleTargetRef") or {}).get("name", "")
    if not name:
        raise EditedHpa(f"HPA {record.namespace}/{record.name} names no target")
    return name


def bounds(record: Record) -> Bounds:
    """The limits in an HPA's spec."""
    spec = record.spec
    return Bounds(spec.get("minReplicas") or 1, spec.get("maxReplicas") or 1, spec.get("behavior"))


def metric_targets(record: Record) -> list[tuple[str, str, int]]:
    """Name, kind (`AverageValue` or `Value`) and target in thousandths of each external metric.

    Raises EditedHpa when somebody wrote something that KEDA would not; it is about to be put back.
    """
    found = []
    for entry in record.spec.get("metrics") or []:
        try:
            external = entry["external"]
            target = external["target"]
            kind = target["type"]
            amount = parse_quantity(target["value" if kind == "Value" else "averageValue"])
            name = external["metric"]["name"]
        except (KeyError, TypeError, ValueError) as error:
            raise EditedHpa(
                f"HPA {record.namespace}/{record.name} has a metric that is not KEDA's: {entry}"
            ) from error
        if amount <= 0:
            raise EditedHpa(
                f"HPA {record.namespace}/{record.name} has a target that is not above zero: {entry}"
            )
        found.append((name, kind, amount))
    return found
