"""Bytes into events: whatever the pieces, the lines are the same, and no line may take all the memory."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from noctaya.kube.client import Client
from noctaya.kube.errors import Gone, Unavailable
from noctaya.kube.resources import PODS
from noctaya.kube.watching import EventTooLarge, LineSplitter
from tests.kube.fake_server import GONE_STATUS, FakeServer


@given(st.lists(st.binary(max_size=20).filter(lambda line: b"\n" not in line)), st.lists(st.integers(1, 30)))
def test_lines_do_not_depend_on_how_the_bytes_were_cut(lines: list[bytes], cuts: list[int]) -> None:
    content = b"".join(line + b"\n" for line in lines)
    splitter = LineSplitter(100)
    found: list[bytes] = []
    for cut in cuts:
        found += splitter.feed(content[:cut])
        content = content[cut:]
    found += splitter.feed(content)
    assert found == [line for line in lines if line.strip()]


def test_a_line_without_an_end_is_given_up_at_the_limit() -> None:
    splitter = LineSplitter(10)
    assert splitter.feed(b"12345") == []
    with pytest.raises(OverflowError):
        splitter.feed(b"678901")


def test_a_whole_line_over_the_limit_is_refused_too() -> None:
    with pytest.raises(OverflowError):
        LineSplitter(10).feed(b"ok\n" + b"x" * 11 + b"\nok\n")


async def test_a_watch_yields_raw_events_and_bookmarks(server: FakeServer, client: Client) -> None:
    server.put("pods", "a")
    async with client.watch(PODS, resource_version="100") as stream:
        event = await anext(stream)
        assert (event.type, msgspec.json.decode(event.object)["metadata"]["name"]) == ("ADDED", "a")
        await server.bookmark("pods")
        assert (await anext(stream)).type == "BOOKMARK"
        server.end_streams()
        assert [one async for one in stream] == []


async def test_an_error_event_is_raised_as_what_it_is(server: FakeServer, client: Client) -> None:
    stream = client.watch(PODS, resource_version="100")
    await stream.open()
    await server.send("pods", "ERROR", GONE_STATUS)
    with pytest.raises(Gone, match="watch pods: HTTP 410 Expired"):
        await anext(stream)
    with pytest.raises(StopAsyncIteration):
        await anext(stream)


async def test_leaving_a_watch_early_closes_its_connection(server: FakeServer, client: Client) -> None:
    async with client.watch(PODS, resource_version="100"):
        transport = server.streams[0].transport
        assert not transport.is_closing()
    while server.streams:
        server.put("pods", "a")  # the server notices when it writes, but not always at the first time
        await client.version()


async def test_silence_is_unavailable(server: FakeServer, client: Client) -> None:
    async with client.watch(PODS, resource_version="100", silence_seconds=0.05) as stream:
        with pytest.raises(Unavailable, match="fell silent"):
            await anext(stream)


async def test_an_event_over_the_limit_has_its_own_error(server: FakeServer, client: Client) -> None:
    server.put("pods", "a", status={"message": "x" * 2000})
    async with client.watch(PODS, resource_version="100", max_event_bytes=1000) as stream:
        with pytest.raises(EventTooLarge, match="more than 1000 bytes"):
            await anext(stream)
