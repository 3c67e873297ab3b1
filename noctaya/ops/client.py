"""`AsyncClient`: the fleet from Python, with the verbs that a user of Dask tries first.

    async with AsyncClient() as fleet:
        print(await fleet.who_has("ai/qwen"))

Reading asks a worker's admin port, changing writes an annotation (`wishes`). Answers are plain dicts and lists, as JSON is.
Moments in answers are seconds since the epoch on *this* machine's clock: workers tell only how long ago something was.
"""

from __future__ import annotations

import asyncio
import gzip
import json
import time
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

from noctaya.api.names import shard_of
from noctaya.ops import subjects
from noctaya.ops.access import Access, Answer
from noctaya.ops.errors import AdminUnreachable, NotInTime, UnknownWorker
from noctaya.ops.way import NAMESPACE, Way
from noctaya.ops.wishes import wish_of_map, wish_of_worker

POLL_SECONDS = 0.5
WAIT_SECONDS = 300.0

T = TypeVar("T")
Entry = dict[str, Any]
Progress = Callable[[dict[str, int]], None]
"""Told how many shards each worker still has."""


class AsyncClient:
    """See the module. `admin`: one admin port or several; none finds the workers through the caller's kubeconfig."""

    def __init__(
        self,
        admin: str | Sequence[str] | None = None,
        *,
        kubeconfig: str | None = None,
        context: str | None = None,
        namespace: str = NAMESPACE,
    ) -> None:
        ports = (admin,) if isinstance(admin, str) else tuple(admin or ())
        self.namespace = namespace
        self._access = Access(Way(ports, kubeconfig, context, namespace))

    async def __aenter__(self) -> AsyncClient:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Hang up, and end what was started to reach the workers."""
        await self._access.close()

    @property
    def unreached(self) -> dict[str, str]:
        """Workers that the last question to all of them (`story`, `get_events`, `dump_cluster_state`) did not reach, and why."""
        return dict(self._access.unreached)

    # -- what is ---------------------------------------------------------------------------------------------------------

    async def status(self) -> Answer:
        """The fleet at a glance, as a worker sees it: leader, map, counts, members, moves."""
        return await self._access.ask("fleet")

    async def shards(self) -> list[Answer]:
        """Every shard: who holds it, who should, and where the asked worker stands with it."""
        found: list[Answer] = (await self.shards_as_told())["shards"]
        return found

    async def shards_as_told(self) -> Answer:
        """`shards`, and which worker says so."""
        return await self._access.ask("shards")

    async def scheduler_info(self) -> Answer:
        """The leader and the workers by name."""
        fleet = await self.status()
        return {
            "type": "Fleet",
            "id": fleet["fleet"],
            "leader": fleet["leader"],
            "map": fleet["map"],
            "workers": {member["pod"]: member for member in fleet["members"]},
        }

    async def owner(self, namespace: str, name: str) -> Answer:
        """The shard of a service, and who owns it; the shard needs nobody's answer (`noctaya.api.names.shard_of`)."""
        subjects.service_of(f"{namespace}/{name}")
        found = (await self.shards())[shard_of(namespace, name)]
        return {
            "service": f"{namespace}/{name}",
            "shard": found["shard"],
            "owner": found["pod"] if found["is_held"] else None,
            "epoch": found["epoch"],
            "desired": found["desired"],
        }

    async def who_has(self, *keys: str | int) -> dict[str, list[str]]:
        """The worker that has each of `keys` (services, or shards), as a list of one or none; without keys, all shards."""
        shards = await self.shards()
        wanted = {str(key): subjects.shard_named(key) for key in keys} or {
            f"shard/{shard['shard']}": shard["shard"] for shard in shards
        }
        return {
            key: [shards[shard]["pod"]] if shards[shard]["is_held"] else [] for key, shard in wanted.items()
        }

    async def has_what(self, *workers: str) -> dict[str, list[str]]:
        """The shards that each of `workers` has; without names, all workers."""
        fleet, shards = await self.status(), await self.shards()
        known = [member["pod"] for member in fleet["members"]]
        asked = [subjects.worker_named(worker) for worker in workers] or known
        for worker in asked:
            if worker not in known:
                raise UnknownWorker(worker, known)
        return {
            worker: [
                f"shard/{shard['shard']}" for shard in shards if shard["is_held"] and shard["pod"] == worker
            ]
            for worker in asked
        }

    async def why(self, shard: str | int) -> Answer:
        """Why a shard (or the shard of a service) is where it is, and where it goes."""
        return await self._access.ask("why", shard=subjects.shard_named(shard))

    async def plan(self, workers: int) -> Answer:
        """What that many workers would own, and how many shards would move."""
        return await self._access.ask("plan", workers=workers)

    async def rebalance(self) -> Answer:
        """What levelling would move now, and what holds it off. The leader levels by itself: this changes nothing."""
        return await self._access.ask("rebalance")

    async def verify(self) -> list[Answer]:
        """What is inconsistent, each with what to do next; empty: nothing."""
        found: list[Answer] = (await self._access.ask("verify"))["findings"]
        return found

    # -- what was --------------------------------------------------------------------------------------------------------

    async def story(self, *keys: str | int) -> list[Entry]:
        """What all workers tell about shards, services, `worker/<pod>`, `map` or `leader`, oldest first; without keys, all."""
        wanted = {subjects.subject_named(key) for key in keys}
        query = {"subject": next(iter(wanted))} if len(wanted) == 1 else {}
        answers = await self._access.ask_all("story", **query)
        now = time.time()
        entries = [
            {
                "at": round(now - entry["seconds_ago"], 3),
                "worker": answer["told_by"]["pod"],
                "subject": entry["subject"],
                "text": entry["text"],
            }
            for answer in answers.values()
            for entry in answer["entries"]
            if not wanted or entry["subject"] in wanted
        ]
        return sorted(entries, key=lambda entry: (entry["at"], entry["worker"]))

    async def get_events(self, topic: str | None = None) -> list[tuple[float, Entry]]:
        """The story as (moment, event); `topic` is the beginning of a subject: `shard`, `worker`, `map`, `leader`."""
        return [
            (entry["at"], {name: entry[name] for name in ("worker", "subject", "text")})
            for entry in await self.story()
            if topic is None or entry["subject"].partition("/")[0] == topic or entry["subject"] == topic
        ]

    async def dump_cluster_state(self, filename: str | Path | None = None) -> Answer:
        """Everything that every worker knows and was told. With a filename it is written there too: JSON, gzip for `.gz`."""
        answers = await self._access.ask_all("dump")
        state = {"at": time.time(), "workers": answers, "unreached": self.unreached}
        if filename is not None:
            await asyncio.to_thread(_write, Path(filename), state)
        return state

    # -- what is wanted --------------------------------------------------------------------------------------------------

    async def cordon(self, worker: str) -> None:
        """The worker keeps what it has and gets nothing new."""
        await wish_of_worker(await self._access.kube(), self.namespace, worker, cordon=True)

    async def uncordon(self, worker: str) -> None:
        """Take `cordon` and `drain` back."""
        await wish_of_worker(await self._access.kube(), self.namespace, worker, cordon=False, drain=False)

    async def freeze(self) -> None:
        """No shard moves for balance alone. Orphans are still given homes, and drained workers emptied."""
        await wish_of_map(await self._access.kube(), self.namespace, freeze=True)

    async def unfreeze(self) -> None:
        """Take `freeze` back."""
        await wish_of_map(await self._access.kube(), self.namespace, freeze=False)

    async def drain(
        self,
        worker: str,
        *,
        wait: bool = True,
        timeout: float | None = WAIT_SECONDS,
        progress: Progress | None = None,
    ) -> Answer:
        """The worker hands over all that it has, and stays. Returns it as it is then; see `retire_workers`."""
        retired = await self.retire_workers([worker], wait=wait, timeout=timeout, progress=progress)
        return next(iter(retired.values()))

    async def retire_workers(
        self,
        workers: Sequence[str],
        *,
        wait: bool = True,
        timeout: float | None = WAIT_SECONDS,
        progress: Progress | None = None,
    ) -> dict[str, Answer]:
        """Drain `workers`, all at once; wait until they own nothing. Their pods stay: delete them, or scale down, then.

        Raises:
            NotInTime: they still own something after `timeout` seconds. The wish stays; `uncordon` takes it back.
        """
        pods = [subjects.worker_named(worker) for worker in workers]
        kube = await self._access.kube()
        for pod in pods:
            await wish_of_worker(kube, self.namespace, pod, drain=True)
        if not wait:
            return {pod: {"pod": pod, "is_draining": True} for pod in pods}

        async def emptied() -> dict[str, Answer] | str:
            members = {member["pod"]: member for member in (await self.status())["members"]}
            left = {pod: _shards_left(members.get(pod)) for pod in pods}
            if progress is not None:
                progress(left)
            unseen = [pod for pod in pods if pod in members and not members[pod]["is_draining"]]
            if unseen:
                return f"the asked worker has not seen yet that {', '.join(unseen)} should drain"
            if not any(left.values()):
                return {pod: members.get(pod, {"pod": pod, "state": "gone"}) for pod in pods}
            return ", ".join(f"{pod} has {count} shards" for pod, count in left.items() if count) + _nobody(
                members
            )

        return await self._until(
            emptied, f"{', '.join(pods)} to own nothing (still asked for; uncordon takes it back)", timeout
        )

    async def wait_for_workers(self, n_workers: int, timeout: float | None = WAIT_SECONDS) -> Answer:
        """Return the fleet once `n_workers` are Ready. Raises NotInTime."""

        async def there() -> Answer | str:
            fleet = await self.status()
            ready = sum(
                member["state"] == "Ready" and bool(member["incarnation"]) for member in fleet["members"]
            )
            return fleet if ready >= n_workers else f"{ready} are Ready"

        return await self._until(there, f"{n_workers} workers to be Ready", timeout)

    async def _until(self, look: Callable[[], Awaitable[T | str]], awaited: str, timeout: float | None) -> T:
        """What `look` gives once that is no text; a worker that cannot be asked for a moment is asked again."""
        state = "nothing was seen"
        try:
            async with asyncio.timeout(timeout):
                while True:
                    try:
                        found = await look()
                    except AdminUnreachable as error:
                        if self._access.way.admin:
                            raise
                        found = str(error)
                    if not isinstance(found, str):
                        return found
                    state = found
                    await asyncio.sleep(POLL_SECONDS)
        except TimeoutError:
            raise NotInTime(awaited, timeout or 0.0, state) from None


def _shards_left(member: Answer | None) -> int:
    """What still has to go. A wish that the leader has not seen yet has moved nothing: what is desired counts too."""
    return 0 if member is None else max(int(member["shards_owned"]), int(member["shards_desired"]))


def _nobody(members: dict[str, Answer]) -> str:
    return (
        ""
        if any(member["role"] == "open" for member in members.values())
        else ", and no worker may receive any"
    )


def _write(path: Path, state: Answer) -> None:
    text = json.dumps(state).encode()
    path.write_bytes(gzip.compress(text) if path.suffix == ".gz" else text)
