"""A cluster and scalers in memory, for the shells' tests in virtual time.

`FakeCluster` keeps what an API server keeps that matters here: resourceVersions, generations, finalizers, owner references,
and watch callbacks in order. `FakeScaler` records each call with its time and can fail, hang, push and end streams.
"""

import asyncio
import copy
from collections.abc import AsyncGenerator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import msgspec

from noctaya.errors import NoctayaError
from noctaya.kube.objects import format_time
from noctaya.local.keda.errors import ScalerFailed, TargetUnreadable
from noctaya.local.keda.executor import Event
from noctaya.local.keda.ports import MetricSpec, Reference, Seen, Target
from noctaya.local.keda.records import Key, Record

Json = dict[str, Any]
EPOCH = datetime(2026, 3, 1, 12, 0, 0, tzinfo=UTC).timestamp()


class Stale(NoctayaError):
    """The fake's 409."""


class Down(NoctayaError):
    """The fake's refused connection."""


class Missing(NoctayaError):
    """The fake's 404."""


def now() -> float:
    return asyncio.get_running_loop().time()


def wall() -> float:
    """The wall clock of a test: a fixed day plus the loop's own time."""
    return EPOCH + now()


def merge(target: Json, patch: Mapping[str, Any]) -> Json:
    for name, value in patch.items():
        if value is None:
            target.pop(name, None)
        elif isinstance(value, Mapping):
            target[name] = merge(dict(target.get(name) or {}), value)
        else:
            target[name] = copy.deepcopy(value)
    return target


def record_of(body: Json) -> Record:
    return msgspec.convert(copy.deepcopy(body), Record)


@dataclass
class Deployment:
    """`ready` follows `replicas` unless a test holds it."""

    replicas: int = 0
    status: int | None = None
    ready: int | None = None


