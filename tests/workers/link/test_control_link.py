"""The control link over a real connection: what a gateway is told, and what becomes of what it says."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import grpc.aio
import pytest

from noctaya.api.names import HASH_NAME, SHARD_COUNT, shard_of
from noctaya.wire import SERVER_OPTIONS, control, control_grpc
from noctaya.workers.demand import AtLeast, DemandBook, Known
from noctaya.workers.gateways import GatewayContainer, Phase
from noctaya.workers.intake import Intake
from noctaya.workers.link import ControlLink, FleetFacts
from noctaya.workers.permission import Permission
from noctaya.workers.pushes import Cause, Push, Pushes
from noctaya.workers.route_book import RouteBook
from tests.workers.clients import Gateway, gateway, until

SHARD = shard_of("ai", "qwen")
POD = ("noctaya-system", "g0")
SECRET = b"k" * 32


class Authority:
    """An ownership that tests turn by hand."""

    def __init__(self) -> None:
        self.fleet = "fleet-1"
        self.granted = Permission.ACT
        self.current = 3
        self.seen: list[tuple[int, int]] = []

    def permission(self, shard: int) -> Permission:
        return self.granted

    def epoch(self, shard: int) -> int:
        return self.current

    def owned(self) -> list[int]:
        return [] if self.granted is Permission.NONE else list(range(SHARD_COUNT))

    def see_epoch(self, shard: int, epoch: int) -> None:
        self.seen.append((shard, epoch))


class World:
    """A link server and everything around it."""

    def __init__(self) -> None:
        self.authority = Authority()
        self.routes = RouteBook()
        self.pushed: list[Push] = []
        self.pushes = Pushes(lambda key: False)
        self.now = 1000.0
        self.demand = DemandBook()
        self.intake = Intake(
            self.demand, self.pushes, self.authority, push=self.pushed.extend, clock=lambda: self.now
        )
        self.is_ready = True
        facts = FleetFacts("w0", SECRET, ("ai", "lab"))
        self.link = ControlLink(
            facts, self.routes, self.intake, self.authority, is_ready=lambda: self.is_ready
        )
        self.port = 0

    def put(self, name: str = "qwen", generation: int = 1) -> None:
        shard = self.routes.put(control.Service(namespace="ai", name=name, generation=generation))
        assert shard is not None
        self.link.routes_changed([shard])

    @asynccontextmanager
    async def linked(self, boot: str = "b0", **hello: object) -> AsyncIterator[Gateway]:
        async with gateway(self.port, boot=boot) as client:
            await client.hello(**hello)  # type: ignore[arg-type]
            await until(lambda: client.welcome)
            yield client


@pytest.fixture
async def world() -> AsyncIterator[World]:
    made = World()
    server = grpc.aio.server(options=SERVER_OPTIONS)
    control_grpc.add_ControlServicer_to_server(made.link, server)
    made.port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    yield made
    await server.stop(0.1)


async def test_a_gateway_is_welcomed_with_the_fleets_facts_and_every_shard(world: World) -> None:
    world.put()
    async with world.linked() as client:
        welcome = client.welcome
        assert welcome is not None
        assert (welcome.fleet, welcome.worker, welcome.shard_count, welcome.hash) == (
            "fleet-1",
            "w0",
            SHARD_COUNT,
            HASH_NAME,
        )
        assert (welcome.key_digest_secret, list(welcome.policy.open_namespaces)) == (SECRET, ["ai", "lab"])
        await until(lambda: len(client.updates()) == SHARD_COUNT)
        (update,) = client.updates(SHARD)
        assert (update.fleet, update.epoch, update.base_version) == ("fleet-1", 3, 0)
        assert [service.name for service in update.services] == ["qwen"]


async def test_a_change_is_a_delta_upon_what_was_sent(world: World) -> None:
    async with world.linked() as client:
        await until(lambda: len(client.updates()) == SHARD_COUNT)
        world.put()
        await until(lambda: len(client.updates(SHARD)) == 2)
        snapshot, delta = client.updates(SHARD)
        assert delta.base_version == snapshot.version


async def test_what_a_gateway_already_holds_is_not_sent_again(world: World) -> None:
    world.put()
    known = [
        control.ShardVersion(shard=shard, epoch=3, version=world.routes.version(shard))
        for shard in range(SHARD_COUNT)
    ]
    async with world.linked(fleet="fleet-1", known=known) as client:
        await client.wake("qwen", wake_id=9)
        await until(client.wake_acks)
        assert client.updates() == []
    async with world.linked(fleet="another", known=known) as client:
        await until(lambda: len(client.updates()) == SHARD_COUNT)


async def test_a_version_gap_is_answered_with_a_snapshot_and_a_stale_epoch_with_doubt(world: World) -> None:
    async with world.linked() as client:
        await until(lambda: len(client.updates()) == SHARD_COUNT)
        await client.nack(SHARD, control.Nack.VERSION_GAP)
        await until(lambda: len(client.updates(SHARD)) == 2)
        assert client.updates(SHARD)[1].base_version == 0
        await client.nack(SHARD, control.Nack.STALE_EPOCH, epoch=8)
        await until(lambda: world.authority.seen == [(SHARD, 8)])
        await client.nack(100_000, control.Nack.INVALID)
        await until(lambda: world.link.nacks == {"VERSION_GAP": 1, "STALE_EPOCH": 1, "INVALID": 1})


async def test_nothing_is_told_without_permission_or_before_the_book_is_whole(world: World) -> None:
    world.is_ready = False
    async with world.linked() as client:
        world.put()
        await client.wake("qwen", wake_id=1)
        await until(lambda: client.wake_acks() == {1: True})
        assert client.updates() == []
        world.is_ready, world.authority.granted = True, Permission.NONE
        world.link.ownership_changed()
        await client.wake("qwen", wake_id=2)
        await until(lambda: client.wake_acks() == {1: True, 2: False})
        assert client.updates() == []
        world.authority.granted = Permission.ACT
        world.link.ownership_changed()
        await until(lambda: len(client.updates()) == SHARD_COUNT)


async def test_out_of_reach_of_the_api_server_only_what_was_published_is_sent(world: World) -> None:
    async with world.linked() as client:
        await until(lambda: len(client.updates()) == SHARD_COUNT)
        world.authority.granted = Permission.GROW
        world.put()
        async with world.linked(boot="b1") as second:
            await until(lambda: len(second.updates()) == SHARD_COUNT - 1)
            assert second.updates(SHARD) == []
        assert len(client.updates(SHARD)) == 1


async def test_a_new_epoch_starts_with_snapshots(world: World) -> None:
    async with world.linked() as client:
        await until(lambda: len(client.updates()) == SHARD_COUNT)
        world.authority.current = 4
        world.link.ownership_changed()
        await until(lambda: len(client.updates()) == 2 * SHARD_COUNT)
        assert all((update.epoch, update.base_version) == (4, 0) for update in client.updates()[SHARD_COUNT:])


async def test_reports_add_up_and_a_broken_stream_keeps_its_demand_while_bye_does_not(world: World) -> None:
    world.demand.begin(world.now)
    world.now += 20
    world.demand.observe({POD: GatewayContainer(Phase.RUNNING, "a")}, world.now)
    async with world.linked() as client:
        await client.report(qwen=2)
        await until(lambda: world.demand.demand("ai/qwen", world.now) == Known(2))
    await until(lambda: not list(world.link.sessions))
    assert world.demand.demand("ai/qwen", world.now) == AtLeast(2)
    async with world.linked(boot="b1") as client:
        await client.report(qwen=1)
        await until(lambda: world.demand.demand("ai/qwen", world.now) == Known(1))
        await client.bye()
        await until(lambda: client.is_ended)
        assert world.demand.seen("ai/qwen", world.now) == 0


async def test_a_service_counts_as_in_use_for_ten_minutes_after_its_last_request(world: World) -> None:
    async with world.linked() as client:
        assert not world.intake.is_in_use("ai/qwen")
        await client.report(qwen=1)
        await until(lambda: world.intake.is_in_use("ai/qwen"))
        await client.report()
        await until(lambda: world.demand.seen("ai/qwen", world.now) == 0)
        world.now += 599.0
        assert world.intake.is_in_use("ai/qwen")
        world.now += 1.0
        assert not world.intake.is_in_use("ai/qwen")


async def test_a_wake_is_pushed_and_a_gateways_higher_epoch_casts_doubt(world: World) -> None:
    world.pushes.opened(1, "ai/qwen", is_active=False, now=0.0)
    async with world.linked() as client:
        await client.wake("qwen", epoch_known=9)
        await until(lambda: world.pushed)
        assert world.authority.seen == [(SHARD, 9)]
        assert world.intake.reports == {"accepted": 1, "stale": 0}


async def test_a_worker_that_leaves_says_so_and_ends_the_stream(world: World) -> None:
    async with world.linked() as client:
        await world.link.drain(5.0)
        await until(lambda: client.is_ended)
        assert client.received[-1].HasField("drain")


async def test_a_stream_that_does_not_begin_with_hello_is_refused(world: World) -> None:
    async with gateway(world.port) as client:
        await client.bye()
        with pytest.raises(grpc.aio.AioRpcError, match="first message must be Hello"):
            await client.read()


def test_the_digest_secret_is_never_shown() -> None:
    assert "kkkk" not in repr(FleetFacts("w", SECRET, ()))


async def test_who_holds_kedas_stream_pushes_and_follows_up_whoever_owns_the_model(world: World) -> None:
    """KEDA opens its stream at any worker, and drops a push that comes too early for it."""
    world.authority.granted = Permission.NONE
    world.pushes.opened(1, "ai/qwen", is_active=False, now=world.now)
    async with world.linked() as client:
        await client.wake("qwen", wake_id=1)
        await until(lambda: client.wake_acks() == {1: False})
    assert [push.cause for push in world.pushed] == [Cause.EDGE]
    assert [push.cause for push in world.pushes.tick(world.now + 3.1)] == [Cause.REASSERTED]
