"""The pod template that serves a model: the runtime's container with the model, its cache and the vendor's devices.

Pure. Hardened as far as engines bear it: no service account token, no privilege escalation, the runtime's default seccomp
profile, no capabilities (but see `vendors.py`). The user and the root file system stay the image's: engines write caches
below their home. Nothing is injected into the arguments: what the engine sees is what the runtime and the service say.
"""

from __future__ import annotations

import math
from typing import Any

from noctaya.api.conditions import Reason
from noctaya.api.core import EnvVar, Probe
from noctaya.api.errors import InvalidTemplate
from noctaya.api.inferenceruntime import Accelerator, InferenceRuntimeSpec
from noctaya.api.llmservice import LLMServiceSpec
from noctaya.api.names import ANNOTATION_VOLCANO_QUEUE, SERVING_CONTAINER
from noctaya.api.templates import TemplateContext
from noctaya.api.templates import render as render_template
from noctaya.workers.cache_volume import Cache
from noctaya.workers.errors import SpecProblem
from noctaya.workers.models import MODEL_STORE_PATH, Model
from noctaya.workers.vendors import Vendor

DEFAULT_HEALTH_PATH = "/health"
STARTUP_PERIOD_SECONDS = 1
STARTUP_FAILURES = 600
"""Ten minutes, asked every second: with a longer period a loaded model would sit unused until the next question."""
READINESS_PERIOD_SECONDS = 5
GRACE_AFTER_DRAIN_SECONDS = 10
LONGEST_DEADLINE_SECONDS = 2**31 - 1
"""`progressDeadlineSeconds` is an int32."""
SCHEDULING_BUDGET_SECONDS = 600
"""For finding a node and pulling an engine's image, before the startup probe's own budget begins."""


def pod_template(
    spec: LLMServiceSpec,
    runtime: InferenceRuntimeSpec,
    model: Model,
    vendor: Vendor,
    cache: Cache,
    context: TemplateContext,
    labels: dict[str, str],
) -> dict[str, Any]:
    """`spec.template` of the backend Deployment.

    Raises:
        SpecProblem: Render; a template or combination of fields that cannot be served.
    """
    accelerator = runtime.accelerator or Accelerator()
    scheduler = accelerator.scheduler
    drain_seconds = _drain_seconds(spec, runtime)
    container: dict[str, Any] = {
        "name": SERVING_CONTAINER,
        "image": runtime.container.image,
        "args": _arguments(spec, runtime, context),
        "env": _environment(runtime.container.env, model.environment | cache.environment, context),
        "ports": [
            {
                "name": runtime.container.port.name,
                "containerPort": runtime.container.port.container_port,
                "protocol": "TCP",
            }
        ],
        "resources": _resources(spec, accelerator.resource_name if vendor.has_accelerator else None),
        "securityContext": {"allowPrivilegeEscalation": False}
        | ({"capabilities": {"drop": ["ALL"]}} if vendor.drops_capabilities else {}),
        "volumeMounts": _mounts(model, vendor, cache),
        **_probes(runtime),
    }
    if drain_seconds:
        # The kubelet sleeps by itself: the image needs no shell.
        container["lifecycle"] = {"preStop": {"sleep": {"seconds": drain_seconds}}}
    pod: dict[str, Any] = {
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "securityContext": {"seccompProfile": {"type": "RuntimeDefault"}},
        "containers": [container],
        "volumes": _volumes(model, vendor, cache),
    }
    if grace := _grace_seconds(runtime, drain_seconds):
        pod["terminationGracePeriodSeconds"] = grace
    if spec.image_pull_secrets:
        pod["imagePullSecrets"] = [{"name": secret.name} for secret in spec.image_pull_secrets]
    if accelerator.node_selector:
        pod["nodeSelector"] = dict(accelerator.node_selector)
    if accelerator.tolerations:
        pod["tolerations"] = [toleration.as_json() for toleration in accelerator.tolerations]
    metadata: dict[str, Any] = {"labels": labels}
    if scheduler is not None and scheduler.name:
        pod["schedulerName"] = scheduler.name
    if scheduler is not None and scheduler.queue:
        if scheduler.name != "volcano":
            raise SpecProblem(
                Reason.RENDER,
                f"accelerator.scheduler.queue ({scheduler.queue}) of the InferenceRuntime needs scheduler.name volcano",
            )
        metadata["annotations"] = {ANNOTATION_VOLCANO_QUEUE: scheduler.queue}
    return {"metadata": metadata, "spec": pod}


def startup_budget_seconds(runtime: InferenceRuntimeSpec) -> int:
    """How long a pod may take from its creation until it serves, before that counts as no progress."""
    probe = runtime.health.startup if runtime.health is not None else None
    if probe is None:
        return SCHEDULING_BUDGET_SECONDS + STARTUP_PERIOD_SECONDS * STARTUP_FAILURES
    period, failures = probe.period_seconds or 10, probe.failure_threshold or 3
    whole = SCHEDULING_BUDGET_SECONDS + (probe.initial_delay_seconds or 0) + period * failures
    return min(whole, LONGEST_DEADLINE_SECONDS)