class FakeCluster:
    """`ports.Cluster`."""

    def __init__(self) -> None:
        self.scaledobjects: dict[Key, Json] = {}
        self.hpas: dict[Key, Json] = {}
        self.deployments: dict[Key, Deployment] = {}
        self.scales: list[tuple[float, int, str]] = []
        self.events: list[tuple[str, str]] = []
        self.status_writes: list[tuple[float, Json]] = []
        self.scale_fails = False
        self.is_down = False
        self._version = 0
        self._on: dict[str, Seen] = {}

    # What a user does.

    def apply(self, name: str, spec: Json, namespace: str = "ai", **metadata: Any) -> Key:
        key = (namespace, name)
        before = self.scaledobjects.get(key)
        body: Json = (
            copy.deepcopy(before)
            if before
            else {
                "metadata": {
                    "name": name,
                    "namespace": namespace,
                    "uid": f"uid-{name}-{self._version}",
                    "generation": 0,
                    "creationTimestamp": format_time(datetime.fromtimestamp(wall(), UTC)),
                },
                "status": {},
            }
        )
        if body.get("spec") != spec:
            body["spec"] = copy.deepcopy(spec)
            body["metadata"]["generation"] += 1
        merge(body["metadata"], metadata)
        self._store("so", self.scaledobjects, key, body)
        return key

    def annotate(self, key: Key, annotation: str, value: str | None) -> None:
        body = copy.deepcopy(self.scaledobjects[key])
        merge(body["metadata"], {"annotations": {annotation: value}})
        self._store("so", self.scaledobjects, key, body)

    def delete(self, key: Key) -> None:
        body = copy.deepcopy(self.scaledobjects[key])
        body["metadata"]["deletionTimestamp"] = format_time(datetime.fromtimestamp(wall(), UTC))
        self._store("so", self.scaledobjects, key, body)

    def delete_hpa_by_hand(self, key: Key) -> None:
        self._remove("hpa", self.hpas, key)

    def edit_hpa_by_hand(self, key: Key, spec: Json) -> None:
        body = copy.deepcopy(self.hpas[key])
        merge(body["spec"], spec)
        self._store("hpa", self.hpas, key, body)

    # What a test asks.

    def status(self, key: Key) -> Json:
        status: Json = self.scaledobjects[key].get("status", {})
        return status

    def condition(self, key: Key, type_: str) -> tuple[str, str]:
        for entry in self.status(key).get("conditions", []):
            if entry["type"] == type_:
                return entry["status"], entry.get("reason", "")
        return "", ""

    def reasons(self) -> list[str]:
        return [reason for reason, _ in self.events]

    # ports.Cluster

    async def watch(self, on_scaledobject: Seen, on_hpa: Seen) -> None:
        for body in list(self.hpas.values()):
            on_hpa(None, record_of(body))
        for body in list(self.scaledobjects.values()):
            on_scaledobject(None, record_of(body))
        self._on = {"so": on_scaledobject, "hpa": on_hpa}
        await asyncio.Event().wait()

    async def patch_scaledobject(self, record: Record, patch: Mapping[str, Any]) -> Record:
        return await self._patch("so", self.scaledobjects, record.key, patch)

    async def patch_scaledobject_status(self, record: Record, status: Mapping[str, Any]) -> Record:
        self.status_writes.append((now(), dict(status)))
        return await self._patch("so", self.scaledobjects, record.key, {"status": status})

    async def read_target(self, namespace: str, name: str) -> Target:
        await asyncio.sleep(0)
        if self.is_down:
            raise TargetUnreadable("the API server is down")
        found = self.deployments.get((namespace, name))
        if found is None:
            raise TargetUnreadable(f"no Deployment {namespace}/{name}")
        status = found.replicas if found.status is None else found.status
        return Target(found.replicas, status, status if found.ready is None else found.ready, "1")

    async def scale_target(
        self, namespace: str, name: str, replicas: int, *, by: str, resource_version: str | None = None
    ) -> None:
        await self._answers()
        if self.scale_fails:
            raise Stale("the scale was not taken")
        self.deployments[namespace, name].replicas = replicas
        self.scales.append((now(), replicas, by))

    async def create_hpa(self, manifest: Mapping[str, Any]) -> Record:
        await self._answers()
        body = copy.deepcopy(dict(manifest))
        key = (body["metadata"]["namespace"], body["metadata"]["name"])
        if key in self.hpas:
            raise Stale(f"HPA {key} exists")
        body["metadata"]["uid"] = f"uid-hpa-{self._version}"
        return self._store("hpa", self.hpas, key, body)

    async def replace_hpa(self, record: Record, manifest: Mapping[str, Any]) -> Record:
        await self._answers()
        body = copy.deepcopy(self.hpas[record.key])
        if body["metadata"]["resourceVersion"] != record.metadata.resource_version:
            raise Stale(f"HPA {record.key} changed")
        body["spec"] = copy.deepcopy(manifest["spec"])
        merge(body["metadata"], manifest["metadata"])
        return self._store("hpa", self.hpas, record.key, body)

    async def delete_hpa(self, namespace: str, name: str) -> None:
        await self._answers()
        if (namespace, name) in self.hpas:
            self._remove("hpa", self.hpas, (namespace, name))

    async def patch_hpa_status(self, record: Record, status: Mapping[str, Any]) -> Record:
        return await self._patch("hpa", self.hpas, record.key, {"status": status})

    def tell(self, record: Record, event: Event) -> None:
        del record
        self.events.append((event.reason, event.message))

    async def _answers(self) -> None:
        await asyncio.sleep(0)
        if self.is_down:
            raise Down("the API server is down")

    async def _patch(self, kind: str, objects: dict[Key, Json], key: Key, patch: Mapping[str, Any]) -> Record:
        await self._answers()
        if key not in objects:
            raise Missing(f"no {kind} {key}")
        body = copy.deepcopy(objects[key])
        patch = copy.deepcopy(dict(patch))
        expected = patch.get("metadata", {}).pop("resourceVersion", None)
        if expected is not None and expected != body["metadata"]["resourceVersion"]:
            raise Stale(f"{kind} {key} changed")
        return self._store(kind, objects, key, merge(body, patch))

    def _store(self, kind: str, objects: dict[Key, Json], key: Key, body: Json) -> Record:
        before = objects.get(key)
        self._version += 1
        body["metadata"]["resourceVersion"] = str(self._version)
        objects[key] = body
        after = record_of(body)
        if kind in self._on:
            self._on[kind](record_of(before) if before else None, after)
        if after.metadata.is_deleting and not after.metadata.finalizers:
            self._remove(kind, objects, key)
            for hpa_key, hpa in list(self.hpas.items()):
                if hpa["metadata"]["ownerReferences"][0]["uid"] == after.uid:
                    self._remove("hpa", self.hpas, hpa_key)
        return after

    def _remove(self, kind: str, objects: dict[Key, Json], key: Key) -> None:
        before = record_of(objects.pop(key))
        if kind in self._on:
            self._on[kind](before, None)


