"""The fleet from Python: verbs that a Dask user knows, wishes as annotations, and errors that say what to do."""

from __future__ import annotations

import asyncio
import gzip
import json
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from aiohttp import web
from prometheus_client import CollectorRegistry

import noctaya
from noctaya import AsyncClient, Client
from noctaya.api.names import SHARD_COUNT, shard_of
from noctaya.kube.errors import ConfigError
from noctaya.leader.lease_names import ANNOTATION_CORDON, ANNOTATION_DRAIN, ANNOTATION_FREEZE
from noctaya.ops.errors import (
    AdminLacks,
    AdminUnreachable,
    AdminUnusable,
    NoShardMap,
    NotAllowed,
    NotInTime,
    SubjectRefused,
    UnknownWorker,
)
from noctaya.ops.subjects import shard_named, subject_named
from noctaya.ops.way import NAMESPACE
from noctaya.ops.wishes import SHARD_MAP
from noctaya.workers.admin import admin_app
from noctaya.workers.listening import listening
from noctaya.workers.problems import Problems
from tests.kube.fake_server import FakeServer, status
from tests.ops.conftest import Seen
from tests.ops.fleet import fleet_of


async def test_who_has_what_agrees_with_the_map() -> None:
    fleet = fleet_of(3)
    async with fleet.serving() as url, AsyncClient(url) as client:
        assert fleet.world.map is not None
        desired = fleet.world.map.desired
        who = await client.who_has()
        assert who == {f"shard/{shard}": [pod] for shard, pod in enumerate(desired)}
        asked = await client.who_has("ai/qwen", 3)
        assert asked == {"ai/qwen": [desired[shard_of("ai", "qwen")]], "3": [desired[3]]}
        what = await client.has_what()
        assert sorted(what) == ["w0", "w1", "w2"]
        assert sum(map(len, what.values())) == SHARD_COUNT
        assert await client.has_what("worker/w1") == {"w1": what["w1"]}
        with pytest.raises(UnknownWorker, match="there are: w0, w1, w2"):
            await client.has_what("w9")


async def test_the_fleet_looks_like_a_scheduler_to_who_comes_from_dask() -> None:
    async with fleet_of(2).serving() as url, AsyncClient(url) as client:
        info = await client.scheduler_info()
        assert list(info["workers"]) == ["w0", "w1"]
        assert info["leader"]["pod"] == "w0"
        assert info["workers"]["w1"]["state"] == "Ready"


async def test_an_owner_is_found_by_the_services_name() -> None:
    fleet = fleet_of(2)
    async with fleet.serving() as url, AsyncClient(url) as client:
        owner = await client.owner("ai", "qwen")
        shard = shard_of("ai", "qwen")
        record = fleet.world.shards[shard]
        assert (owner["shard"], owner["epoch"]) == (shard, record.epoch)
        assert record.holder.startswith(f"{owner['owner']}_")
        assert (await client.why("ai/qwen"))["shard"] == shard


async def test_plan_rebalance_and_verify_answer() -> None:
    async with fleet_of(2).serving() as url, AsyncClient(url) as client:
        assert sum((await client.plan(4))["counts"].values()) == SHARD_COUNT
        assert (await client.rebalance())["moves"] == []
        assert await client.verify() == []


async def test_a_story_joins_what_every_worker_tells() -> None:
    one, other = fleet_of(2), fleet_of(3)
    async with one.serving() as first, other.serving() as second, AsyncClient([first, second]) as client:
        entries = await client.story()
        assert [entry["at"] for entry in entries] == sorted(entry["at"] for entry in entries)
        assert len(entries) > len(list(one.world.planner.story.entries()))
        about = await client.story("worker/w2")
        assert {entry["subject"] for entry in about} == {"worker/w2"}, "only the second fleet knows w2"
        both = await client.story("worker/w1", 3)
        assert {entry["subject"] for entry in both} == {"worker/w1", "shard/3"}


async def test_events_are_the_story_by_topic() -> None:
    async with fleet_of(2).serving() as url, AsyncClient(url) as client:
        events = await client.get_events("worker")
        assert events
        assert all(event["subject"].startswith("worker/") for _, event in events)
        assert len(await client.get_events()) > len(events)


