"""The two faces of an Event: core v1 (how it is stored) and events.k8s.io/v1."""

from __future__ import annotations

from noctaya.local.apiserver.status import Object

# events.k8s.io/v1 name -> core/v1 name
_RENAMED = {
    "regarding": "involvedObject",
    "note": "message",
    "reportingController": "reportingComponent",
    "deprecatedSource": "source",
    "deprecatedFirstTimestamp": "firstTimestamp",
    "deprecatedLastTimestamp": "lastTimestamp",
    "deprecatedCount": "count",
}
_BACK = {core: modern for modern, core in _RENAMED.items()}


def to_core(event: Object) -> Object:
    """An events.k8s.io/v1 Event as core v1."""
    return {**{_RENAMED.get(key, key): value for key, value in event.items()}, "apiVersion": "v1"}


def from_core(event: Object) -> Object:
    """A core v1 Event as events.k8s.io/v1."""
    return {**{_BACK.get(key, key): value for key, value in event.items()}, "apiVersion": "events.k8s.io/v1"}