def _arguments(spec: LLMServiceSpec, runtime: InferenceRuntimeSpec, context: TemplateContext) -> list[str]:
    sources = [("container.args", text) for text in runtime.container.args]
    sources += [("spec.runtime.argsOverride", text) for text in spec.runtime.args_override]
    return [_rendered(text, where, context) for where, text in sources]


def _environment(
    variables: tuple[EnvVar, ...], extra: dict[str, str], context: TemplateContext
) -> list[dict[str, Any]]:
    # By name, because apply merges the list by name and refuses doubles. The runtime's own word counts over ours.
    by_name: dict[str, dict[str, Any]] = {}
    for variable in variables:
        entry = variable.as_json()
        if variable.value:
            entry["value"] = _rendered(variable.value, f"container.env[{variable.name}]", context)
        by_name[variable.name] = entry
    for name, value in extra.items():
        by_name.setdefault(name, {"name": name, "value": value})
    return list(by_name.values())


def _rendered(text: str, where: str, context: TemplateContext) -> str:
    try:
        return render_template(text, context)
    except InvalidTemplate as error:
        raise SpecProblem(Reason.RENDER, f"{where}: {error}") from error


def _probes(runtime: InferenceRuntimeSpec) -> dict[str, Any]:
    health = runtime.health
    path = (health.path if health is not None else None) or DEFAULT_HEALTH_PATH
    get = {"httpGet": {"path": path, "port": runtime.container.port.name}}
    own: dict[str, Probe | None] = {
        "readinessProbe": health.readiness if health is not None else None,
        "livenessProbe": health.liveness if health is not None else None,
        "startupProbe": health.startup if health is not None else None,
    }
    defaults: dict[str, dict[str, Any]] = {
        "readinessProbe": {**get, "periodSeconds": READINESS_PERIOD_SECONDS},
        "startupProbe": {
            **get,
            "periodSeconds": STARTUP_PERIOD_SECONDS,
            "failureThreshold": STARTUP_FAILURES,
        },
    }
    return defaults | {name: probe.as_json() for name, probe in own.items() if probe is not None}


def _resources(spec: LLMServiceSpec, accelerator: str | None) -> dict[str, Any]:
    wanted = spec.resources
    if wanted.fraction is not None:
        raise SpecProblem(
            Reason.RENDER,
            "spec.resources.fraction is not supported yet by this version; ask for whole accelerators",
        )
    requests: dict[str, str] = {}
    limits: dict[str, str] = {}
    if wanted.cpu is not None:
        requests["cpu"] = str(wanted.cpu)
    if wanted.memory is not None:
        requests["memory"] = limits["memory"] = str(wanted.memory)
    if accelerator is not None:
        limits[accelerator] = str(wanted.accelerators)
    return {name: values for name, values in (("requests", requests), ("limits", limits)) if values}


def _volumes(model: Model, vendor: Vendor, cache: Cache) -> list[dict[str, Any]]:
    volumes: list[dict[str, Any]] = [{"name": "dshm", "emptyDir": {"medium": "Memory"}}]
    if model.claim:
        volumes.append(
            {"name": "model-store", "persistentVolumeClaim": {"claimName": model.claim, "readOnly": True}}
        )
    if cache.volume is not None:
        volumes.append({"name": "model-cache", **cache.volume})
    return volumes + [{"name": name, "hostPath": {"path": path}} for name, path in vendor.host_paths]


def _mounts(model: Model, vendor: Vendor, cache: Cache) -> list[dict[str, Any]]:
    mounts: list[dict[str, Any]] = [{"name": "dshm", "mountPath": "/dev/shm"}]
    if model.claim:
        mounts.append({"name": "model-store", "mountPath": MODEL_STORE_PATH, "readOnly": True})
    if cache.volume is not None:
        mounts.append({"name": "model-cache", "mountPath": cache.mount_path})
    return mounts + [{"name": name, "mountPath": path, "readOnly": True} for name, path in vendor.host_paths]


def _drain_seconds(spec: LLMServiceSpec, runtime: InferenceRuntimeSpec) -> int:
    if runtime.lifecycle is None or not runtime.lifecycle.pre_stop_drain:
        return 0
    return math.ceil(spec.scaling.drain_timeout.seconds)


def _grace_seconds(runtime: InferenceRuntimeSpec, drain_seconds: int) -> int | None:
    own = runtime.lifecycle.termination_grace_period_seconds if runtime.lifecycle is not None else None
    if not drain_seconds:
        return own
    return max(own or 0, drain_seconds + GRACE_AFTER_DRAIN_SECONDS)
