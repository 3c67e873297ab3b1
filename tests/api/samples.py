"""Objects to test with: the smallest that the API accepts, full ones, and bad ones with the field that is wrong."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any, NamedTuple

Object = dict[str, Any]


def llmservice(name: str = "qwen", namespace: str = "ai", **spec: Any) -> Object:
    """The smallest LLMService; `spec` replaces whole sections of its spec."""
    return {
        "apiVersion": "serving.noctaya.io/v1alpha1",
        "kind": "LLMService",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"model": {"source": {"uri": "hf://Qwen/Qwen3-8B"}}, "runtime": {"name": "vllm"}, **spec},
    }


def inferenceruntime(name: str = "vllm", **spec: Any) -> Object:
    """The smallest InferenceRuntime; `spec` replaces whole sections of its spec."""
    return {
        "apiVersion": "serving.noctaya.io/v1alpha1",
        "kind": "InferenceRuntime",
        "metadata": {"name": name},
        "spec": {
            "vendor": "nvidia",
            "container": {"image": "vllm/vllm-openai:v0.11.0"},
            "accelerator": {"resourceName": "nvidia.com/gpu"},
            **spec,
        },
    }


def llmservice_with(path: str, value: Any) -> Object:
    """The smallest LLMService with `value` at a dotted path of the whole object."""
    return put(llmservice(), path, value)


def inferenceruntime_with(path: str, value: Any) -> Object:
    """The smallest InferenceRuntime with `value` at a dotted path of the whole object."""
    return put(inferenceruntime(), path, value)


def put(obj: Object, path: str, value: Any) -> Object:
    """`obj` with `value` at a dotted path; sections on the way are made. The object itself stays as it was."""
    obj = copy.deepcopy(obj)
    *sections, last = path.split(".")
    at = obj
    for section in sections:
        at = at.setdefault(section, {})
    at[last] = value
    return obj


FULL_LLMSERVICE: Object = llmservice(
    model={
        "source": {
            "uri": "s3://models/qwen",
            "secretRef": {"name": "s3"},
            "endpoint": "https://s3.example.com",
            "include": ["*.safetensors"],
            "exclude": ["*.bin"],
        }
    },
    runtime={
        "selector": {"vendor": ["ascend", "nvidia", "cpu"]},
        "argsOverride": ["--name={{ .Service.Name }}"],
    },
    resources={"accelerators": 2, "fraction": {"memory": "10Gi", "cores": 20}, "cpu": 4, "memory": "32Gi"},
    scaling={
        "min": 1,
        "max": 3,
        "metric": "queueDepth",
        "target": 4,
        "activationTimeout": "1m30s",
        "scaleDownStabilization": "0s",
        "drainTimeout": "1.5s",
        "externalScaler": {"tls": {"serverSecretName": "server", "authenticationRef": {"name": "keda"}}},
    },
    cache={"strategy": "SharedPVC", "claimName": "models", "prewarm": True},
    endpoint={
        "openAICompatible": True,
        "maxQueue": 50,
        "servedModelName": "Qwen/Qwen3-8B",
        "aliases": ["qwen3", "Qwen/Qwen3-8B"],
        "hostnames": ["qwen.example.com"],
        "maxBodyBytes": 1048576,
        "queueTimeout": "30s",
        "resources": {"requests": {"cpu": "100m", "memory": "64Mi"}, "limits": {"memory": "256Mi"}},
        "authentication": {"secretRef": {"name": "keys", "key": "api-key"}},
        "coldStart": {"mode": "reject", "heartbeatInterval": "500ms", "heartbeatMode": "off"},
    },
    imagePullSecrets=[{"name": "registry"}],
)

FULL_INFERENCERUNTIME: Object = inferenceruntime(
    family="sglang",
    priority=-5,
    container={
        "image": "lmsysorg/sglang:v0.5",
        "args": ["--model-path={{ .Model.Path }}", "--port=9000"],
        "env": [
            {"name": "A", "value": "{{ .Service.Namespace }}"},
            {"name": "B", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k", "optional": True}}},
            {"name": "C", "valueFrom": {"fieldRef": {"fieldPath": "metadata.uid"}}},
            {"name": "D", "valueFrom": {"resourceFieldRef": {"resource": "limits.memory", "divisor": "1Mi"}}},
            {"name": "E", "valueFrom": {"configMapKeyRef": {"name": "c", "key": "k"}}},
            {"name": "F", "valueFrom": {"fileKeyRef": {"volumeName": "v", "path": "env", "key": "k"}}},
        ],
        "port": {"name": "api", "containerPort": 9000},
    },
    accelerator={
        "resourceName": "nvidia.com/gpu",
        "sharing": {"supported": False},
        "nodeSelector": {"gpu": "a100"},
        "tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}],
        "scheduler": {"name": "volcano", "queue": "llm"},
    },
    health={
        "path": "/healthz",
        "readiness": {
            "httpGet": {"path": "/ready", "port": "api", "httpHeaders": [{"name": "X", "value": "y"}]}
        },
        "liveness": {"exec": {"command": ["true"]}, "periodSeconds": 30},
        "startup": {"tcpSocket": {"port": 9000}, "failureThreshold": 120, "terminationGracePeriodSeconds": 5},
    },
    http={"paths": ["/v1/*", "/generate"], "keepAlive": False},
    lifecycle={"terminationGracePeriodSeconds": 60, "preStopDrain": True},
    metrics={
        "queueDepth": "sglang:num_queue_reqs",
        "kvCacheUtil": "sglang:token_usage",
        "running": "r",
        "ttft": "t",
    },
)

CPU_RUNTIME: Object = {
    "apiVersion": "serving.noctaya.io/v1alpha1",
    "kind": "InferenceRuntime",
    "metadata": {"name": "llamacpp-cpu"},
    "spec": {"family": "llamacpp", "vendor": "cpu", "container": {"image": "noctaya.local/llamacpp"}},
}

GOOD: Mapping[str, Object] = {
    "the smallest service": llmservice(),
    "the smallest runtime": inferenceruntime(),
    "a full service": FULL_LLMSERVICE,
    "a full runtime": FULL_INFERENCERUNTIME,
    "a runtime without accelerators": CPU_RUNTIME,
    "a runtime with a gRPC probe": inferenceruntime_with("spec.health.liveness", {"grpc": {"port": 5000}}),
    "a catalogue entry": llmservice(model={"catalogRef": "qwen3"}),
    "a private hub": llmservice(model={"source": {"uri": "HF://a/b", "secretRef": {"name": "token"}}}),
    "a private registry": llmservice(
        model={"source": {"uri": "oci://r/m@sha256:0", "secretRef": {"name": "p"}}}
    ),
    "the longest name": llmservice(name="a" * 54),
    "a claim of a given size": llmservice(cache={"size": "1.5Ti", "storageClassName": ""}),
    "a size in bytes": llmservice(cache={"size": 53687091200}),
    "an odd but valid duration": llmservice_with("spec.scaling.activationTimeout", "+1h.5m1500000µs"),
    "a whole number of seconds in minutes": llmservice_with("spec.scaling.scaleDownStabilization", "1.5m"),
    "an hour to stay awake": llmservice_with("spec.scaling.scaleDownStabilization", "60m"),
    "a drain of nothing": llmservice_with("spec.scaling.drainTimeout", "0"),
}


class Bad(NamedTuple):
    """An object that must be refused, and what the refusal must name."""

    obj: Object
    names: str


def _service(path: str, value: Any, names: str | None = None) -> Bad:
    return Bad(llmservice_with(path, value), names or path)


def _runtime(path: str, value: Any, names: str | None = None) -> Bad:
    return Bad(inferenceruntime_with(path, value), names or path)


_HF = {"uri": "hf://a/b"}
_PVC = {"uri": "pvc://claim/a"}
_TLS = "spec.scaling.externalScaler.tls"

BAD: Mapping[str, Bad] = {
    "a name that is too long": Bad(llmservice(name="a" * 55), "metadata.name"),
    "a name that begins with a digit": Bad(llmservice(name="3b"), "metadata.name"),
    "a name with a dot": Bad(llmservice(name="qwen3.5"), "metadata.name"),
    "no model": Bad({**llmservice(), "spec": {"runtime": {"name": "vllm"}}}, "model"),
    "no runtime": Bad({**llmservice(), "spec": {"model": {"source": _HF}}}, "runtime"),
    "no spec": Bad({key: value for key, value in llmservice().items() if key != "spec"}, "spec"),
    "an empty model": _service("spec.model", {}),
    "two models": _service("spec.model", {"source": _HF, "catalogRef": "x"}),
    "an empty catalogue entry": _service("spec.model", {"catalogRef": ""}),
    "a source without URI": _service("spec.model", {"source": {}}, "uri"),
    "an empty URI": _service("spec.model", {"source": {"uri": ""}}, "uri"),
    "a secret for a claim": _service("spec.model.source", {**_PVC, "secretRef": {"name": "x"}}, "secretRef"),
    "a secret without name": _service("spec.model.source", {**_HF, "secretRef": {}}, "secretRef.name"),
    "a mirror for a claim": _service("spec.model.source", {**_PVC, "endpoint": "https://x"}, "endpoint"),
    "a mirror that is no URL": _service("spec.model.source", {**_HF, "endpoint": "mirror"}, "endpoint"),
    "a pattern for a claim": _service("spec.model.source", {**_PVC, "include": ["*"]}, "include"),
    "an empty runtime": _service("spec.runtime", {}),
    "a runtime without name": _service("spec.runtime", {"name": ""}),
    "two runtimes": _service("spec.runtime", {"name": "a", "selector": {"vendor": ["nvidia"]}}),
    "no vendors": _service("spec.runtime", {"selector": {"vendor": []}}, "spec.runtime.selector.vendor"),
    "an unknown vendor": _service(
        "spec.runtime", {"selector": {"vendor": ["amd"]}}, "spec.runtime.selector.vendor[0]"
    ),
    "no accelerators": _service("spec.resources.accelerators", 0),
    "half an accelerator": _service("spec.resources.accelerators", 0.5),
    "CPU that is no quantity": _service("spec.resources.cpu", "two"),
    "negative CPU": _service("spec.resources.cpu", "-1"),
    "negative CPU, as a number": _service("spec.resources.cpu", -1),
    "negative memory": _service("spec.resources.memory", "-1Gi"),
    "a negative minimum": _service("spec.scaling.min", -1),
    "a maximum of nothing": _service("spec.scaling.max", 0),
    "a number as text": _service("spec.scaling.max", "2"),
    "more at least than at most": _service("spec.scaling", {"min": 2}, "scaling.min"),
    "an unknown metric": _service("spec.scaling.metric", "ttft"),
    "a target of nothing": _service("spec.scaling.target", 0),
    "a target past 32 bits": _service("spec.scaling.target", 2**31),
    "an activation timeout of nothing": _service("spec.scaling.activationTimeout", "0s"),
    "a negative activation timeout": _service("spec.scaling.activationTimeout", "-5m"),
    "an activation timeout without unit": _service("spec.scaling.activationTimeout", "5"),
    "an activation timeout in words": _service("spec.scaling.activationTimeout", "1 day"),
    "an activation timeout as a number": _service("spec.scaling.activationTimeout", 300),
    "a negative drain timeout": _service("spec.scaling.drainTimeout", "-1ms"),
    "a negative stabilization": _service("spec.scaling.scaleDownStabilization", "-1s"),
    "a stabilization over an hour": _service("spec.scaling.scaleDownStabilization", "1h1s"),
    "a stabilization of half seconds": _service("spec.scaling.scaleDownStabilization", "1.5s"),
    "TLS without server certificate": _service(
        _TLS, {"authenticationRef": {"name": "a"}}, "serverSecretName"
    ),
    "TLS without client certificate": _service(_TLS, {"serverSecretName": "a"}, "authenticationRef"),
    "TLS of an unknown kind": _service(
        _TLS,
        {"serverSecretName": "a", "authenticationRef": {"name": "a", "kind": "Secret"}},
        "authenticationRef.kind",
    ),
    "an unknown cache": _service("spec.cache.strategy", "EmptyDir"),
    "a negative size": _service("spec.cache.size", "-50Gi"),
    "a size that is no quantity": _service("spec.cache.size", "50GB"),
    "a shared claim without a claim's strategy": _service(
        "spec.cache", {"strategy": "None", "claimName": "x"}, "claimName"
    ),
    "a shared claim with a size": _service("spec.cache", {"size": "1Gi", "claimName": "x"}, "claimName"),
    "a queue of nothing": _service("spec.endpoint.maxQueue", 0),
    "a body of nothing": _service("spec.endpoint.maxBodyBytes", 0),
    "a negative wait": _service("spec.endpoint.queueTimeout", "-1s"),
    "an alias with a space": _service("spec.endpoint.aliases", ["my model"], "spec.endpoint.aliases[0]"),
    "an alias twice": _service("spec.endpoint.aliases", ["a", "a"]),
    "a hostname in capitals": _service(
        "spec.endpoint.hostnames", ["Qwen.example.com"], "spec.endpoint.hostnames[0]"
    ),
    "a hostname twice": _service("spec.endpoint.hostnames", ["a.example", "a.example"]),
    "an empty engine name": _service("spec.endpoint.servedModelName", ""),
    "negative gateway CPU": _service("spec.endpoint.resources.limits.cpu", "-1"),
    "negative gateway memory": _service("spec.endpoint.resources.requests.memory", "-1"),
    "gateway CPU that is no quantity": _service("spec.endpoint.resources.limits.cpu", "lots"),
    "a key without Secret": _service(
        "spec.endpoint.authentication", {"secretRef": {"key": "k"}}, "secretRef.name"
    ),
    "authentication without Secret": _service("spec.endpoint.authentication", {}, "secretRef"),
    "an unknown cold start": _service("spec.endpoint.coldStart.mode", "wait"),
    "no heartbeat": _service("spec.endpoint.coldStart.heartbeatInterval", "0s"),
    "a heartbeat that YAML took for a boolean": _service("spec.endpoint.coldStart.heartbeatMode", False),
    "a runtime's name that fits no label": Bad(inferenceruntime(name="a" * 64), "metadata.name"),
    "an unknown family": _runtime("spec.family", "ollama"),
    "an unknown vendor of a runtime": _runtime("spec.vendor", "amd"),
    "no image": _runtime("spec.container", {}, "image"),
    "an empty image": _runtime("spec.container.image", ""),
    "a port name in capitals": _runtime("spec.container.port.name", "HTTP"),
    "a port name that is too long": _runtime("spec.container.port.name", "a" * 16),
    "port 0": _runtime("spec.container.port.containerPort", 0),
    "port 65536": _runtime("spec.container.port.containerPort", 65536),
    "a variable without name": _runtime("spec.container.env", [{"value": "x"}], "name"),
    "a variable with two values": _runtime(
        "spec.container.env",
        [{"name": "A", "value": "x", "valueFrom": {"fieldRef": {"fieldPath": "metadata.uid"}}}],
        "spec.container.env[0]",
    ),
    "no accelerator": _runtime("spec.accelerator", {}, "accelerator.resourceName"),
    "an empty accelerator": _runtime("spec.accelerator.resourceName", ""),
    "a queue without Volcano": _runtime(
        "spec.accelerator.scheduler", {"queue": "q"}, "accelerator.scheduler.queue"
    ),
    "an unknown effect": _runtime(
        "spec.accelerator.tolerations", [{"effect": "Never"}], "tolerations[0].effect"
    ),
    "a probe without handler": _runtime("spec.health.readiness", {"periodSeconds": 5}),
    "a probe with two handlers": _runtime(
        "spec.health.startup", {"tcpSocket": {"port": 1}, "grpc": {"port": 1}}
    ),
    "a probe without port": _runtime("spec.health.liveness", {"httpGet": {"path": "/"}}, "httpGet.port"),
    "a relative health path": _runtime("spec.health.path", "health"),
    "a relative inference path": _runtime("spec.http.paths", ["v1"], "spec.http.paths[0]"),
    "an inference path twice": _runtime("spec.http.paths", ["/a", "/a"]),
    "no time to end": _runtime("spec.lifecycle.terminationGracePeriodSeconds", 0),
    "metrics without queue depth": _runtime("spec.metrics", {}, "queueDepth"),
}
