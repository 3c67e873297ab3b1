"""Roles are read from certificates to the letter."""

from __future__ import annotations

import pytest

from noctaya.wire.identity import Role, identity_uri, role_named

WORKER = "spiffe://noctaya/fleet/worker"
GATEWAY = "spiffe://noctaya/fleet/gateway"


def test_each_role_has_its_uri() -> None:
    assert {role: identity_uri("fleet", role) for role in Role} == {
        Role.WORKER: WORKER,
        Role.GATEWAY: GATEWAY,
    }


@pytest.mark.parametrize(
    ("uris", "role"),
    [
        ([WORKER], Role.WORKER),
        ([GATEWAY], Role.GATEWAY),
        ([], None),
        ([WORKER, GATEWAY], None),
        ([WORKER, WORKER], None),
        (["spiffe://noctaya/other/worker"], None),
        (["spiffe://noctaya/fleet/admin"], None),
        (["spiffe://noctaya/fleet/worker/"], None),
        (["spiffe://elsewhere/fleet/worker"], None),
        (["SPIFFE://noctaya/fleet/worker"], None),
        (["spiffe://noctaya/fleet/../fleet/worker"], None),
        ([""], None),
    ],
)
def test_only_exactly_one_uri_of_this_fleet_names_a_role(uris: list[str], role: Role | None) -> None:
    assert role_named(uris, "fleet") is role
