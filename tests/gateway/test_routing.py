"""The route table never goes back, never loses what it holds to a bad update, and finds a service by host and name."""

from hypothesis import given, settings
from hypothesis import strategies as st

from noctaya.gateway.routing import Applied, Refused, RouteTable
from noctaya.wire import control
from tests.gateway.services import FLEET, message, update

Reason = control.Nack.Reason


def keys(table: RouteTable) -> set[str]:
    return {service.key for service in table}


def held_now(table: RouteTable) -> bool:
    return len(table) > 0


def reason(result: Applied | Refused) -> "control.Nack.Reason | None":
    return result.reason if isinstance(result, Refused) else None


def test_a_snapshot_replaces_the_shard_and_a_delta_changes_what_it_names() -> None:
    table = RouteTable()
    table.apply(update(message("ai/a"), message("ai/b")))
    result = table.apply(update(message("ai/c"), base_version=1, version=2, removed=["ai/a"]))
    assert result == Applied(frozenset({"ai/a", "ai/c"}))
    assert keys(table) == {"ai/b", "ai/c"}
    table.apply(update(message("ai/c"), version=3))
    assert keys(table) == {"ai/c"}


def test_an_older_epoch_is_refused_with_what_is_held() -> None:
    table = RouteTable()
    table.apply(update(message("ai/a"), epoch=5, version=3))
    result = table.apply(update(epoch=4, version=9))
    assert isinstance(result, Refused)
    assert (result.reason, result.epoch, result.version) == (Reason.STALE_EPOCH, 5, 3)
    assert keys(table) == {"ai/a"}


def test_a_delta_upon_another_version_is_a_gap() -> None:
    table = RouteTable()
    table.apply(update(message("ai/a"), version=3))
    assert reason(table.apply(update(message("ai/b"), base_version=4, version=5))) == Reason.VERSION_GAP
    assert (
        reason(table.apply(update(message("ai/b"), epoch=2, base_version=3, version=4))) == Reason.VERSION_GAP
    )
    assert keys(table) == {"ai/a"}


def test_an_invalid_service_refuses_the_whole_update() -> None:
    table = RouteTable()
    table.apply(update(message("ai/a")))
    assert reason(table.apply(update(message("ai/b"), message("/nameless"), version=2))) == Reason.INVALID
    assert keys(table) == {"ai/a"}


def test_a_new_fleet_voids_positions_but_serves_what_was_held_until_it_has_spoken() -> None:
    table = RouteTable()
    table.apply(update(message("ai/a"), epoch=9))
    table.apply(update(message("ai/x"), shard=8, epoch=9))
    table.apply(update(message("ai/b"), fleet="fleet-2", epoch=1))
    assert table.fleet == "fleet-2"
    assert keys(table) == {"ai/b", "ai/x"}
    assert [(known.shard, known.epoch) for known in table.known()] == [(7, 1)]
    assert reason(table.apply(update(message("ai/a"), epoch=10))) == Reason.STALE_EPOCH, (
        "a replaced fleet stays replaced"
    )


def test_a_hostname_claimed_twice_belongs_to_the_older_service() -> None:
    table = RouteTable()
    table.apply(
        update(
            message("ai/young", hostnames=["chat.example.com"], created_at=20),
            message("ai/old", hostnames=["Chat.example.com."], created_at=10),
        )
    )
    found = table.by_hostname("chat.example.com")
    assert found is not None
    assert found.key == "ai/old"


def test_names_and_hosts_of_a_changed_service_are_forgotten() -> None:
    table = RouteTable()
    table.apply(update(message("ai/a", aliases=["small"], hostnames=["a.example"])))
    table.apply(update(message("ai/a", aliases=["tiny"]), version=2))
    assert table.by_name("small") == []
    assert table.by_hostname("a.example") is None
    assert [service.key for service in table.by_name("tiny")] == ["ai/a"]


updates = st.builds(
    lambda fleet, shard, epoch, version, base, names: control.ShardUpdate(
        fleet=fleet,
        shard=shard,
        epoch=epoch,
        version=version,
        base_version=base,
        services=[message(f"ai/s{shard}-{name}") for name in names],
    ),
    st.sampled_from([FLEET, FLEET, FLEET, "fleet-2"]),
    st.integers(0, 2),
    st.integers(0, 4),
    st.integers(0, 4),
    st.integers(0, 3),
    st.sets(st.sampled_from("abc"), max_size=3),
)


@settings(max_examples=80, deadline=None)
@given(st.lists(updates, max_size=30))
def test_in_any_order_positions_never_fall_and_refusals_change_nothing(
    told: list["control.ShardUpdate"],
) -> None:
    table = RouteTable()
    for one in told:
        before = {known.shard: (known.epoch, known.version) for known in table.known()}
        fleet, held = table.fleet, keys(table)
        result = table.apply(one)
        after = {known.shard: (known.epoch, known.version) for known in table.known()}
        if isinstance(result, Refused):
            assert (table.fleet, keys(table), after) == (fleet, held, before)
        elif table.fleet == fleet:
            assert all(after[shard] >= position for shard, position in before.items())
        indexed = {
            service.key
            for name in "abc"
            for shard in range(3)
            for service in table.by_name(f"s{shard}-{name}")
        }
        assert indexed == keys(table)
        assert set(table.keyless_namespaces()) == ({"ai"} if held_now(table) else set())
