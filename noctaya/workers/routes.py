"""What gateways are told about one service: a pure function of the objects that the worker watches.

A service whose spec cannot be read, or whose runtime cannot be chosen, is still told, without endpoints: a gateway then
knows that it exists and why it does not serve, instead of answering that there is no such model.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from noctaya.api.core import Probe
from noctaya.api.inferenceruntime import InferenceRuntimeSpec
from noctaya.api.llmservice import LLMServiceSpec
from noctaya.api.names import LABEL_PREWARM, LABEL_RUNTIME
from noctaya.kube.objects import Pod, condition, parse_time
from noctaya.wire import control
from noctaya.workers.objects import LLMService

DEFAULT_HEALTH_PATH: Final = "/health"

LARGEST_BODY_BYTES: Final = 2**63 - 1
"""What the API's int64 means; a spec that came around the API server may hold more, and a message could not."""

_COLD_START = {"keepalive": control.KEEPALIVE, "reject": control.REJECT}
_HEARTBEAT = {
    "comment": control.COMMENT,
    "chunk": control.CHUNK,
    "progress": control.PROGRESS,
    "off": control.OFF,
}


@dataclass(frozen=True, slots=True)
class Access:
    """Which names a service has and which keys open it. `digests` None: no key is asked for."""

    hostnames: Sequence[str] = ()
    aliases: Sequence[str] = ()
    digests: Sequence[tuple[str, bytes]] | None = None


def route_of(
    service: LLMService,
    spec: LLMServiceSpec | None,
    runtime: InferenceRuntimeSpec | None,
    pods: Iterable[Pod],
    access: Access,
    doomed: Collection[str] = (),
) -> control.Service:
    """The service as gateways know it. `spec` is None when it is invalid, `runtime` when none could be chosen; `doomed` are
    uids of pods that are about to be deleted (`doomed.py`)."""
    degraded = condition(service.status.conditions, "Degraded")
    route = control.Service(
        namespace=service.namespace,
        name=service.name,
        uid=service.uid,
        generation=service.metadata.generation,
        phase=service.status.phase,
        problem=degraded.reason if degraded is not None and degraded.is_true else "",
        created_at=_unix(service.metadata.creation_timestamp),
        hostnames=access.hostnames,
        aliases=access.aliases,
        auth_required=access.digests is not None,
        keys=[control.KeyDigest(name=name, hmac_sha256=digest) for name, digest in access.digests or ()],
    )
    if spec is None:
        # Nothing of it can be trusted, so nobody gets in: its keys cannot be read either.
        route.auth_required = True
        route.problem = route.problem or "InvalidSpec"
        return route
    _tell_endpoint(route, spec)
    if runtime is not None:
        route.health_path = health_path(runtime)
        route.http_keep_alive = runtime.http.keep_alive if runtime.http else True
        route.inference_paths.extend(runtime.http.paths if runtime.http else ())
        route.endpoints.extend(endpoints(pods, runtime.container.port.container_port, doomed))
    return route


def _tell_endpoint(route: control.Service, spec: LLMServiceSpec) -> None:
    endpoint, cold = spec.endpoint, spec.endpoint.cold_start
    route.served_model_name = endpoint.served_model_name or ""
    route.max_queue = endpoint.max_queue
    route.max_body_bytes = min(endpoint.max_body_bytes or 0, LARGEST_BODY_BYTES)
    route.queue_timeout_ms = round(endpoint.queue_timeout.seconds * 1000) if endpoint.queue_timeout else 0
    route.activation_timeout_ms = round(spec.scaling.activation_timeout.seconds * 1000)
    route.cold_start_mode = _COLD_START[cold.mode]
    route.heartbeat_interval_ms = max(round(cold.heartbeat_interval.seconds * 1000), 1)
    route.heartbeat_mode = _HEARTBEAT[cold.heartbeat_mode]


def endpoints(pods: Iterable[Pod], port: int, doomed: Collection[str] = ()) -> list[control.Endpoint]:
    """The backend pods that have an address, in the order of their names. Not-ready ones too: the gateway probes itself."""
    return [
        control.Endpoint(
            address=pod.status.pod_ip,
            port=port,
            pod=pod.name,
            pod_uid=pod.uid,
            ready=pod.is_ready,
            terminating=pod.metadata.is_deleting or pod.uid in doomed,
        )
        for pod in sorted(pods, key=lambda pod: pod.name)
        if _is_backend(pod)
    ]


def _is_backend(pod: Pod) -> bool:
    labels = pod.metadata.labels
    return (
        bool(pod.status.pod_ip)
        and pod.status.phase not in ("Succeeded", "Failed")
        and LABEL_RUNTIME in labels
        and LABEL_PREWARM not in labels
    )


def health_path(runtime: InferenceRuntimeSpec) -> str:
    """What the gateway GETs to see whether a pod serves; empty: it connects, and believes the pod's Ready condition."""
    health = runtime.health
    if health is None:
        return DEFAULT_HEALTH_PATH
    if health.path:
        return health.path
    probe = health.readiness
    if probe is None:
        return DEFAULT_HEALTH_PATH
    return _http_path(probe, runtime)


def _http_path(probe: Probe, runtime: InferenceRuntimeSpec) -> str:
    get = probe.http_get
    serving = runtime.container.port
    if get is None or get.port not in (serving.name, serving.container_port, str(serving.container_port)):
        return ""  # exec, gRPC or TCP, or a port that gateways do not know
    return get.path or "/"


def _unix(created: str | None) -> int:
    return int(parse_time(created).timestamp()) if created else 0
