"""Manifests of scripted engines: a model whose start, speed and resources a test decides."""

import json
from typing import Any


def scripted_runtime(
    name: str, *, startup: str = "0s", resource: str = "cpu", tokens: int = 3, delay: str = "10ms"
) -> dict[str, Any]:
    """An InferenceRuntime of the scripted engine; an unknown `resource` keeps its pods unscheduled."""
    return {
        "apiVersion": "serving.noctaya.io/v1alpha1",
        "kind": "InferenceRuntime",
        "metadata": {"name": name},
        "spec": {
            "family": "vllm",
            "vendor": "cpu" if resource == "cpu" else "nvidia",
            "accelerator": {"resourceName": resource},
            "container": {
                "image": "noctaya/scripted:local",
                "env": [
                    {"name": "SCRIPTED_STARTUP_DELAY", "value": startup},
                    {"name": "SCRIPTED_TOKEN_COUNT", "value": str(tokens)},
                    {"name": "SCRIPTED_TOKEN_DELAY", "value": delay},
                ],
                "port": {"name": "http", "containerPort": 8000},
            },
        },
    }


def scripted_service(name: str, on: str, /, **spec: Any) -> dict[str, Any]:
    """An LLMService on the runtime `on`; `spec` is laid over the sensible values of a test."""
    return {
        "apiVersion": "serving.noctaya.io/v1alpha1",
        "kind": "LLMService",
        "metadata": {"name": name, "namespace": "ai"},
        "spec": {
            "model": {"source": {"uri": "pvc://smollm2"}},
            "runtime": {"name": on},
            "scaling": {"min": 0, "max": 1, "activationTimeout": "60s", "scaleDownStabilization": "1s"},
            **spec,
        },
    }


def manifest(*objects: dict[str, Any]) -> str:
    """The objects as one document for `kubectl apply -f -`."""
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": list(objects)})
