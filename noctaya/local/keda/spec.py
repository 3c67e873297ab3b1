"""A ScaledObject as the stand-in understands it: KEDA's defaults filled in, pause annotations read, mistakes refused.

Pure. `understand` either returns a whole `Scaling` or raises `InvalidScaledObject` with a sentence for the Ready condition.
KEDA refuses some of these at admission (V2 to V5); the embedded cluster has no webhooks, so they are refused here.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from noctaya.kube.objects import parse_time
from noctaya.local.keda.errors import InvalidScaledObject
from noctaya.local.keda.records import Record

PAUSED = "autoscaling.keda.sh/paused"
PAUSED_REPLICAS = "autoscaling.keda.sh/paused-replicas"
PAUSED_SCALE_IN = "autoscaling.keda.sh/paused-scale-in"
PAUSED_SCALE_OUT = "autoscaling.keda.sh/paused-scale-out"
FORCE_ACTIVATION = "autoscaling.keda.sh/force-activation"
ANNOTATIONS = (PAUSED, PAUSED_REPLICAS, PAUSED_SCALE_IN, PAUSED_SCALE_OUT, FORCE_ACTIVATION)
"""A change of any of these brings a reconcile, though the generation stays."""

TRIGGER_TYPE = "external-push"
LONGEST_NAME = 63
DEFAULT_MAX_REPLICAS = 100


@dataclass(frozen=True, slots=True)
class Trigger:
    """One entry of `spec.triggers`; `metadata` is sent to the scaler as it stands (C5)."""

    index: int
    name: str
    address: str
    metadata: Mapping[str, str]
    metric_type: str = "AverageValue"
    uses_cached_metrics: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Scaling:
    """Everything that the loops need to know of one ScaledObject at one generation."""

    namespace: str
    name: str
    target: str
    """Name of the Deployment."""
    hpa_name: str
    triggers: tuple[Trigger, ...]
    minimum: int = 0
    maximum: int = DEFAULT_MAX_REPLICAS
    idle: int | None = None
    polling_seconds: float = 30.0
    cooldown_seconds: float = 300.0
    initial_cooldown_seconds: float = 0.0
    restores_original: bool = False
    behavior: Mapping[str, Any] | None = None

    @property
    def hpa_minimum(self) -> int:
        """An HPA never goes to zero: that step is KEDA's own."""
        return max(1, self.minimum)


@dataclass(frozen=True, slots=True)
class Pause:
    """What the annotations ask for. They are read apart from the spec: a broken spec can still be paused."""

    is_paused: bool = False
    replicas: int | None = None
    blocks_scale_in: bool = False
    blocks_scale_out: bool = False
    forces_activation: bool = False


def pause_of(record: Record) -> Pause:
    """Raises InvalidScaledObject when `paused-replicas` is not a whole number of zero or more."""
    annotations = record.metadata.annotations
    replicas: int | None = None
    if PAUSED_REPLICAS in annotations:
        text = annotations[PAUSED_REPLICAS]
        if not text.isdecimal():
            raise InvalidScaledObject(
                f"annotation {PAUSED_REPLICAS} is {text!r}; it must be a whole number, 0 or more"
            )
        replicas = int(text)
    return Pause(
        is_paused=replicas is not None or _is_set(annotations, PAUSED),
        replicas=replicas,
        blocks_scale_in=_is_set(annotations, PAUSED_SCALE_IN),
        blocks_scale_out=_is_set(annotations, PAUSED_SCALE_OUT),
        forces_activation=_is_set(annotations, FORCE_ACTIVATION),
    )


def _is_set(annotations: Mapping[str, str], key: str) -> bool:
    # KEDA takes a value that is not a boolean for true, so "no" pauses.
    return key in annotations and annotations[key].lower() not in ("false", "f", "0")


def created_at(record: Record) -> float:
    """Wall-clock seconds of the ScaledObject's creation."""
    text = record.metadata.creation_timestamp
    return parse_time(text).timestamp() if text else 0.0


def last_active_at(record: Record) -> float | None:
    """Wall-clock seconds of `status.lastActiveTime`, if there is one.

    Raises InvalidScaledObject for something else: taken for "never", it would send a busy target to zero.
    """
    text = record.status.get("lastActiveTime")
    if not text:
        return None
    try:
        return parse_time(text).timestamp()
    except ValueError as error:
        raise InvalidScaledObject(
            f"status.lastActiveTime is {text!r}, which is no time; remove it"
        ) from error


