"""The `endpoint` of an LLMService: how clients call the model, and what they get while it sleeps."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from noctaya.api.bounds import (
    HOSTNAME,
    MODEL_NAME,
    Bool,
    Int32,
    Int64,
    ShortText,
    is_unique,
    not_below_zero,
    not_negative,
    positive,
)
from noctaya.api.durations import Duration
from noctaya.api.quantities import Quantity
from noctaya.api.rules import ApiModel, Rule, implied, nested, written

ColdStartMode = Literal["keepalive", "reject"]
HeartbeatMode = Literal["comment", "chunk", "progress", "off"]


class SecretKeyRef(ApiModel):
    """A key of a Secret in the same namespace."""

    name: Annotated[ShortText, Field(min_length=1)]
    """Name of the Secret."""
    key: Annotated[ShortText, Field(min_length=1)]
    """The key to read."""


class ResourceAmounts(ApiModel):
    """CPU and memory."""

    cpu: Annotated[Quantity, not_below_zero("endpoint.resources: cpu")] | None = None
    """CPU."""
    memory: Annotated[Quantity, not_below_zero("endpoint.resources: memory")] | None = None
    """Memory."""


class EndpointResources(ApiModel):
    """Kept for manifests from before gateways were shared; without effect."""

    requests: ResourceAmounts | None = None
    """What is set aside."""
    limits: ResourceAmounts | None = None
    """What may be used."""


class Authentication(ApiModel):
    """Which clients may call."""

    secret_ref: SecretKeyRef
    """Keys, one a line: KEY or NAME KEY."""


class ColdStart(ApiModel):
    """What a request to a sleeping model gets."""

    mode: ColdStartMode = "keepalive"
    """keepalive holds the request until the model serves; reject answers 503 and wakes the model."""
    heartbeat_interval: Annotated[Duration, positive("endpoint.coldStart.heartbeatInterval")] = written(
        Duration.parse("10s"), "10s"
    )
    """Time between signs of life on a held stream."""
    heartbeat_mode: HeartbeatMode = implied("comment")
    """A sign of life is an SSE comment (comment, the default), an empty completion chunk (chunk), a comment with the
    progress (progress) or nothing ("off", which YAML needs in quotes)."""


class Endpoint(ApiModel):
    """How clients call the model."""

    open_ai_compatible: Annotated[Bool, Field(alias="openAICompatible")] = True
    """Informational."""
    max_queue: Annotated[Int32, Field(ge=1)] = 100
    """Most requests at a time, per gateway process."""
    served_model_name: Annotated[str, Field(min_length=1, max_length=253, pattern=MODEL_NAME)] | None = None
    """The model's name as the engine knows it; requests are passed on with it."""
    aliases: Annotated[
        tuple[Annotated[str, Field(min_length=1, max_length=253, pattern=MODEL_NAME)], ...],
        Field(max_length=16, json_schema_extra={"x-kubernetes-list-type": "set"}),
        Rule(None, "endpoint.aliases must not repeat", is_unique),
    ] = implied(())
    """More values of a request's model field that mean this service, for callers of this namespace."""
    hostnames: Annotated[
        tuple[Annotated[str, Field(min_length=1, max_length=253, pattern=HOSTNAME)], ...],
        Field(max_length=16, json_schema_extra={"x-kubernetes-list-type": "set"}),
        Rule(None, "endpoint.hostnames must not repeat", is_unique),
    ] = implied(())
    """Host names that lead to this service, such as those of an Ingress."""
    max_body_bytes: Annotated[Int64, Field(ge=1)] | None = None
    """Largest request body; the gateway's own limit when absent or smaller."""
    queue_timeout: Annotated[Duration, not_negative("endpoint.queueTimeout")] | None = None
    """Longest time that a request is held while no pod can serve it; `scaling.activationTimeout` when absent, 0s or longer."""
    resources: EndpointResources | None = None
    """Kept for manifests from before gateways were shared; without effect."""
    authentication: Authentication | None = None
    """Which clients may call; all when absent and the administrator allows it."""
    cold_start: ColdStart = nested(ColdStart)
    """What a request to a sleeping model gets."""
