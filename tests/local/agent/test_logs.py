"""Container logs: whole, from the tail, as they grow, turned over, and through the API server."""

import asyncio
from pathlib import Path

import pytest

from noctaya.kube.errors import BadRequest
from noctaya.kube.resources import PODS
from noctaya.local.agent.logs import ContainerLog
from tests.local.agent.cluster import LocalCluster, container, is_ready, waiting_reason


async def read(log: ContainerLog, **options: object) -> bytes:
    return b"".join([piece async for piece in log.read(**options)])  # type: ignore[arg-type]


async def test_lines_are_kept_whole_whatever_pieces_they_came_in(tmp_path: Path) -> None:
    log = ContainerLog(tmp_path / "0.log", 10_000)
    for piece in (b"one\ntw", b"o\n", b"thr", b"ee"):
        log.write(piece)
    assert await read(log) == b"one\ntwo\n"
    log.close()
    assert await read(log) == b"one\ntwo\nthree\n"
    assert await read(log, tail_lines=2) == b"two\nthree\n"
    stamped = await read(log, timestamps=True, tail_lines=1)
    assert stamped.endswith(b"Z three\n")


async def test_a_log_never_takes_more_than_twice_its_limit(tmp_path: Path) -> None:
    log = ContainerLog(tmp_path / "0.log", 2_000)
    for number in range(500):
        log.write(f"line {number}\n".encode())
    log.close()
    assert len(log.path.read_bytes()) + len(log.older.read_bytes()) <= 4_000
    text = await read(log)
    assert text.endswith(b"line 499\n")
    assert b"line 0\n" not in text


async def test_a_line_without_an_end_is_cut_into_parts_and_read_back_as_one(tmp_path: Path) -> None:
    log = ContainerLog(tmp_path / "0.log", 10_000_000)
    log.write(b"x" * 50_000)
    log.write(b"y\n")
    log.close()
    assert await read(log) == b"x" * 50_000 + b"y\n"


async def test_a_follower_gets_every_line_and_ends_with_the_log(tmp_path: Path) -> None:
    log = ContainerLog(tmp_path / "0.log", 10_000)
    log.write(b"before\n")
    follower = asyncio.create_task(read(log, follow=True))
    for number in range(20):
        await asyncio.sleep(0)
        log.write(f"{number}\n".encode())
    log.close()
    async with asyncio.timeout(2):
        assert await follower == b"before\n" + b"".join(f"{n}\n".encode() for n in range(20))


async def test_a_pods_log_is_served_by_the_api_server(cluster: LocalCluster) -> None:
    await cluster.pod(
        "talks", [container("import sys; print('first'); sys.exit(1)")], restartPolicy="OnFailure"
    )
    await cluster.until(PODS, "talks", lambda p: waiting_reason(p) == "CrashLoopBackOff")
    path = PODS.path("default", "talks", "log")

    assert await cluster.client.raw("GET", path) == b"first\n"
    assert await cluster.client.raw("GET", path, query={"previous": "true"}) == b"first\n"


async def test_the_previous_log_of_a_container_that_never_restarted_is_refused(cluster: LocalCluster) -> None:
    await cluster.pod("once", [container("import signal; signal.sigwait({15})")])
    await cluster.until(PODS, "once", is_ready)
    path = PODS.path("default", "once", "log")

    with pytest.raises(BadRequest, match="previous terminated container"):
        await cluster.client.raw("GET", path, query={"previous": "true"})


async def test_the_log_of_a_container_that_waits_says_what_it_waits_for(cluster: LocalCluster) -> None:
    await cluster.pod("nope", [container("", image="registry.example/nope:v1")])
    await cluster.until(PODS, "nope", lambda p: waiting_reason(p) == "ErrImagePull")

    with pytest.raises(BadRequest, match=r"is waiting to start: .*registry.example/nope:v1"):
        await cluster.client.raw("GET", PODS.path("default", "nope", "log"))