@dataclass
class Stream:
    """One StreamIsActive as the scaler sees it."""

    opened_at: float
    reference: Reference
    messages: asyncio.Queue[bool | ScalerFailed | None] = field(default_factory=asyncio.Queue)
    closed_at: float | None = None

    def push(self, value: bool) -> None:
        self.messages.put_nowait(value)

    def end_ok(self) -> None:
        self.messages.put_nowait(None)

    def end_with_error(self) -> None:
        self.messages.put_nowait(ScalerFailed("fake", "StreamIsActive", "UNAVAILABLE", "gone"))


class FakeScaler:
    """`ports.Scaler`: answers from fields that a test sets."""

    def __init__(self, address: str) -> None:
        self.address = address
        self.specs = [MetricSpec("pending", 2000)]
        self.values: list[int] = [0]
        self.active = False
        self.failing: set[str] = set()
        self.failures_left: dict[str, int] = {}
        self.hanging: set[str] = set()
        self.release = asyncio.Event()
        self.calls: list[tuple[float, str]] = []
        self.metrics_asked: list[str] = []
        self.references: list[Reference] = []
        self.streams: list[Stream] = []

    @property
    def open_streams(self) -> list[Stream]:
        return [stream for stream in self.streams if stream.closed_at is None]

    def times(self, rpc: str) -> list[float]:
        return [at for at, name in self.calls if name == rpc]

    async def metric_specs(self, reference: Reference) -> list[MetricSpec]:
        await self._called("GetMetricSpec", reference)
        return self.specs

    async def metrics(self, reference: Reference, metric: str) -> list[int]:
        self.metrics_asked.append(metric)
        await self._called("GetMetrics", reference)
        return self.values

    async def is_active(self, reference: Reference) -> bool:
        await self._called("IsActive", reference)
        return self.active

    async def stream(self, reference: Reference) -> AsyncGenerator[bool, None]:
        stream = Stream(now(), reference)
        self.streams.append(stream)
        self.calls.append((now(), "StreamIsActive"))
        try:
            if "StreamIsActive" in self.failing:
                raise ScalerFailed(self.address, "StreamIsActive", "UNAVAILABLE", "told to fail")
            while (message := await stream.messages.get()) is not None:
                if isinstance(message, ScalerFailed):
                    raise message
                yield message
        finally:
            stream.closed_at = now()

    async def _called(self, rpc: str, reference: Reference) -> None:
        self.calls.append((now(), rpc))
        self.references.append(reference)
        await asyncio.sleep(0)
        if rpc in self.hanging:
            await self.release.wait()
        if self.failures_left.get(rpc, 0) > 0:
            self.failures_left[rpc] -= 1
            raise ScalerFailed(self.address, rpc, "UNAVAILABLE", "told to fail once")
        if rpc in self.failing:
            raise ScalerFailed(self.address, rpc, "UNAVAILABLE", "told to fail")


class FakeScalers:
    """`ports.Scalers`."""

    def __init__(self) -> None:
        self.known: dict[str, FakeScaler] = {}

    def at(self, address: str) -> FakeScaler:
        return self.known.setdefault(address, FakeScaler(address))
