"""Leases as compare-and-swap: what every fence of the fleet rests on."""

from __future__ import annotations

import asyncio

import pytest

from noctaya.kube.resources import LEASES
from tests.conformance.client import Api, Object
from tests.conformance.objects import lease

RIVALS = 10


async def test_of_many_creators_one_wins(api: Api) -> None:
    answers = await asyncio.gather(
        *(api.call("POST", api.path(LEASES), lease(holderIdentity=f"w{one}")) for one in range(RIVALS))
    )
    (won,) = [answer for answer in answers if answer.code == 201]
    lost = [answer.body for answer in answers if answer.code != 201]
    assert {(status["code"], status["reason"]) for status in lost} == {(409, "AlreadyExists")}
    assert {status["message"] for status in lost} == {'leases.coordination.k8s.io "l" already exists'}
    assert (await api.get(LEASES, "l"))["spec"] == won.body["spec"]


async def test_of_many_replacers_of_one_version_one_wins(api: Api) -> None:
    made = await api.create(LEASES, lease(holderIdentity="first", leaseTransitions=1))

    def claim(one: int) -> dict[str, object]:
        return {**made, "spec": {"holderIdentity": f"w{one}", "leaseTransitions": 2}}

    answers = await asyncio.gather(
        *(api.call("PUT", api.path(LEASES, "l"), claim(one)) for one in range(RIVALS))
    )
    (won,) = [answer for answer in answers if answer.code == 200]
    lost = [answer.body for answer in answers if answer.code != 200]
    assert {(status["code"], status["reason"]) for status in lost} == {(409, "Conflict")}
    assert lost[0]["message"] == (
        'Operation cannot be fulfilled on leases.coordination.k8s.io "l": the object has been modified; please '
        "apply your changes to the latest version and try again"
    )
    assert lost[0]["details"] == {"name": "l", "group": "coordination.k8s.io", "kind": "leases"}
    assert (await api.get(LEASES, "l"))["spec"] == won.body["spec"]


async def test_a_replace_without_a_version_is_refused(api: Api) -> None:
    await api.create(LEASES, lease(holderIdentity="first"))
    refused = await api.refused("PUT", api.path(LEASES, "l"), lease(holderIdentity="thief"))
    assert (refused.code, refused.reason) == (422, "Invalid")
    assert refused.causes == [
        ("FieldValueInvalid", "metadata.resourceVersion", "Invalid value: 0: must be specified for an update")
    ]


async def test_a_replace_of_what_is_gone_makes_it_anew(api: Api) -> None:
    """So an old holder's late renewal may bring a deleted Lease back: with another uid, never unnoticed."""
    made = await api.create(LEASES, lease(holderIdentity="first"))
    await api.delete(LEASES, "l")
    answer = await api.call("PUT", api.path(LEASES, "l"), {**lease(holderIdentity="first")})
    assert answer.code == 201
    assert answer.body["metadata"]["uid"] != made["metadata"]["uid"]


async def test_a_renewal_with_another_uid_is_a_conflict(api: Api) -> None:
    made = await api.create(LEASES, lease(holderIdentity="first"))
    await api.delete(LEASES, "l")
    again = await api.create(LEASES, lease(holderIdentity="second"))
    late = {**made, "metadata": {**made["metadata"], "resourceVersion": again["metadata"]["resourceVersion"]}}
    refused = await api.refused("PUT", api.path(LEASES, "l"), late)
    assert (refused.code, refused.reason) == (409, "Conflict")
    assert f"UID in precondition: {made['metadata']['uid']}" in refused.message
    assert (await api.get(LEASES, "l"))["spec"] == {"holderIdentity": "second"}


async def test_times_keep_their_microseconds(api: Api) -> None:
    at = "2026-01-02T03:04:05.000600Z"
    made = await api.create(LEASES, lease(renewTime=at, acquireTime=at, leaseDurationSeconds=10))
    assert (made["spec"]["renewTime"], made["spec"]["acquireTime"]) == (at, at)


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ({"leaseDurationSeconds": 0}, "Invalid value: 0: must be greater than 0"),
        ({"leaseTransitions": -1}, "Invalid value: -1: must be greater than or equal to 0"),
    ],
)
async def test_numbers_that_make_no_sense_are_invalid(api: Api, spec: Object, message: str) -> None:
    refused = await api.refused("POST", api.path(LEASES), lease(**spec))
    assert (refused.code, refused.reason) == (422, "Invalid")
    assert refused.causes == [("FieldValueInvalid", f"spec.{next(iter(spec))}", message)]


async def test_a_time_that_is_none_is_a_bad_request(api: Api) -> None:
    refused = await api.refused("POST", api.path(LEASES), lease(renewTime="soon"))
    assert (refused.code, refused.reason) == (400, "BadRequest")
    assert refused.message.startswith(
        'Lease in version "v1" cannot be handled as a Lease: parsing time "soon" as '
    )


async def test_a_deletion_may_demand_the_version_it_has_seen(api: Api) -> None:
    made = await api.create(LEASES, lease(holderIdentity="first"))
    await api.patch(LEASES, "l", {"spec": {"holderIdentity": "second"}})
    conditions = {
        "uid": made["metadata"]["uid"],
        "resourceVersion": made["metadata"]["resourceVersion"],
    }
    refused = await api.refused("DELETE", api.path(LEASES, "l"), {"preconditions": conditions})
    assert (refused.code, refused.reason) == (409, "Conflict")
    assert refused.details == {"name": "l", "group": "coordination.k8s.io", "kind": "Lease"}
    assert await api.exists(LEASES, "l")
