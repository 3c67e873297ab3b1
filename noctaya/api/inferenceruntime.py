"""InferenceRuntime: how an engine is started on one kind of hardware; many LLMServices share one.

The classes below are the source of the CRD (`noctaya crds`); a field's docstring is what `kubectl explain` prints.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from noctaya.api.bounds import Bool, Int32, Int64, LabelValue, LongText, ShortText, Text, is_unique
from noctaya.api.core import EnvVar, Probe, Toleration
from noctaya.api.llmservice import Vendor
from noctaya.api.names import MAX_RUNTIME_NAME
from noctaya.api.resource import ConditionsOnly, Resource
from noctaya.api.rules import ApiModel, Rule, implied, nested

Family = Literal["vllm", "llamacpp", "sglang", "tgi"]
HTTPPath = Annotated[str, Field(min_length=1, max_length=1024, pattern="^/")]


class ContainerPort(ApiModel):
    """The port that the engine listens on."""

    name: Annotated[str, Field(max_length=15, pattern="^[a-z0-9]([-a-z0-9]*[a-z0-9])?$")] = "http"
    """Name of the port."""
    container_port: Annotated[
        int, Field(strict=True, ge=1, le=65535, json_schema_extra={"format": "int32"})
    ] = 8000
    """Number of the port."""


class Container(ApiModel):
    """The engine's container."""

    image: Annotated[Text, Field(min_length=1)]
    """Image of the engine."""
    args: Annotated[tuple[LongText, ...], Field(max_length=256)] = implied(())
    """Arguments; may hold {{ .Model.Path }}, {{ .Service.Name }} and {{ .Service.Namespace }}."""
    env: Annotated[tuple[EnvVar, ...], Field(max_length=256)] = implied(())
    """Environment variables; literal values may hold the same template fields."""
    port: ContainerPort = nested(ContainerPort)
    """The port that the engine listens on."""


class Sharing(ApiModel):
    """Reserved: sharing one accelerator. Not implemented."""

    supported: Bool | None = None
    """Whether the device plugin can share."""


class Scheduler(ApiModel):
    """A scheduler other than the cluster's default."""

    rules = (
        Rule(
            "!has(self.queue) || self.queue == '' || (has(self.name) && self.name == 'volcano')",
            "accelerator.scheduler.queue needs accelerator.scheduler.name volcano",
            lambda scheduler: not scheduler.queue or scheduler.name == "volcano",
        ),
    )

    name: ShortText | None = None
    """The pods' schedulerName."""
    queue: ShortText | None = None
    """Queue of the Volcano scheduler."""


class Accelerator(ApiModel):
    """The hardware, and how pods get to it."""

    resource_name: Annotated[str, Field(min_length=1, max_length=317)] | None = None
    """Extended resource of the device plugin, such as nvidia.com/gpu; required unless the vendor is cpu."""
    sharing: Sharing | None = None
    """Reserved: sharing one accelerator. Not implemented."""
    node_selector: Annotated[dict[str, LabelValue], Field(max_length=64)] = implied({})
    """Labels of the nodes that pods may run on."""
    tolerations: Annotated[tuple[Toleration, ...], Field(max_length=64)] = implied(())
    """Taints that pods tolerate."""
    scheduler: Scheduler | None = None
    """A scheduler other than the cluster's default."""


class Health(ApiModel):
    """How one sees that the engine can serve."""

    path: HTTPPath | None = None
    """Path that gateways and default probes ask; the readiness probe's path when absent, else /health."""
    readiness: Probe | None = None
    """Readiness probe; GET of the path on the engine's port when absent."""
    liveness: Probe | None = None
    """Liveness probe; none when absent."""
    startup: Probe | None = None
    """Startup probe; GET of the path every 10 s, 60 times, when absent."""


class HTTP(ApiModel):
    """How gateways talk to the engine."""

    paths: Annotated[
        tuple[HTTPPath, ...],
        Field(max_length=64, json_schema_extra={"x-kubernetes-list-type": "set"}),
        Rule(None, "http.paths must not repeat", is_unique),
    ] = implied(())
    """Paths whose POST is inference, and so wakes a sleeping model; a trailing * stands for any rest. /v1/* when empty."""
    keep_alive: Bool = implied(True)
    """Whether connections to the engine are used again."""


class Lifecycle(ApiModel):
    """How replicas end."""

    termination_grace_period_seconds: Annotated[Int64, Field(ge=1)] | None = None
    """Seconds that a pod gets to end."""
    pre_stop_drain: Bool = implied(False)
    """Whether a replica finishes its requests, for up to the service's drainTimeout, before it is told to stop."""


MetricName = Annotated[ShortText, Field(min_length=1)]


class Metrics(ApiModel):
    """Where the engine publishes metrics, and what it calls them."""

    path: HTTPPath = "/metrics"
    """Path of the metrics."""
    port: ShortText = "http"
    """Name of the port."""
    queue_depth: MetricName
    """Requests that wait."""
    kv_cache_util: ShortText | None = None
    """Share of the KV cache in use."""
    running: ShortText | None = None
    """Requests that run."""
    ttft: ShortText | None = None
    """Histogram of the time to the first token."""


class InferenceRuntimeSpec(ApiModel):
    """How an engine is started on one kind of hardware."""

    rules = (
        Rule(
            "self.vendor == 'cpu' || (has(self.accelerator) && has(self.accelerator.resourceName))",
            "accelerator.resourceName is required unless vendor is cpu",
            lambda spec: (
                spec.vendor == "cpu"
                or (spec.accelerator is not None and spec.accelerator.resource_name is not None)
            ),
        ),
    )

    family: Family = "vllm"
    """Which engine it is."""
    vendor: Vendor
    """Which hardware it runs on."""
    priority: Int32 = 0
    """Among runtimes of one vendor that a selector matches, the highest is taken."""
    container: Container
    """The engine's container."""
    accelerator: Accelerator | None = None
    """The hardware, and how pods get to it; required unless the vendor is cpu."""
    health: Health | None = None
    """How one sees that the engine can serve."""
    http: HTTP | None = None
    """How gateways talk to the engine."""
    lifecycle: Lifecycle | None = None
    """How replicas end."""
    metrics: Metrics | None = None
    """Where the engine publishes metrics, and what it calls them."""


class InferenceRuntimeStatus(ConditionsOnly):
    """What is known about the runtime."""


class InferenceRuntime(Resource):
    """How an engine is started on one kind of hardware; many LLMServices share one."""

    kind = "InferenceRuntime"
    rules = (
        Rule(
            f"size(self.metadata.name) <= {MAX_RUNTIME_NAME}",
            f"metadata.name must be no longer than {MAX_RUNTIME_NAME} characters: it is the value of a label",
            lambda runtime: len(runtime.metadata.name) <= MAX_RUNTIME_NAME,
        ),
    )

    spec: InferenceRuntimeSpec
