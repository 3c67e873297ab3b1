"""`GET /v1/models`: what a caller may use, cold models included, each with its state. Wakes nothing. Pure."""

from collections.abc import Iterable
from typing import Any

from noctaya.gateway.service import Service


def state_of(service: Service, *, is_wanted: bool) -> str:
    """`ready`, `waking` (it has pods, or somebody waits for it), `failed` or `asleep`."""
    staying = [endpoint for endpoint in service.endpoints if not endpoint.terminating]
    if any(endpoint.ready for endpoint in staying):
        return "ready"
    if service.problem:
        return "failed"
    if staying or is_wanted:
        return "waking"
    return "asleep"


def as_model(service: Service, *, is_wanted: bool) -> dict[str, Any]:
    """One entry, in OpenAI's shape and with ours beside it."""
    return {
        "id": service.key,
        "object": "model",
        "created": service.created_at,
        "owned_by": service.namespace,
        "state": state_of(service, is_wanted=is_wanted),
        "phase": service.phase,
        "names": sorted(service.names),
    }


def as_list(services: Iterable[tuple[Service, bool]]) -> dict[str, Any]:
    """The list, by name; each service with whether somebody wants it."""
    entries = [as_model(service, is_wanted=is_wanted) for service, is_wanted in services]
    return {"object": "list", "data": sorted(entries, key=lambda entry: str(entry["id"]))}
