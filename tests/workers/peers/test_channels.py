"""Connections to peers: one an address, bounded, closed when they have long not been wanted."""

from __future__ import annotations

from collections.abc import AsyncIterator

import grpc.aio
import pytest

from noctaya.workers.peer_channels import PeerChannels, insecure


class World:
    def __init__(self) -> None:
        self.now = 1000.0
        self.opened: list[str] = []
        self.channels: dict[str, grpc.aio.Channel] = {}
        self.pool = PeerChannels(self.open, lambda: self.now, most=2, idle_seconds=300.0)

    def open(self, address: str) -> grpc.aio.Channel:
        self.opened.append(address)
        self.channels[address] = insecure(address)
        return self.channels[address]

    async def touch(self, address: str) -> None:
        async with self.pool.use(address) as stub:
            assert stub is not None

    def is_closed(self, address: str) -> bool:
        return self.channels[address].get_state() is grpc.ChannelConnectivity.SHUTDOWN


@pytest.fixture
async def world() -> AsyncIterator[World]:
    made = World()
    yield made
    await made.pool.close()


async def test_an_address_has_one_channel(world: World) -> None:
    async with world.pool.use("127.0.0.1:1") as first, world.pool.use("127.0.0.1:1") as second:
        assert first is second
    await world.touch("127.0.0.1:1")
    assert world.opened == ["127.0.0.1:1"]


async def test_a_channel_that_is_long_not_wanted_is_closed_when_another_was_used(world: World) -> None:
    await world.touch("127.0.0.1:1")
    world.now += 299
    await world.touch("127.0.0.1:2")
    assert world.pool.addresses == ["127.0.0.1:1", "127.0.0.1:2"]
    world.now += 1
    await world.touch("127.0.0.1:2")
    assert world.pool.addresses == ["127.0.0.1:2"]
    assert world.is_closed("127.0.0.1:1")


async def test_a_channel_in_use_is_not_closed_however_long(world: World) -> None:
    async with world.pool.use("127.0.0.1:1"):
        world.now += 1000
        await world.touch("127.0.0.1:2")
        assert "127.0.0.1:1" in world.pool.addresses
        assert not world.is_closed("127.0.0.1:1")


async def test_one_too_many_takes_the_place_of_who_rested_longest(world: World) -> None:
    for address in ("127.0.0.1:1", "127.0.0.1:2", "127.0.0.1:1", "127.0.0.1:3"):
        await world.touch(address)
    assert world.pool.addresses == ["127.0.0.1:1", "127.0.0.1:3"]
    assert world.is_closed("127.0.0.1:2")


async def test_with_all_in_use_there_is_no_room_for_another(world: World) -> None:
    async with world.pool.use("127.0.0.1:1"), world.pool.use("127.0.0.1:2"):
        async with world.pool.use("127.0.0.1:3") as stub:
            assert stub is None
        async with world.pool.use("127.0.0.1:2") as stub:
            assert stub is not None
    assert world.opened == ["127.0.0.1:1", "127.0.0.1:2"]


async def test_once_closed_nothing_is_opened_any_more(world: World) -> None:
    await world.touch("127.0.0.1:1")
    await world.pool.close()
    assert world.is_closed("127.0.0.1:1")
    async with world.pool.use("127.0.0.1:1") as stub:
        assert stub is None
