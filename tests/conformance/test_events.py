"""Events: two APIs over one store, with the newer one's rules."""

from __future__ import annotations

from typing import Any

import pytest

from noctaya.kube.resources import EVENTS, Resource
from tests.conformance.client import Api, Object

NEW_EVENTS = Resource("events.k8s.io", "v1", "events", "Event", namespaced=True)


def event(api: Api, *, without: str = "", **more: Any) -> Object:
    body = {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {"name": "e"},
        "eventTime": "2026-01-01T00:00:00.000000Z",
        "reportingController": "noctaya",
        "reportingInstance": "w0",
        "action": "Waking",
        "reason": "Woken",
        "type": "Normal",
        "note": "woken by a request",
        "regarding": {"kind": "Pod", "name": "p", "namespace": api.namespace},
        **more,
    }
    return {key: value for key, value in body.items() if key != without}


async def test_both_apis_show_the_same_event(api: Api) -> None:
    made = await api.create(NEW_EVENTS, event(api))
    assert (made["note"], made["regarding"]["name"]) == ("woken by a request", "p")
    query = {"fieldSelector": "involvedObject.name=p,involvedObject.kind=Pod,reason=Woken"}
    (core,) = (await api.list(EVENTS, **query))["items"]
    assert core["metadata"]["uid"] == made["metadata"]["uid"]
    assert core["message"] == "woken by a request"
    assert core["reportingComponent"] == "noctaya"
    assert core["involvedObject"] == {"kind": "Pod", "name": "p", "namespace": api.namespace}


async def test_a_series_counts_without_a_new_event(api: Api) -> None:
    await api.create(NEW_EVENTS, event(api))
    series = {"count": 2, "lastObservedTime": "2026-01-01T00:00:05.000000Z"}
    changed = await api.patch(NEW_EVENTS, "e", {"series": series})
    assert changed["series"] == series


@pytest.mark.parametrize(
    "field", ["eventTime", "reason", "action", "reportingController", "reportingInstance"]
)
async def test_what_an_event_needs_is_required(api: Api, field: str) -> None:
    refused = await api.refused("POST", api.path(NEW_EVENTS), event(api, without=field))
    assert (refused.code, refused.reason) == (422, "Invalid")
    assert refused.causes[0] == ("FieldValueRequired", field, "Required value")
    assert refused.message.startswith('Event "e" is invalid: ')
    assert refused.details["kind"] == "Event"


async def test_an_event_is_normal_or_a_warning(api: Api) -> None:
    refused = await api.refused("POST", api.path(NEW_EVENTS), event(api, type="Odd"))
    assert refused.causes == [("FieldValueInvalid", "type", 'Invalid value: "": has invalid value: Odd')]
