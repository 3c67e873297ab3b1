"""LLMService: one model that clients can call, and that sleeps while nobody does.

The classes below are the source of the CRD (`noctaya crds`); a field's docstring is what `kubectl explain` prints. Fields
beyond those of earlier releases are optional, and what is absent behaves as it did before they existed.
"""

from __future__ import annotations

import re
from typing import Annotated, Final, Literal

from pydantic import Field

from noctaya.api.bounds import (
    HOSTNAME,
    Bool,
    Int32,
    Int64,
    LongText,
    ShortText,
    Text,
    Timestamp,
    not_below_zero,
    not_negative,
    positive,
)
from noctaya.api.core import LocalObjectReference
from noctaya.api.durations import PATTERN, Duration
from noctaya.api.endpoint import Endpoint
from noctaya.api.names import MAX_SERVICE_NAME, SERVICE_NAME_PATTERN
from noctaya.api.quantities import Quantity
from noctaya.api.resource import ConditionsOnly, Resource
from noctaya.api.rules import ApiModel, Rule, implied, nested, written

Vendor = Literal["nvidia", "ascend", "cpu"]
CacheStrategy = Literal["NodeLocalPVC", "HostPath", "SharedPVC", "BakedImage", "None"]
ScalingMetric = Literal["queueDepth", "kvCacheUtil"]
PhaseName = Literal["Pending", "Loading", "Ready", "ScaledToZero", "Degraded"]

_TOKEN_SCHEMES: Final = "^(?i:oci|hf|huggingface|modelscope|s3)://"
_HUB_SCHEMES: Final = "^(?i:hf|huggingface|modelscope|s3)://"


class ModelSource(ApiModel):
    """Where the weights come from."""

    rules = (
        Rule(
            f"!has(self.secretRef) || self.uri.matches('{_TOKEN_SCHEMES}')",
            "model.source.secretRef is only for oci://, hf://, modelscope:// and s3:// URIs",
            lambda source: source.secret_ref is None or re.match(_TOKEN_SCHEMES, source.uri) is not None,
        ),
        Rule(
            "!has(self.secretRef) || (has(self.secretRef.name) && self.secretRef.name != '')",
            "model.source.secretRef.name must not be empty",
            lambda source: source.secret_ref is None or source.secret_ref.name != "",
        ),
        Rule(
            "!(has(self.endpoint) || has(self.include) || has(self.exclude)) || "
            f"self.uri.matches('{_HUB_SCHEMES}')",
            "model.source.endpoint, include and exclude are only for hf://, modelscope:// and s3:// URIs",
            lambda source: (
                source.model_fields_set.isdisjoint({"endpoint", "include", "exclude"})
                or re.match(_HUB_SCHEMES, source.uri) is not None
            ),
        ),
    )

    uri: Annotated[str, Field(min_length=1, max_length=1024)]
    """hf://REPO[@REVISION], modelscope://REPO, oci://REGISTRY/REPO@sha256:DIGEST, pvc://CLAIM[/PATH] or s3://BUCKET/PREFIX."""
    secret_ref: LocalObjectReference | None = None
    """Secret with the credentials for the source; only the downloader sees it."""
    endpoint: Annotated[str, Field(max_length=1024, pattern="^https?://")] | None = None
    """URL of a mirror of the hub, or of the S3 service."""
    include: Annotated[tuple[Text, ...], Field(max_length=64)] = implied(())
    """Only files that match one of these patterns are fetched; all when empty."""
    exclude: Annotated[tuple[Text, ...], Field(max_length=64)] = implied(())
    """Files that match one of these patterns are left out."""


class Model(ApiModel):
    """The model to serve."""

    rules = (
        Rule(
            "has(self.source) != (has(self.catalogRef) && self.catalogRef != '')",
            "model must set exactly one of source and catalogRef",
            lambda model: (model.source is not None) != bool(model.catalog_ref),
        ),
    )

    source: ModelSource | None = None
    """Where the weights come from."""
    catalog_ref: ShortText | None = None
    """Reserved: an entry of a model catalogue. Not implemented."""


