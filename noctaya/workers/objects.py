"""The slim structs of the kinds that only workers look at: LLMService, InferenceRuntime, and what KEDA's HPA scales on.

An LLMService keeps its spec undecoded (`msgspec.Raw`): ten thousand parsed specs would cost hundreds of megabytes, and
only the services of our own shards are ever rendered (`specs.py` parses those, once a generation). What indexes need is
read from the raw bytes by `references`, a partial decode. Times stay strings, as in `noctaya.kube.objects`.
"""

from __future__ import annotations

from functools import lru_cache

import msgspec
from msgspec import field

from noctaya.api.names import shard_of
from noctaya.kube.objects import (
    Condition,
    HorizontalPodAutoscaler,
    HorizontalPodAutoscalerSpec,
    Object,
    Slim,
)

EMPTY = msgspec.Raw(b"{}")


class LLMServiceStatus(Slim, frozen=True):
    """Fields as in the CRD; `phase` is empty until the first reconcile."""

    phase: str = ""
    resolved_runtime: str = ""
    replicas: int = 0
    endpoint_url: str = field(default="", name="endpointURL")
    conditions: list[Condition] = field(default_factory=list)
    shard_epoch: int = 0
    last_activation: str | None = None
    resolved_revision: str = ""


class LLMService(Object, frozen=True):
    spec: msgspec.Raw = EMPTY
    status: LLMServiceStatus = LLMServiceStatus()

    def __post_init__(self) -> None:
        # A Raw is a view: without a copy one small service would keep its whole list response in memory.
        msgspec.structs.force_setattr(self, "spec", self.spec.copy())

    @property
    def key(self) -> str:
        """`namespace/name`: how a service is called in queues, logs, shards and on the control link."""
        return service_key(self.namespace, self.name)


class InferenceRuntimeSpec(Slim, frozen=True):
    family: str = ""
    vendor: str = ""
    priority: int = 0


class InferenceRuntime(Object, frozen=True):
    """Enough to choose one (`runtimes.py`); the rest of the spec is parsed by `specs.py` once it is chosen."""

    spec: msgspec.Raw = EMPTY

    def __post_init__(self) -> None:
        msgspec.structs.force_setattr(self, "spec", self.spec.copy())

    def choice(self) -> InferenceRuntimeSpec:
        """The fields by which runtimes are told apart. An undecodable spec matches nothing."""
        try:
            return msgspec.json.decode(self.spec, type=InferenceRuntimeSpec)
        except msgspec.MsgspecError:
            return InferenceRuntimeSpec()


class HPAMetricIdentifier(Slim, frozen=True):
    name: str = ""


class HPAExternalMetric(Slim, frozen=True):
    metric: HPAMetricIdentifier = HPAMetricIdentifier()


class HPAMetric(Slim, frozen=True):
    type: str = ""
    external: HPAExternalMetric | None = None


class ScaledHPASpec(HorizontalPodAutoscalerSpec, frozen=True):
    metrics: list[HPAMetric] = field(default_factory=list)


class ScaledHPA(HorizontalPodAutoscaler, frozen=True):
    """KEDA's HPA with its metrics: one that scales on CPU was built while our scaler could not be asked."""

    spec: ScaledHPASpec = ScaledHPASpec()


class _Name(Slim, frozen=True):
    name: str = ""


class _Selector(Slim, frozen=True):
    vendor: list[str] = field(default_factory=list)


class _Runtime(Slim, frozen=True):
    name: str = ""
    selector: _Selector | None = None


class _Source(Slim, frozen=True):
    secret_ref: _Name | None = None


class _Model(Slim, frozen=True):
    source: _Source | None = None


class _Authentication(Slim, frozen=True):
    secret_ref: _Name | None = None


class _Endpoint(Slim, frozen=True):
    authentication: _Authentication | None = None


class _Tls(Slim, frozen=True):
    server_secret_name: str = ""


class _ExternalScaler(Slim, frozen=True):
    tls: _Tls | None = None


class _Scaling(Slim, frozen=True):
    external_scaler: _ExternalScaler | None = None


class _References(Slim, frozen=True):
    runtime: _Runtime = _Runtime()
    model: _Model = _Model()
    endpoint: _Endpoint = _Endpoint()
    scaling: _Scaling = _Scaling()


class References(msgspec.Struct, frozen=True):
    """What a service's spec points at, by name; secrets are in the service's own namespace."""

    runtime: str = ""
    vendors: tuple[str, ...] = ()
    secrets: tuple[str, ...] = ()
    client_keys: str = ""
    """Name of the Secret with the callers' keys; empty when the endpoint asks for none."""


NO_REFERENCES = References()


@lru_cache(maxsize=256)
def _decode(spec: bytes) -> References:
    try:
        found = msgspec.json.decode(spec, type=_References)
    except msgspec.MsgspecError:
        return NO_REFERENCES
    authentication, source, scaler = (
        found.endpoint.authentication,
        found.model.source,
        found.scaling.external_scaler,
    )
    keys = authentication.secret_ref.name if authentication and authentication.secret_ref else ""
    names = {
        keys,
        source.secret_ref.name if source and source.secret_ref else "",
        scaler.tls.server_secret_name if scaler and scaler.tls else "",
    }
    return References(
        runtime=found.runtime.name,
        vendors=tuple(found.runtime.selector.vendor) if found.runtime.selector else (),
        secrets=tuple(sorted(names - {""})),
        client_keys=keys,
    )


def references(service: LLMService) -> References:
    """What `service` refers to. A spec of the wrong shape refers to nothing: reconcile will name what is wrong with it."""
    return _decode(bytes(service.spec))


def service_key(namespace: str, name: str) -> str:
    """`namespace/name`."""
    return f"{namespace}/{name}"


def split_key(key: str) -> tuple[str, str]:
    """The inverse of `service_key`."""
    namespace, _, name = key.partition("/")
    return namespace, name


def shard_of_key(key: str) -> int:
    """The shard that the service of `key` lives in."""
    return shard_of(*split_key(key))