async def test_a_worker_that_is_gone_costs_only_its_own_part_of_the_story() -> None:
    async with fleet_of(2).serving() as url, AsyncClient([url, "http://127.0.0.1:1"]) as client:
        assert await client.story()
        assert list(client.unreached) == ["http://127.0.0.1:1"]


@pytest.mark.parametrize("name", ["state.json", "state.json.gz"])
async def test_a_dump_is_written_as_it_is_returned(tmp_path: Path, name: str) -> None:
    async with fleet_of(2).serving() as url, AsyncClient(url) as client:
        state = await client.dump_cluster_state(tmp_path / name)
        raw = (tmp_path / name).read_bytes()
        assert json.loads(gzip.decompress(raw) if name.endswith(".gz") else raw) == state
        assert len(state["workers"][url]["shards"]) == SHARD_COUNT


async def test_a_wish_is_an_annotation_and_touches_no_other(seen: Seen) -> None:
    async with AsyncClient(kubeconfig=str(seen.kubeconfig)) as client:
        await client.cordon("w1")
        assert seen.worker("w1") == {"example.com/note": "of somebody else", ANNOTATION_CORDON: "true"}
        await client.drain("w1", wait=False)
        assert seen.worker("w1")[ANNOTATION_DRAIN] == "true"
        await client.uncordon("w1")
        assert seen.worker("w1") == {"example.com/note": "of somebody else"}
        await client.freeze()
        assert seen.map() == {ANNOTATION_FREEZE: "true"}
        await client.unfreeze()
        assert seen.map() == {}


async def test_a_drain_returns_when_the_worker_owns_nothing(seen: Seen) -> None:
    left: list[int] = []
    async with seen.fleet.serving() as url, AsyncClient(url, kubeconfig=str(seen.kubeconfig)) as client:
        drained = await client.drain("w1", progress=lambda shards: left.append(shards["w1"]))
    assert (drained["shards_owned"], drained["is_draining"]) == (0, True)
    assert left[0] > 0
    assert left[-1] == 0
    assert seen.fleet.world.counts().get("w1", 0) == 0


async def test_workers_retire_together(seen: Seen) -> None:
    async with seen.fleet.serving() as url, AsyncClient(url, kubeconfig=str(seen.kubeconfig)) as client:
        assert sorted(await client.retire_workers(["w1", "w2"])) == ["w1", "w2"]
    assert seen.fleet.world.counts() == {"w0": SHARD_COUNT}


async def test_a_drain_that_cannot_end_says_why_and_leaves_the_wish(seen: Seen) -> None:
    async with seen.fleet.serving() as url, AsyncClient(url, kubeconfig=str(seen.kubeconfig)) as client:
        with pytest.raises(NotInTime, match="no worker may receive any"):
            await client.retire_workers(["w0", "w1", "w2"], timeout=2.0)
    assert seen.worker("w2")[ANNOTATION_DRAIN] == "true"


async def test_an_unknown_worker_is_refused_with_those_that_there_are(seen: Seen) -> None:
    async with AsyncClient(kubeconfig=str(seen.kubeconfig)) as client:
        with pytest.raises(UnknownWorker, match="there are: w0, w1, w2"):
            await client.cordon("w7")
        with pytest.raises(SubjectRefused):
            await client.cordon("W7!")


async def test_a_namespace_without_a_fleet_is_said_to_be_one(seen: Seen) -> None:
    async with AsyncClient(kubeconfig=str(seen.kubeconfig), namespace="default") as client:
        with pytest.raises(NoShardMap, match="namespace default"):
            await client.freeze()


async def test_rbac_decides_and_its_refusal_names_verb_and_resource(tmp_path: Path) -> None:
    async def forbidden(request: web.Request) -> web.StreamResponse:
        said = f'User "jo" cannot {request.method.lower()} resource'
        return status(403, "Forbidden", said, name=request.path.rpartition("/")[2])

    async with FakeServer() as server:
        kubeconfig = tmp_path / "kubeconfig"
        kubeconfig.write_text(kubeconfig_of(server.url))
        async with AsyncClient(kubeconfig=str(kubeconfig)) as client:
            server.next(forbidden)
            with pytest.raises(NotAllowed) as caught:
                await client.cordon("w1")
            assert (caught.value.verb, caught.value.what) == (
                "patch",
                f"leases.coordination.k8s.io {NAMESPACE}/noctaya-worker-w1",
            )
            server.next(forbidden)
            with pytest.raises(NotAllowed, match=f"may not patch configmaps {NAMESPACE}/{SHARD_MAP}"):
                await client.freeze()


