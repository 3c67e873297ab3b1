"""A channel goes on with the certificate that it was made with; once that is replaced, the next call gets another channel."""

from __future__ import annotations

import grpc.aio

from noctaya.workers.peer_channels import PeerChannels, insecure

ADDRESS = "127.0.0.1:1"


class Certificates:
    """Channels by the certificate of their time."""

    def __init__(self) -> None:
        self.present = 1
        self.made: list[tuple[grpc.aio.Channel, int]] = []
        self.pool = PeerChannels(self.open, lambda: 0.0, is_current=self.is_current)

    def open(self, address: str) -> grpc.aio.Channel:
        channel = insecure(address)
        self.made.append((channel, self.present))
        return channel

    def is_current(self, channel: grpc.aio.Channel) -> bool:
        return (channel, self.present) in self.made

    def closed(self) -> list[bool]:
        return [channel.get_state() is grpc.ChannelConnectivity.SHUTDOWN for channel, _ in self.made]


async def test_the_call_after_a_replaced_certificate_gets_a_new_channel_and_the_old_one_is_closed() -> None:
    world = Certificates()
    async with world.pool.use(ADDRESS):
        pass
    world.present = 2
    async with world.pool.use(ADDRESS):
        assert len(world.made) == 2
    assert world.closed() == [True, False]
    async with world.pool.use(ADDRESS):
        assert len(world.made) == 2, "the same certificate, the same channel"
    await world.pool.close()
    assert world.closed() == [True, True]


async def test_a_call_that_is_under_way_ends_on_its_channel() -> None:
    world = Certificates()
    async with world.pool.use(ADDRESS):
        world.present = 2
        async with world.pool.use(ADDRESS):
            assert len(world.made) == 2
        assert world.closed() == [False, False]
    async with world.pool.use(ADDRESS):
        pass
    assert world.closed() == [True, False]
    await world.pool.close()


async def test_closing_all_closes_the_replaced_ones_too() -> None:
    world = Certificates()
    async with world.pool.use(ADDRESS):
        world.present = 2
        async with world.pool.use(ADDRESS):
            await world.pool.close()
            assert world.closed() == [True, True]
