"""The operator's commands as a person runs them: text, `--json`, exit codes, and sentences instead of tracebacks."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
import threading
from asyncio.subprocess import PIPE
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path

import aiohttp
import pytest

from noctaya.api.names import SHARD_COUNT, shard_of
from noctaya.cli import main
from noctaya.leader.lease_names import ANNOTATION_CORDON, ANNOTATION_FREEZE
from noctaya.leader.planner_events import ShardSeen, ShardView
from tests.kubectl_run import Finished
from tests.ops.conftest import Seen
from tests.ops.fleet import Fleet, fleet_of

NOCTAYA = (sys.executable, "-m", "noctaya")
RUN_SECONDS = 60.0


async def run(*words: str, **environment: str) -> Finished:
    process = await asyncio.create_subprocess_exec(
        *NOCTAYA, *words, env={**os.environ, **environment}, stdout=PIPE, stderr=PIPE
    )
    try:
        async with asyncio.timeout(RUN_SECONDS):
            out, err = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    assert b"Traceback" not in err, err.decode()
    return Finished(process.returncode or 0, out.decode(), err.decode())


@dataclass(frozen=True)
class Here:
    """`main` called in this process: the same code, without the seconds that a start takes."""

    monkeypatch: pytest.MonkeyPatch
    captured: pytest.CaptureFixture[str]

    def __call__(self, *words: str) -> Finished:
        self.monkeypatch.setattr(sys, "argv", ["noctaya", *words])
        with pytest.raises(SystemExit) as ended:
            main()
        out, err = self.captured.readouterr()
        return Finished(ended.value.code if isinstance(ended.value.code, int) else 0, out, err)


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Here:
    monkeypatch.setenv("COLUMNS", "200")
    return Here(monkeypatch, capsys)


@pytest.fixture
def beside(fleet: Fleet) -> Iterator[str]:
    """The address of the fleet's admin port, served by a thread."""
    loop = asyncio.new_event_loop()
    started, stop = Future[str](), asyncio.Event()

    async def serve() -> None:
        async with fleet.serving() as found:
            started.set_result(found)
            await stop.wait()

    thread = threading.Thread(target=lambda: loop.run_until_complete(serve()))
    thread.start()
    try:
        yield started.result(RUN_SECONDS)
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join()
        loop.close()


@pytest.fixture
def fleet() -> Fleet:
    return fleet_of(3)


@pytest.fixture
async def url(fleet: Fleet) -> AsyncIterator[str]:
    async with fleet.serving() as found:
        yield found


@pytest.mark.parametrize(
    "words",
    [
        ("status",), ("workers",), ("shards",), ("moves",), ("owner", "ai/qwen"), ("why", "17"), ("story", "--limit", "2000"),
        ("rebalance", "--dry-run"), ("plan", "--workers", "5"), ("verify",), ("dump", "-"),
    ],
)  # fmt: skip
def test_every_question_is_answered_as_text_and_as_json(
    here: Here, beside: str, words: tuple[str, ...]
) -> None:
    text, machine = here(*words, "--admin", beside), here(*words, "--json", "--admin", beside)
    assert (text.code, text.err) == (0, "")
    assert text.out.strip()
    assert (machine.code, type(json.loads(machine.out)) in (dict, list)) == (0, True)


def test_status_shows_the_fleet_in_columns(here: Here, beside: str, fleet: Fleet) -> None:
    lines = here("status", "--admin", beside).out.splitlines()
    assert lines[0].split() == ["fleet", fleet.world.fleet]
    assert lines[1].split() == ["leader", "w0,", "epoch", "1"]
    assert lines[3].split() == ["mode", "normal"]
    assert lines[4].startswith(f"shards   {SHARD_COUNT} of {SHARD_COUNT} owned, 0 moving")
    table = [line.split() for line in lines if line.startswith(("WORKER", "w"))]
    assert table[0][:4] == ["WORKER", "STATE", "SHARDS", "DESIRED"]
    assert [row[0] for row in table[1:]] == ["w0", "w1", "w2"]
    assert sum(int(row[2]) for row in table[1:]) == SHARD_COUNT


def test_shards_of_one_worker_are_its_share(here: Here, beside: str, fleet: Fleet) -> None:
    shown = json.loads(here("shards", "--worker", "w1", "--json", "--admin", beside).out)
    assert len(shown) == fleet.world.counts()["w1"]
    assert {shard["pod"] for shard in shown} == {"w1"}


async def test_a_watched_status_is_shown_again_until_it_is_interrupted(url: str) -> None:
    process = await asyncio.create_subprocess_exec(
        *NOCTAYA, "status", "--watch", "--json", "--admin", url, stdout=PIPE, stderr=PIPE
    )
    assert process.stdout is not None
    async with asyncio.timeout(RUN_SECONDS):
        seen = [json.loads(await read_line(process.stdout)) for _ in range(2)]
        process.send_signal(signal.SIGINT)
        _, err = await process.communicate()
    assert (process.returncode, err) == (0, b"")
    assert [fleet["shards"]["total"] for fleet in seen] == [SHARD_COUNT, SHARD_COUNT]


async def read_line(stream: asyncio.StreamReader) -> bytes:
    """A line of any length."""
    line = b""
    while not line.endswith(b"\n"):
        piece = await stream.read(65536)
        assert piece, "it ended"
        line += piece
    return line


