"""What an LLMService becomes: its children as bodies for apply. Pure, and the same on every worker.

Everything is rendered before anything is written, so that a mistake in the last child leaves none of the first behind.
Each child is owned by its LLMService (garbage collection deletes it) with `blockOwnerDeletion: false`: true would need
permission on `llmservices/finalizers` where OwnerReferencesPermissionEnforcement is on, and buys nothing here.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any

import msgspec

from noctaya.api import names
from noctaya.api.conditions import Reason
from noctaya.api.errors import InvalidName
from noctaya.api.inferenceruntime import InferenceRuntimeSpec
from noctaya.api.llmservice import LLMServiceSpec
from noctaya.api.templates import TemplateContext
from noctaya.kube.resources import DEPLOYMENTS, LLMSERVICES, PVCS, SCALEDOBJECTS, SERVICES, Resource
from noctaya.workers.backend_pod import pod_template, startup_budget_seconds
from noctaya.workers.cache_volume import cache_for
from noctaya.workers.errors import SpecProblem
from noctaya.workers.models import Model
from noctaya.workers.objects import LLMService
from noctaya.workers.scaledobject import scaled_object_spec
from noctaya.workers.services import backend_service_spec, public_service_spec
from noctaya.workers.vendors import adapter

OLD_REPLICASETS = 2


@dataclass(frozen=True, slots=True)
class Fleet:
    """Where children of every service point; from settings."""

    scaler_address: str = "noctaya-scaler.noctaya-system.svc:9090"
    polling_interval_seconds: int = 30
    gateway_host: str = "noctaya-gateway.noctaya-system.svc.cluster.local"


@dataclass(frozen=True, slots=True)
class Child:
    """One object to have."""

    resource: Resource
    body: dict[str, Any]
    failure: Reason
    """The condition's reason when it cannot be applied."""
    is_created_once: bool = False
    """Never changed after creation: what it holds is worth more than its spec."""
    first_replicas: int | None = None
    """Replicas that a Deployment is created with; afterwards they are the autoscaler's."""

    @property
    def name(self) -> str:
        return str(self.body["metadata"]["name"])

    @property
    def namespace(self) -> str:
        return str(self.body["metadata"]["namespace"])

    def __str__(self) -> str:
        return f"{self.resource.kind} {self.namespace}/{self.name}"


@dataclass(frozen=True, slots=True)
class Children:
    """All of a service's children, in the order in which they are applied: each stands on the ones before it."""

    cache_claim: Child | None
    deployment: Child
    backend_service: Child
    service: Child
    scaled_object: Child

    def in_order(self) -> list[Child]:
        claim = [self.cache_claim] if self.cache_claim is not None else []
        return [*claim, self.deployment, self.backend_service, self.service, self.scaled_object]


def render(
    service: LLMService,
    spec: LLMServiceSpec,
    runtime_name: str,
    runtime: InferenceRuntimeSpec,
    model: Model,
    fleet: Fleet,
    *,
    revision: int = 0,
) -> Children:
    """The children of `service`; `revision` is the one that its ScaledObject shall carry.

    Raises:
        SpecProblem: with the reason of the first thing that cannot be rendered.
    """
    try:
        names.check_service_name(service.name)
    except InvalidName as error:
        raise SpecProblem(Reason.RENDER, str(error)) from error
    vendor = adapter(runtime.vendor)
    cache = cache_for(service.namespace, service.name, spec, model)
    called = names.child_names(service.name)
    common = names.child_labels(service.namespace, service.name)
    backend = names.backend_labels(service.namespace, service.name, runtime_name)
    context = TemplateContext(model.path, service.name, service.namespace)
    template = pod_template(spec, runtime, model, vendor, cache, context, backend)
    deployment_spec = {
        "selector": {"matchLabels": names.selector_labels(service.name)},
        "template": template,
        "progressDeadlineSeconds": startup_budget_seconds(runtime),
        "revisionHistoryLimit": OLD_REPLICASETS,
    }
    scaled = scaled_object_spec(
        called.deployment,
        spec,
        scaler_address=fleet.scaler_address,
        polling_interval_seconds=fleet.polling_interval_seconds,
        revision=revision,
    )
    claim = None
    if cache.claim_spec is not None:
        claim = Child(
            PVCS,
            _body(PVCS, service, called.cache_claim, common, cache.claim_spec),
            Reason.APPLY_CACHE_PVC,
            is_created_once=True,
        )
        claim.body["metadata"]["annotations"] = {
            names.ANNOTATION_CREATE_ONCE_HASH: spec_hash(cache.claim_spec)
        }
    return Children(
        cache_claim=claim,
        deployment=Child(
            DEPLOYMENTS,
            _body(DEPLOYMENTS, service, called.deployment, backend, deployment_spec),
            Reason.APPLY_DEPLOYMENT,
            first_replicas=spec.scaling.min,
        ),
        backend_service=Child(
            SERVICES,
            _body(
                SERVICES,
                service,
                called.backend_service,
                common,
                backend_service_spec(service.name, runtime.container.port.name),
            ),
            Reason.APPLY_BACKEND_SERVICE,
        ),
        service=Child(
            SERVICES,
            _body(SERVICES, service, called.service, common, public_service_spec(fleet.gateway_host)),
            Reason.APPLY_GATEWAY_SERVICE,
        ),
        scaled_object=Child(
            SCALEDOBJECTS,
            _body(SCALEDOBJECTS, service, called.scaled_object, common, scaled),
            Reason.APPLY_SCALED_OBJECT,
        ),
    )


def spec_hash(spec: Any) -> str:
    """SHA-256 of the canonical JSON of `spec`, in hex."""
    return hashlib.sha256(msgspec.json.encode(spec, order="deterministic")).hexdigest()


def _body(
    resource: Resource, service: LLMService, name: str, labels: dict[str, str], spec: dict[str, Any]
) -> dict[str, Any]:
    return {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "metadata": {
            "name": name,
            "namespace": service.namespace,
            "labels": dict(labels),
            "ownerReferences": [
                {
                    "apiVersion": LLMSERVICES.api_version,
                    "kind": LLMSERVICES.kind,
                    "name": service.name,
                    "uid": service.uid,
                    "controller": True,
                    "blockOwnerDeletion": False,
                }
            ],
        },
        "spec": spec,
    }