class RuntimeSelector(ApiModel):
    """Picks a runtime by what it runs on."""

    vendor: Annotated[tuple[Vendor, ...], Field(min_length=1, max_length=16)] | None = None
    """Vendors in order of preference; within one, the runtime of the highest priority is taken."""


def _names_one_runtime(runtime: RuntimeChoice) -> bool:
    return bool(runtime.name) != bool(runtime.selector and runtime.selector.vendor)


class RuntimeChoice(ApiModel):
    """The InferenceRuntime that serves the model."""

    rules = (
        Rule(
            "(has(self.name) && self.name != '') != "
            "(has(self.selector) && has(self.selector.vendor) && size(self.selector.vendor) > 0)",
            "runtime must set exactly one of name and selector.vendor",
            _names_one_runtime,
        ),
    )

    name: ShortText | None = None
    """Name of an InferenceRuntime."""
    selector: RuntimeSelector | None = None
    """Picks an InferenceRuntime instead of naming one."""
    args_override: Annotated[tuple[LongText, ...], Field(max_length=256)] = implied(())
    """Arguments after those of the runtime; may hold the same template fields."""


class Fraction(ApiModel):
    """Reserved: a share of one accelerator. Not implemented."""

    memory: Quantity | None = None
    """Memory of the accelerator."""
    cores: Int32 | None = None
    """Cores of the accelerator."""


class Resources(ApiModel):
    """What one replica of the backend needs."""

    accelerators: Annotated[Int32, Field(ge=1)] = 1
    """Accelerators; without meaning for runtimes of vendor cpu."""
    fraction: Fraction | None = None
    """Reserved: a share of one accelerator. Not implemented."""
    cpu: Annotated[Quantity, not_below_zero("resources.cpu")] | None = None
    """CPU request."""
    memory: Annotated[Quantity, not_below_zero("resources.memory")] | None = None
    """Memory request and limit."""


class AuthenticationRef(ApiModel):
    """A KEDA TriggerAuthentication."""

    name: Annotated[ShortText, Field(min_length=1)]
    """Name of the object."""
    kind: Literal["TriggerAuthentication", "ClusterTriggerAuthentication"] = "TriggerAuthentication"
    """Kind of the object."""


class ExternalScalerTLS(ApiModel):
    """Mutual TLS between KEDA and the scaler."""

    server_secret_name: Annotated[ShortText, Field(min_length=1)]
    """Secret whose ca.crt signs the client certificates that are accepted."""
    authentication_ref: AuthenticationRef
    """Where KEDA finds its client certificate."""


class ExternalScaler(ApiModel):
    """How KEDA reaches the scaler."""

    tls: ExternalScalerTLS | None = None
    """Mutual TLS; plaintext when absent."""


class Scaling(ApiModel):
    """How many replicas run, and when."""

    rules = (
        Rule(
            "!has(self.min) || !has(self.max) || self.min <= self.max",
            "scaling.min must not be greater than scaling.max",
            lambda scaling: scaling.min <= scaling.max,
        ),
    )

    min: Annotated[Int32, Field(ge=0)] = 0
    """Fewest replicas; 0 lets the model sleep."""
    max: Annotated[Int32, Field(ge=1)] = 1
    """Most replicas."""
    metric: ScalingMetric = "queueDepth"
    """What replicas are scaled on; kvCacheUtil is reserved."""
    target: Annotated[Int32, Field(ge=1)] = 10
    """Requests in flight for which one replica is enough."""
    activation_timeout: Annotated[Duration, positive("scaling.activationTimeout")] = written(
        Duration.parse("5m"), "5m"
    )
    """Longest time that a request waits for a sleeping model."""
    scale_down_stabilization: Annotated[
        Duration,
        Rule(
            f"self.matches('^{PATTERN}$') && duration(self) >= duration('0s') && duration(self) <= duration('1h') && "
            "duration(self).getMilliseconds() % 1000 == 0",  # CEL's cost estimate admits nothing finer
            "scaling.scaleDownStabilization must be a whole number of seconds from 0s to 1h, such as 5m",
            lambda duration: 0 <= duration.seconds <= 3600 and duration.nanoseconds // 1_000_000 % 1000 == 0,
        ),
    ] = written(Duration.parse("5m"), "5m")
    """Time without demand before replicas are taken away."""
    drain_timeout: Annotated[Duration, not_negative("scaling.drainTimeout")] = written(
        Duration.parse("2m"), "2m"
    )
    """Longest time that a replica gets to finish its requests, where the runtime drains before it stops."""
    external_scaler: ExternalScaler | None = None
    """How KEDA reaches the scaler."""