def understand(record: Record) -> Scaling:
    """Read `record.spec`.

    Raises:
        InvalidScaledObject: the spec breaks a rule of KEDA, or asks for something that the stand-in leaves out.
    """
    spec = record.spec
    advanced = spec.get("advanced") or {}
    _refuse_what_is_left_out(spec, advanced)
    hpa_config = advanced.get("horizontalPodAutoscalerConfig") or {}
    scaling = Scaling(
        namespace=record.namespace,
        name=record.name,
        target=(spec.get("scaleTargetRef") or {}).get("name", ""),
        hpa_name=hpa_config.get("name") or f"keda-hpa-{record.name}",
        triggers=_triggers(spec.get("triggers") or []),
        minimum=spec.get("minReplicaCount") or 0,
        maximum=spec.get("maxReplicaCount") or DEFAULT_MAX_REPLICAS,
        idle=spec.get("idleReplicaCount"),
        polling_seconds=_or(spec.get("pollingInterval"), 30),
        cooldown_seconds=_or(spec.get("cooldownPeriod"), 300),
        initial_cooldown_seconds=_or(spec.get("initialCooldownPeriod"), 0),
        restores_original=bool(advanced.get("restoreToOriginalReplicaCount")),
        behavior=hpa_config.get("behavior"),
    )
    _check(scaling)
    return scaling


def _or(value: float | None, default: float) -> float:
    return float(default if value is None else value)


def _refuse_what_is_left_out(spec: Mapping[str, Any], advanced: Mapping[str, Any]) -> None:
    target = spec.get("scaleTargetRef") or {}
    kind = target.get("kind") or "Deployment"
    if kind != "Deployment" or (target.get("apiVersion") or "apps/v1") != "apps/v1":
        raise InvalidScaledObject(
            f"scaleTargetRef.kind {kind} is not supported by this stand-in; use a Deployment"
        )
    if spec.get("fallback"):
        raise InvalidScaledObject("fallback is not supported by this stand-in; remove it or use a real KEDA")
    if (advanced.get("scalingModifiers") or {}).get("formula"):
        raise InvalidScaledObject(
            "scalingModifiers are not supported by this stand-in; remove them or use a real KEDA"
        )


def _triggers(entries: list[Mapping[str, Any]]) -> tuple[Trigger, ...]:
    if not entries:
        raise InvalidScaledObject("spec.triggers is empty; at least one trigger is needed")
    triggers = tuple(_trigger(index, entry) for index, entry in enumerate(entries))
    names = [trigger.name for trigger in triggers if trigger.name]
    for name in names:
        if names.count(name) > 1:
            raise InvalidScaledObject(f"two triggers are named {name!r}; trigger names must be unique")
    return triggers


def _trigger(index: int, entry: Mapping[str, Any]) -> Trigger:
    where = f"spec.triggers[{index}]"
    type_ = entry.get("type", "")
    if type_ != TRIGGER_TYPE:
        raise InvalidScaledObject(
            f"{where}.type {type_!r} is not supported by this stand-in; it knows {TRIGGER_TYPE} only"
        )
    metadata: dict[str, str] = dict(entry.get("metadata") or {})
    if entry.get("authenticationRef") or metadata.get("enableTLS", "").lower() == "true":
        raise InvalidScaledObject(
            f"{where}: TLS (authenticationRef, enableTLS) is not supported by this stand-in; use the plain port"
        )
    from_env = next((key for key in metadata if key.endswith("FromEnv")), None)
    if from_env:
        raise InvalidScaledObject(
            f"{where}.metadata.{from_env}: values from the environment are not supported here"
        )
    address = metadata.get("scalerAddress", "")
    if not address:
        raise InvalidScaledObject(f"{where}.metadata.scalerAddress is missing; say host:port of the scaler")
    metric_type = entry.get("metricType") or "AverageValue"
    if metric_type not in ("AverageValue", "Value"):
        raise InvalidScaledObject(
            f"{where}.metricType {metric_type!r} is not allowed; choose AverageValue or Value"
        )
    return Trigger(
        index, entry.get("name") or "", address, metadata, metric_type, bool(entry.get("useCachedMetrics"))
    )


def _check(scaling: Scaling) -> None:
    if not scaling.target:
        raise InvalidScaledObject("scaleTargetRef.name is missing; name the Deployment to scale")
    if len(scaling.name) > LONGEST_NAME or len(scaling.hpa_name) > LONGEST_NAME:
        raise InvalidScaledObject(
            f"the HPA's name {scaling.hpa_name!r} is longer than {LONGEST_NAME} characters; choose a shorter name"
        )
    if scaling.minimum > scaling.maximum:
        raise InvalidScaledObject(
            f"minReplicaCount {scaling.minimum} is above maxReplicaCount {scaling.maximum}; lower one or raise the other"
        )
    if scaling.idle is not None and scaling.idle >= scaling.minimum:
        raise InvalidScaledObject(
            f"idleReplicaCount {scaling.idle} is not below minReplicaCount {scaling.minimum}; lower one or raise the other"
        )
