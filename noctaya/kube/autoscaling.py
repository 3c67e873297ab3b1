"""KEDA's ScaledObject and the HorizontalPodAutoscaler that it makes: what they were told and what they say back."""

from __future__ import annotations

from msgspec import field

from noctaya.kube.metadata import Condition, Object, Slim


class ScaleTarget(Slim, frozen=True):
    api_version: str = ""
    kind: str = ""
    name: str = ""


class Trigger(Slim, frozen=True):
    type: str = ""
    metadata: dict[str, str] = field(default_factory=dict)


class ScaledObjectSpec(Slim, frozen=True):
    scale_target_ref: ScaleTarget = ScaleTarget()
    min_replica_count: int | None = None
    max_replica_count: int | None = None
    polling_interval: int | None = None
    cooldown_period: int | None = None
    triggers: list[Trigger] = field(default_factory=list)


class ScaledObjectStatus(Slim, frozen=True):
    hpa_name: str = ""
    original_replica_count: int | None = None
    paused_replica_count: int | None = None
    last_active_time: str | None = None
    external_metric_names: list[str] = field(default_factory=list)
    conditions: list[Condition] = field(default_factory=list)


class ScaledObject(Object, frozen=True):
    spec: ScaledObjectSpec = ScaledObjectSpec()
    status: ScaledObjectStatus = ScaledObjectStatus()


class CrossVersionReference(Slim, frozen=True):
    api_version: str = ""
    kind: str = ""
    name: str = ""


class HorizontalPodAutoscalerSpec(Slim, frozen=True):
    scale_target_ref: CrossVersionReference = CrossVersionReference()
    min_replicas: int | None = None
    max_replicas: int = 0


class HorizontalPodAutoscalerStatus(Slim, frozen=True):
    observed_generation: int = 0
    current_replicas: int = 0
    desired_replicas: int = 0
    last_scale_time: str | None = None
    conditions: list[Condition] = field(default_factory=list)


class HorizontalPodAutoscaler(Object, frozen=True):
    spec: HorizontalPodAutoscalerSpec = HorizontalPodAutoscalerSpec()
    status: HorizontalPodAutoscalerStatus = HorizontalPodAutoscalerStatus()