class Cache(ApiModel):
    """Where the weights are kept between wakes."""

    rules = (
        Rule(
            "!has(self.claimName) || (has(self.strategy) && self.strategy in ['NodeLocalPVC', 'SharedPVC'])",
            "cache.claimName needs cache.strategy NodeLocalPVC or SharedPVC",
            lambda cache: cache.claim_name is None or cache.strategy in {"NodeLocalPVC", "SharedPVC"},
        ),
        Rule(
            "!has(self.claimName) || !(has(self.size) || has(self.storageClassName))",
            "cache.size and cache.storageClassName describe a claim that is made; they cannot stand beside cache.claimName",
            lambda cache: (
                cache.claim_name is None or (cache.size is None and cache.storage_class_name is None)
            ),
        ),
    )

    strategy: CacheStrategy = "NodeLocalPVC"
    """Kind of volume; BakedImage is reserved."""
    size: Annotated[Quantity, not_below_zero("cache.size")] | None = None
    """Size of the claim; 50Gi when absent."""
    storage_class_name: ShortText | None = None
    """StorageClass of the claim; the cluster's default when absent or empty."""
    claim_name: Annotated[str, Field(min_length=1, max_length=253, pattern=HOSTNAME)] | None = None
    """An existing claim to share instead of one of the service's own."""
    prewarm: Bool = implied(False)
    """Whether the weights are fetched before the first wake."""


class LLMServiceSpec(ApiModel):
    """What a user asks for."""

    model: Model
    """The model to serve."""
    runtime: RuntimeChoice
    """The InferenceRuntime that serves it."""
    resources: Resources = nested(Resources)
    """What one replica of the backend needs."""
    scaling: Scaling = nested(Scaling)
    """How many replicas run, and when."""
    cache: Cache = nested(Cache)
    """Where the weights are kept between wakes."""
    endpoint: Endpoint = nested(Endpoint)
    """How clients call the model."""
    image_pull_secrets: Annotated[tuple[LocalObjectReference, ...], Field(max_length=32)] = implied(())
    """Secrets for pulling the images of the backend and of the prewarm Job."""


class LLMServiceStatus(ConditionsOnly):
    """What is known about the service."""

    phase: PhaseName | None = None
    """Where the service stands, in one word."""
    resolved_runtime: ShortText | None = None
    """The InferenceRuntime in use."""
    resolved_revision: Text | None = None
    """The revision or digest of the weights in use."""
    replicas: Annotated[Int32, Field(ge=0)] | None = None
    """Backend replicas that can serve."""
    endpoint_url: Annotated[Text | None, Field(alias="endpointURL")] = None
    """Where clients inside the cluster reach the service."""
    last_activation: Timestamp | None = None
    """When the model last woke."""
    shard_epoch: Annotated[Int64, Field(ge=0)] | None = None
    """Epoch of the worker that wrote this status; a lower one must not overwrite it."""


class LLMService(Resource):
    """A model that clients can call, and that sleeps while nobody does."""

    kind = "LLMService"
    rules = (
        Rule(
            f"size(self.metadata.name) <= {MAX_SERVICE_NAME}",
            f"metadata.name must be no longer than {MAX_SERVICE_NAME} characters: Services and scalers are named after it",
            lambda service: len(service.metadata.name) <= MAX_SERVICE_NAME,
        ),
        Rule(
            f"self.metadata.name.matches('{SERVICE_NAME_PATTERN}')",
            "metadata.name must be lower-case letters, digits and dashes, begin with a letter and not end with a dash",
            lambda service: re.fullmatch(SERVICE_NAME_PATTERN, service.metadata.name) is not None,
        ),
    )

    spec: LLMServiceSpec