def kubeconfig_of(url: str) -> str:
    return yaml.safe_dump(
        {
            "current-context": "test",
            "clusters": [{"name": "test", "cluster": {"server": url}}],
            "users": [{"name": "test", "user": {}}],
            "contexts": [{"name": "test", "context": {"cluster": "test", "user": "test"}}],
        }
    )


async def test_workers_are_waited_for() -> None:
    fleet = fleet_of(2)
    async with fleet.serving() as url, AsyncClient(url) as client:
        waiting = asyncio.create_task(client.wait_for_workers(3))
        await asyncio.sleep(0)
        fleet.world.join("w2")
        assert len((await waiting)["members"]) == 3
        with pytest.raises(NotInTime, match="3 are Ready"):
            await client.wait_for_workers(4, timeout=0.3)


async def test_what_is_no_admin_port_is_told_apart_from_one_that_is_silent() -> None:
    with pytest.raises(AdminUnusable):
        AsyncClient("127.0.0.1:8081")
    async with AsyncClient("http://127.0.0.1:1") as client:
        with pytest.raises(AdminUnreachable, match=r"http://127\.0\.0\.1:1 "):
            await client.status()
    app = admin_app(is_synced=lambda: True, problems=Problems(), metrics=CollectorRegistry(), views={})
    async with (
        listening(app, "admin port", "127.0.0.1", 0, "NOCTAYA_ADMIN__PORT") as port,
        AsyncClient(f"http://127.0.0.1:{port}") as client,
    ):
        with pytest.raises(AdminLacks, match="no worker's admin port"):
            await client.status()


async def test_without_any_cluster_the_error_says_how_to_name_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("KUBECONFIG", "KUBERNETES_SERVICE_HOST"):
        monkeypatch.delenv(name, raising=False)
    async with AsyncClient() as client:
        with pytest.raises(ConfigError, match="KUBECONFIG"):
            await client.status()


async def test_the_plain_client_says_the_same_and_ends_its_thread() -> None:
    fleet = fleet_of(2)

    def ask(url: str) -> tuple[list[str], int]:
        with Client(url) as client:
            found = sorted(client.scheduler_info()["workers"]), len(client.story())
        client.close()
        with pytest.raises(RuntimeError, match="closed"):
            client.status()
        return found

    async with fleet.serving() as url:
        workers, told = await asyncio.to_thread(ask, url)
    assert workers == ["w0", "w1"]
    assert told > 0


def test_both_clients_have_the_same_verbs() -> None:
    public = {name for name in vars(AsyncClient) if not name.startswith("_")} - {"shards_as_told"}
    assert public == {name for name in vars(Client) if not name.startswith("_")}


def test_importing_noctaya_or_its_commands_loads_no_client() -> None:
    program = (
        "import sys, noctaya, noctaya.cli; print([name for name in sys.modules if name.startswith('noctaya.kube')], "
        "'aiohttp' in sys.modules); print(noctaya.Client.__module__)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout.split("\n")[:2] == ["[] False", "noctaya.ops.sync_client"]
    with pytest.raises(AttributeError, match="has no attribute 'Cluster'"):
        noctaya.Cluster  # noqa: B018


@pytest.mark.parametrize(
    ("given", "subject"),
    [("17", "shard/17"), ("shard/17", "shard/17"), ("worker/w-0", "worker/w-0"), ("map", "map"), ("ai/qwen", "shard/71")],
)  # fmt: skip
def test_subjects_are_named_as_people_name_them(given: str, subject: str) -> None:
    assert subject_named(given) == subject


@pytest.mark.parametrize(
    "given", ["128", "-1", "shard/x", "ai/", "/qwen", "ai/Qwen", "worker/", "a/b/c", "", "²"]
)
def test_what_names_nothing_is_refused(given: str) -> None:
    with pytest.raises(SubjectRefused):
        subject_named(given)
    with pytest.raises(SubjectRefused):
        shard_named(given)