def test_verify_ends_with_1_when_something_is_wrong(here: Here, beside: str, fleet: Fleet) -> None:
    assert here("verify", "--admin", beside).out == "nothing is inconsistent\n"
    assert fleet.world.map is not None
    shard = fleet.world.map.shards_of("w1")[0]
    fleet.world.hide("w1")  # its worker would take it again
    fleet.world.workers["w1"].is_alive = False
    fleet.world.shards[shard] = ShardView(shard, "", 0)
    fleet.world.feed(ShardSeen(fleet.world.shards[shard]))
    found = here("verify", "--admin", beside)
    assert found.code == 1
    assert f"shard/{shard}: it has no record, and should be with w1" in found.out


async def test_the_shard_of_a_service_is_known_without_any_cluster(tmp_path: Path) -> None:
    nowhere = {"HOME": str(tmp_path), "KUBECONFIG": str(tmp_path / "none"), "KUBERNETES_SERVICE_HOST": ""}
    text = await run("owner", "ai/qwen", **nowhere)
    assert (text.code, text.out) == (0, f"ai/qwen lives in shard {shard_of('ai', 'qwen')}\n")
    assert "whose it is cannot be told" in text.err
    machine = json.loads((await run("owner", "ai/qwen", "--json", **nowhere)).out)
    assert (machine["shard"], machine["owner"]) == (shard_of("ai", "qwen"), None)


def test_the_owner_is_named_when_somebody_answers(here: Here, beside: str, fleet: Fleet) -> None:
    record = fleet.world.shards[shard_of("ai", "qwen")]
    text = here("owner", "ai/qwen", "--admin", beside).out.splitlines()
    assert text[1] == f"owned by {record.holder.partition('_')[0]} under epoch {record.epoch}"


def test_a_dump_goes_to_a_file_and_says_who_is_in_it(here: Here, beside: str, tmp_path: Path) -> None:
    file = tmp_path / "fleet.json"
    told = json.loads(here("dump", str(file), "--json", "--admin", beside).out)
    assert told == {"file": str(file), "workers": [beside], "unreached": {}}
    assert json.loads(file.read_text())["workers"][beside]["fleet"]["members"]
    refused = here("dump", str(tmp_path / "no" / "where.json"), "--admin", beside)
    assert refused.code == 2
    assert "choose another name" in refused.err


async def test_a_drain_shows_its_progress_and_ends_when_it_is_done(seen: Seen) -> None:
    async with seen.fleet.serving() as url:
        done = await run("drain", "w1", "--admin", url, "--kubeconfig", str(seen.kubeconfig))
    assert done.code == 0, done.err
    assert done.out.startswith("w1: owns nothing now")
    left = [int(line.split()[1]) for line in done.err.splitlines()]
    assert left[-1] == 0
    assert left == sorted(left, reverse=True)
    assert left[0] > 0
    assert seen.fleet.world.counts().get("w1", 0) == 0


async def test_a_drain_without_waiting_only_asks(seen: Seen) -> None:
    done = await run("drain", "w1", "--no-wait", "--json", "--kubeconfig", str(seen.kubeconfig))
    assert json.loads(done.out) == {"worker": "w1", "drain": True, "is_empty": False}


async def test_an_interrupted_drain_says_that_the_wish_stays(seen: Seen) -> None:
    words = ("drain", "w0", "w1", "w2", "--kubeconfig", str(seen.kubeconfig))
    async with seen.fleet.serving() as url:
        process = await asyncio.create_subprocess_exec(
            *NOCTAYA, *words, "--admin", url, stdout=PIPE, stderr=PIPE
        )
        assert process.stderr is not None
        async with asyncio.timeout(RUN_SECONDS):
            await process.stderr.readline()
            process.send_signal(signal.SIGINT)
            out, err = await process.communicate()
    assert (process.returncode, out) == (130, b"")
    assert b"noctaya uncordon takes it back (w0, w1, w2)" in err


async def test_wishes_are_written_and_taken_back(seen: Seen) -> None:
    where = ("--kubeconfig", str(seen.kubeconfig))
    assert (await run("cordon", "w1", *where)).out.startswith("w1 gets no new shards")
    assert seen.worker("w1")[ANNOTATION_CORDON] == "true"
    assert (await run("freeze", *where)).code == 0
    assert seen.map()[ANNOTATION_FREEZE] == "true"
    await run("uncordon", "w1", *where)
    await run("unfreeze", *where)
    assert (ANNOTATION_CORDON in seen.worker("w1"), seen.map()) == (False, {})


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("why", "128"), 2, "give a number from 0 to 127"),
        (("owner", "qwen"), 2, "give NAMESPACE/NAME"),
        (("rebalance",), 2, "--dry-run shows what it would move"),
        (("plan",), 2, "--workers"),
        (("status", "--admin", "nonsense"), 2, "http://127.0.0.1:8081"),
        (("status", "--admin", "http://127.0.0.1:1"), 1, "no answer from the admin port"),
        (("cordon", "w1", "--kubeconfig", "/nowhere"), 1, "/nowhere"),
    ],
)
def test_what_cannot_be_is_one_sentence_and_an_exit_code(
    here: Here, words: tuple[str, ...], code: int, said: str
) -> None:
    refused = here(*words)
    assert refused.code == code, refused.err
    assert said in refused.err
    assert refused.out == ""


async def test_the_admin_port_says_what_a_parameter_should_be(url: str) -> None:
    async with aiohttp.ClientSession() as session, session.get(f"{url}/debug/why?shard=x") as answer:
        assert answer.status == 400
        assert (await answer.json())["error"].startswith("shard must be a number from 0 to 127")
