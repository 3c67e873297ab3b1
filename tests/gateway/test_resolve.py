"""Which service a request means: path, then Host, then the body's model, within what the caller may use."""

import pytest

from noctaya.gateway import resolve
from noctaya.gateway.keys import Caller, Gate
from noctaya.gateway.openai_errors import Refusal
from noctaya.gateway.routing import RouteTable
from tests.gateway.services import SECRET, message, update

NOBODY = Caller(None)
OPEN = Gate(SECRET, frozenset({"*"}))


def table_of(*names: str, **more: object) -> RouteTable:
    table = RouteTable()
    table.apply(update(*(message(name, **more) for name in names)))
    return table


def test_a_path_names_the_service_and_is_cut_to_what_the_engine_knows() -> None:
    target = resolve.by_address(table_of("ai/tiny"), "/ai/tiny/v1/chat/completions", "gateway")
    assert target.service is not None
    assert (target.service.key, target.path) == ("ai/tiny", "/v1/chat/completions")


def test_a_path_to_an_unknown_service_is_not_found_whatever_the_host_says() -> None:
    with pytest.raises(Refusal, match="ai/other") as caught:
        resolve.by_address(table_of("ai/tiny"), "/ai/other/v1/models", "tiny.ai")
    assert (caught.value.status, caught.value.code) == (404, "model_not_found")


@pytest.mark.parametrize(
    "host",
    [
        "tiny.ai",
        "TINY.ai:8080",
        "tiny.ai.svc",
        "tiny.ai.svc.cluster.local",
        "tiny.ai.svc.my.domain.",
        "chat.example.com",
    ],
)
def test_a_host_names_the_service(host: str) -> None:
    table = table_of("ai/tiny", hostnames=["chat.example.com"])
    found = resolve.by_host(table, host)
    assert found is not None
    assert found.key == "ai/tiny"


@pytest.mark.parametrize(
    "host", ["", "noctaya-gateway.noctaya-system.svc", "127.0.0.1:8080", "[::1]:8080", "tiny.ai.pod"]
)
def test_a_host_of_nobody_leaves_the_body_to_decide(host: str) -> None:
    assert resolve.by_address(table_of("ai/tiny"), "/v1/chat/completions", host).service is None


def test_a_declared_hostname_cannot_take_the_name_of_another_service() -> None:
    table = RouteTable()
    table.apply(
        update(message("ai/tiny", created_at=9), message("evil/thief", hostnames=["tiny.ai"], created_at=1))
    )
    found = resolve.by_host(table, "tiny.ai")
    assert found is not None
    assert found.key == "ai/tiny"


@pytest.mark.parametrize("model", ["ai/tiny", "tiny", "small", "Org/Tiny-1B"])
def test_a_model_is_found_by_every_name_of_it(model: str) -> None:
    table = table_of("ai/tiny", aliases=["small"], served_model_name="Org/Tiny-1B")
    assert resolve.by_model(table, OPEN, NOBODY, model).key == "ai/tiny"


def test_a_short_name_of_two_services_is_ambiguous_unless_the_key_tells_them_apart() -> None:
    mine = Gate(SECRET).caller("Bearer mine")
    assert mine.digest is not None
    table = RouteTable()
    key = {"auth_required": True, "keys": [{"hmac_sha256": mine.digest}]}
    table.apply(
        update(
            message("a/tiny", **key), message("b/tiny", auth_required=True, keys=[{"hmac_sha256": b"x" * 32}])
        )
    )
    assert resolve.by_model(table, Gate(SECRET), mine, "tiny").key == "a/tiny"
    both = table_of("a/tiny", "b/tiny")
    with pytest.raises(Refusal, match="a/tiny, b/tiny"):
        resolve.by_model(both, OPEN, NOBODY, "tiny")


@pytest.mark.parametrize(("model", "status"), [(None, 400), ("", 400), ("nothing", 404), ("ai/nothing", 404)])
def test_no_model_and_no_such_model_are_refused(model: str | None, status: int) -> None:
    with pytest.raises(Refusal) as caught:
        resolve.by_model(table_of("ai/tiny"), OPEN, NOBODY, model)
    assert caught.value.status == status


def test_a_stranger_is_turned_away_before_the_body_is_read() -> None:
    table = table_of("ai/tiny", auth_required=True, keys=[{"hmac_sha256": b"x" * 32}])
    for authorization in (None, "Bearer wrong"):
        with pytest.raises(Refusal) as caught:
            resolve.refuse_strangers(table, OPEN, OPEN.caller(authorization))
        assert caught.value.status == 401
    resolve.refuse_strangers(table_of("ai/tiny"), OPEN, NOBODY)
