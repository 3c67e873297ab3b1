"""Client keys: fail closed, digests only, open namespaces by policy."""

import hashlib
import hmac

import pytest

from noctaya.gateway.keys import Gate
from noctaya.gateway.openai_errors import Refusal
from noctaya.gateway.service import Service
from tests.gateway.services import SECRET, service

RIGHT = hmac.new(SECRET, b"sk-right", hashlib.sha256).digest()
OLD = hmac.new(SECRET, b"sk-old", hashlib.sha256).digest()


def locked(*digests: bytes) -> Service:
    return service(auth_required=True, keys=[{"hmac_sha256": digest} for digest in digests])


def status_of(gate: Gate, of: Service, authorization: str | None) -> int:
    refusal = gate.objection(of, gate.caller(authorization))
    return refusal.status if refusal else 200


@pytest.mark.parametrize(
    ("authorization", "status"),
    [
        ("Bearer sk-right", 200),
        ("bearer sk-right", 200),
        ("Bearer sk-old", 200),
        ("Bearer sk-wrong", 401),
        ("Bearer ", 401),
        ("Basic c2s6", 401),
        ("sk-right", 401),
        (None, 401),
    ],
)
def test_any_of_a_services_keys_opens_it_and_nothing_else_does(
    authorization: str | None, status: int
) -> None:
    assert status_of(Gate(SECRET, frozenset({"*"})), locked(OLD, RIGHT), authorization) == status


def test_a_service_that_needs_keys_and_has_none_refuses_everybody() -> None:
    assert status_of(Gate(SECRET, frozenset({"*"})), locked(), "Bearer sk-right") == 503


def test_without_the_fleets_secret_nobody_with_a_key_gets_in() -> None:
    assert status_of(Gate(b"", frozenset({"*"})), locked(RIGHT), "Bearer sk-right") == 503


@pytest.mark.parametrize(
    ("namespaces", "status"), [({"*"}, 200), ({"ai"}, 200), ({"other"}, 403), (set[str](), 403)]
)
def test_a_service_without_keys_is_served_only_in_an_open_namespace(
    namespaces: set[str], status: int
) -> None:
    assert status_of(Gate(SECRET, frozenset(namespaces)), service(), None) == status


def test_a_refusal_asks_for_a_bearer_token_and_never_repeats_the_key() -> None:
    gate = Gate(SECRET)
    with pytest.raises(Refusal) as caught:
        gate.check(locked(RIGHT), gate.caller("Bearer sk-secret-guess"))
    assert caught.value.headers["www-authenticate"].startswith("Bearer")
    assert b"sk-secret-guess" not in caught.value.body()
