"""The types of Kubernetes' core API that stand inside Noctaya's objects.

Field for field what `core/v1` has, with bounds that CEL's cost estimate needs and the few checks that would otherwise only
fail later, when a child object is applied. They go into children with `as_json()`.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from noctaya.api.bounds import Bool, Int32, Int64, IntOrString, LongText, ShortText, Text
from noctaya.api.quantities import Quantity
from noctaya.api.rules import ApiModel, Rule, implied

_ATOMIC = {"x-kubernetes-map-type": "atomic"}

Seconds = Annotated[Int32, Field(ge=0)]
Count = Annotated[Int32, Field(ge=0)]


class LocalObjectReference(ApiModel):
    """An object in the same namespace."""

    schema_extra = _ATOMIC

    name: ShortText = ""
    """Name of the object."""


class KeySelector(ApiModel):
    """A key of a Secret or ConfigMap in the same namespace."""

    schema_extra = _ATOMIC

    name: ShortText = ""
    """Name of the object."""
    key: ShortText
    """The key to read."""
    optional: Bool | None = None
    """Whether the object or its key may be missing."""


class FieldSelector(ApiModel):
    """A field of the pod itself."""

    schema_extra = _ATOMIC

    api_version: ShortText | None = None
    """Version of the schema that the path is written in; v1 by default."""
    field_path: Text
    """Path of the field, such as metadata.namespace."""


class FileKeySelector(ApiModel):
    """A key of an environment file in a volume of the pod."""

    schema_extra = _ATOMIC

    volume_name: ShortText
    """Name of the volume that holds the file."""
    path: Text
    """Path of the file inside the volume."""
    key: ShortText
    """The key to read."""
    optional: Bool = False
    """Whether the file or its key may be missing."""


class ResourceFieldSelector(ApiModel):
    """A resource limit or request of a container."""

    schema_extra = _ATOMIC

    container_name: ShortText | None = None
    """Name of the container; its own by default."""
    resource: ShortText
    """The resource, such as limits.memory."""
    divisor: Quantity | None = None
    """Unit of the value; 1 by default."""


class EnvVarSource(ApiModel):
    """Where the value of an environment variable comes from."""

    config_map_key_ref: KeySelector | None = None
    """A key of a ConfigMap."""
    field_ref: FieldSelector | None = None
    """A field of the pod."""
    file_key_ref: FileKeySelector | None = None
    """A key of an environment file."""
    resource_field_ref: ResourceFieldSelector | None = None
    """A resource of a container."""
    secret_key_ref: KeySelector | None = None
    """A key of a Secret."""


class EnvVar(ApiModel):
    """An environment variable."""

    name: Annotated[ShortText, Field(min_length=1)]
    """Name of the variable."""
    value: LongText | None = None
    """Its value; may hold template fields, as arguments do."""
    value_from: EnvVarSource | None = None
    """Where its value comes from instead."""

    rules = (
        Rule(
            "!has(self.valueFrom) || !has(self.value) || self.value == ''",
            "env: value and valueFrom cannot be set together",
            lambda env: env.value_from is None or not env.value,
        ),
    )


class HTTPHeader(ApiModel):
    """A header of a probe's request."""

    name: Text
    """Name of the header."""
    value: LongText
    """Value of the header."""


class ExecAction(ApiModel):
    """A command run in the container; healthy when it ends with 0."""

    command: Annotated[tuple[LongText, ...], Field(max_length=64)] = implied(())
    """Program and arguments; no shell is involved."""


class HTTPGetAction(ApiModel):
    """An HTTP GET; healthy when its status is from 200 to 399."""

    host: ShortText | None = None
    """Host to connect to; the pod's address by default."""
    http_headers: Annotated[tuple[HTTPHeader, ...], Field(max_length=64)] = implied(())
    """Headers of the request."""
    path: Text | None = None
    """Path of the request."""
    port: IntOrString
    """Number or name of the port."""
    scheme: Literal["HTTP", "HTTPS"] | None = None
    """HTTP by default."""


class TCPSocketAction(ApiModel):
    """A TCP connection; healthy when it can be opened."""

    host: ShortText | None = None
    """Host to connect to; the pod's address by default."""
    port: IntOrString
    """Number or name of the port."""


class GRPCAction(ApiModel):
    """A call of the gRPC health service."""

    port: Annotated[Int32, Field(ge=1)]
    """Number of the port."""
    service: ShortText = ""
    """Service to ask about."""


def _handlers(probe: Probe) -> int:
    return sum(handler is not None for handler in (probe.exec_, probe.http_get, probe.tcp_socket, probe.grpc))


class Probe(ApiModel):
    """A check that the kubelet repeats."""

    rules = (
        Rule(
            "[has(self.exec), has(self.httpGet), has(self.tcpSocket), has(self.grpc)].filter(set, set).size() == 1",
            "a probe must set exactly one of exec, httpGet, tcpSocket and grpc",
            lambda probe: _handlers(probe) == 1,
        ),
    )

    exec_: Annotated[ExecAction | None, Field(alias="exec")] = None
    """A command run in the container."""
    http_get: HTTPGetAction | None = None
    """An HTTP GET."""
    tcp_socket: TCPSocketAction | None = None
    """A TCP connection."""
    grpc: GRPCAction | None = None
    """A call of the gRPC health service."""
    initial_delay_seconds: Seconds | None = None
    """Seconds from the container's start to the first check."""
    period_seconds: Seconds | None = None
    """Seconds between checks; 10 by default."""
    timeout_seconds: Seconds | None = None
    """Seconds until a check counts as failed; 1 by default."""
    success_threshold: Count | None = None
    """Successes in a row that make it healthy; 1 by default."""
    failure_threshold: Count | None = None
    """Failures in a row that make it unhealthy; 3 by default."""
    termination_grace_period_seconds: Annotated[Int64, Field(ge=1)] | None = None
    """Seconds that the container gets to end when this probe fails."""


class Toleration(ApiModel):
    """Lets pods onto nodes with a matching taint."""

    key: Annotated[str, Field(max_length=317)] | None = None
    """Key of the taint; empty with operator Exists matches all."""
    operator: Literal["Exists", "Equal", "Lt", "Gt"] | None = None
    """How the value is compared; Equal by default."""
    value: ShortText | None = None
    """Value of the taint."""
    effect: Literal["NoSchedule", "PreferNoSchedule", "NoExecute"] | None = None
    """Effect of the taint; all when empty."""
    toleration_seconds: Int64 | None = None
    """Seconds that a NoExecute taint is tolerated; for ever when empty."""
