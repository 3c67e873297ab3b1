"""Services and updates as a worker would send them, for tests."""

from typing import Any

from noctaya.gateway.service import Service
from noctaya.wire import control

FLEET = "fleet-1"
KEY = "ai/tiny"
SECRET = b"fleet secret"


def endpoint(port: int, *, ready: bool = True, pod: str = "tiny-0", **more: Any) -> "control.Endpoint":
    """A pod's endpoint on this machine."""
    return control.Endpoint(
        address="127.0.0.1", port=port, pod=pod, pod_uid=f"uid-{pod}", ready=ready, **more
    )


def message(key: str = KEY, **more: Any) -> "control.Service":
    """A service that sleeps, unless `more` says otherwise."""
    namespace, _, name = key.partition("/")
    defaults: dict[str, Any] = {
        "uid": f"uid-{key}",
        "max_queue": 100,
        "activation_timeout_ms": 10_000,
        "heartbeat_interval_ms": 10_000,
        "health_path": "/health",
        "phase": "ScaledToZero",
    }
    return control.Service(namespace=namespace, name=name, **(defaults | more))


def service(key: str = KEY, **more: Any) -> Service:
    """The same as the gateway reads it."""
    return Service.from_message(message(key, **more), 7)


def update(*services: "control.Service", **more: Any) -> "control.ShardUpdate":
    """A snapshot of shard 7 at epoch 1, version 1, unless `more` says otherwise."""
    defaults: dict[str, Any] = {"fleet": FLEET, "shard": 7, "epoch": 1, "version": 1, "base_version": 0}
    return control.ShardUpdate(services=services, **(defaults | more))
