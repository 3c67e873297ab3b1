"""A live local copy of one collection: list, then watch, for as long as `run` runs.

Reads never touch the network. The copy is written by the stream alone (an answer to our own write may be older than what
the stream already brought). Who subscribed is called synchronously, in order, for every change; a callback must be quick
and must not raise: an exception there is a defect and ends `run`. All decisions are `reflector.py`'s.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from random import Random
from typing import Generic, TypeVar

import msgspec

from noctaya.kube.client import Client
from noctaya.kube.clock import boottime
from noctaya.kube.errors import Call, KubeError, Undecodable
from noctaya.kube.indexing import Index
from noctaya.kube.metadata import Object
from noctaya.kube.reading import PAGE_SIZE
from noctaya.kube.reflector import (
    Action,
    Bookmarked,
    Change,
    ChangeKind,
    Deleted,
    Event,
    List,
    Listed,
    ListFailed,
    Reflector,
    Started,
    UnreadableObject,
    Upserted,
    Watch,
    WatchEnded,
    WatchOpened,
    WatchSettings,
)
from noctaya.kube.resources import Resource
from noctaya.kube.watching import RawEvent

log = logging.getLogger(__name__)

_DECODED_AT_ONCE = 200
"""Objects decoded before others get the loop: about a millisecond. A list of 10,000 must not delay a request."""

T = TypeVar("T", bound=Object)
Callback = Callable[[Change[T]], None]


@dataclass(frozen=True, slots=True)
class Step(Generic[T]):
    """One thing that the server said and that the copy has taken in: an event of the watch, or a complete list."""

    changes: tuple[Change[T], ...]
    """In order; none for a bookmark, or an event that tells nothing new."""
    resource_version: str
    """Of the event (of a deletion, not of what was deleted) or of the list."""
    is_list: bool
    """A complete list: what it lacks is not there."""


class Store(Generic[T]):
    """`Store(client, PODS, Pod, label_selector="a=b", indexers={"node": lambda pod: [pod.spec.node_name]})`

    Run `run()` in a TaskGroup and await `synced`. `namespace=None` means all namespaces. Indexers are pure functions.
    """

    def __init__(
        self,
        client: Client,
        resource: Resource,
        type_: type[T],
        *,
        namespace: str | None = None,
        label_selector: str | None = None,
        field_selector: str | None = None,
        indexers: Mapping[str, Callable[[T], list[str]]] | None = None,
        settings: WatchSettings | None = None,
        random: Random | None = None,
        clock: Callable[[], float] = boottime,
    ) -> None:
        self.resource = resource
        self.synced = asyncio.Event()
        """Set once the first list has arrived; never cleared."""
        self.settled = asyncio.Event()
        """Set once it is known what there is: the first list, or that the kind is not served."""
        self._client = client
        self._namespace = namespace
        self._selectors = {"label_selector": label_selector, "field_selector": field_selector}
        self._settings = settings or WatchSettings()
        self._clock = clock
        self._decoder = msgspec.json.Decoder(type_)
        self._core: Reflector[T] = Reflector(
            self._settings, random or Random(), describe=resource.describe(namespace)
        )
        self._index: Index[T] = Index(indexers or {})
        self._callbacks: list[Callback[T]] = []
        self._followers: list[Callable[[Step[T]], None]] = []
        self._is_running = False
        self._hurry = asyncio.Event()

    # -- what readers see ------------------------------------------------------------------------------------------

    def get(self, namespace: str, name: str) -> T | None:
        """The object as last heard of; `namespace` is "" for a cluster-wide kind."""
        return self._core.items.get((namespace, name))

    def items(self) -> list[T]:
        """All objects, as a list of its own."""
        return list(self._core.items.values())

    def by_index(self, index: str, value: str) -> list[T]:
        """The objects for which that indexer gave that value. Raises KeyError for an unknown index."""
        return self._index.find(index, value)

    def __len__(self) -> int:
        return len(self._core.items)

    def subscribe(self, callback: Callback[T]) -> Callable[[], None]:
        """Hear of every change from now on; what is here already is told at once as added. Returns the way out."""
        self._callbacks.append(callback)
        for item in self.items():
            callback(Change(ChangeKind.ADDED, None, item))
        return lambda: self._callbacks.remove(callback)

    def follow(self, follower: Callable[[Step[T]], None]) -> None:
        """Hear of every step from now on, those without a change too, each after all who subscribed have heard its changes."""
        self._followers.append(follower)

    @property
    def rewinds(self) -> int:
        """How often the server went back behind what it had shown, for good: a cluster that was restored from a backup."""
        return self._core.rewinds

    @property
    def problem(self) -> KubeError | None:
        """Why the copy is not being kept current at this moment, or None."""
        return self._core.problem

    @property
    def serves(self) -> bool:
        """False while the API server does not know the kind; what was known before then stays."""
        return self._core.serves

    @property
    def last_contact(self) -> float | None:
        """When the server was last heard (list, event, bookmark), by CLOCK_BOOTTIME; None before the first time."""
        return self._core.last_contact

    @property
    def unreadable(self) -> Mapping[tuple[str, str], str]:
        """Objects whose latest state does not fit the type, and why; the state before is kept."""
        return self._core.unreadable

    # -- the loop --------------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Follow the server until cancelled. Never returns and never raises for what the network or server does."""
        if self._is_running:
            raise RuntimeError(f"the store of {self.resource.full_name} is already running")
        self._is_running = True
        try:
            step = self._tell(Started())
            while step is not None:
                await self._pause(step.after_seconds)
                step = await (self._list(step) if isinstance(step, List) else self._watch(step))
            raise AssertionError("the reflector did not say what to do next")
        finally:
            self._is_running = False

    def hurry(self) -> None:
        """Somebody knows that the server may answer now: do at once what was put off after an error."""
        if self._core.problem is not None:
            self._hurry.set()

    async def _pause(self, seconds: float) -> None:
        try:
            async with asyncio.timeout(seconds):
                await self._hurry.wait()
        except TimeoutError:
            return
        finally:
            self._hurry.clear()

    async def _list(self, step: List) -> List | Watch | None:
        try:
            found = await self._client.list(
                self.resource,
                self._namespace,
                into=msgspec.Raw,
                page_size=PAGE_SIZE if step.paged else 0,
                label_selector=self._selectors["label_selector"],
                field_selector=self._selectors["field_selector"],
                timeout_seconds=self._settings.list_seconds,
            )
            items: list[T] = []
            unreadable: list[UnreadableObject] = []
            for position, raw in enumerate(found.items):
                if position % _DECODED_AT_ONCE == _DECODED_AT_ONCE - 1:
                    await asyncio.sleep(0)
                item = self._decode(raw)
                if isinstance(item, UnreadableObject):
                    unreadable.append(item)
                else:
                    items.append(item)
        except KubeError as error:
            return self._tell(ListFailed(error))
        return self._tell(Listed(found.resource_version, items, unreadable))

    async def _watch(self, step: Watch) -> List | Watch | None:
        try:
            async with self._client.watch(
                self.resource,
                self._namespace,
                resource_version=step.resource_version,
                label_selector=self._selectors["label_selector"],
                field_selector=self._selectors["field_selector"],
                timeout_seconds=step.stream_seconds,
                silence_seconds=self._settings.silence_seconds,
            ) as stream:
                self._tell(WatchOpened())
                async for raw in stream:
                    self._tell(self._read(raw))
        except KubeError as error:
            return self._tell(WatchEnded(error))
        return self._tell(WatchEnded())

    def _read(self, raw: RawEvent) -> Event[T]:
        match raw.type:
            case "ADDED" | "MODIFIED":
                item = self._decode(raw.object)
                return item if isinstance(item, UnreadableObject) else Upserted(item)
            case "DELETED":
                return Deleted(self._decode_metadata(raw.object).metadata)
            case "BOOKMARK":
                return Bookmarked(self._decode_metadata(raw.object).metadata.resource_version)
            case unknown:
                raise Undecodable(self._call("watch"), f"an event of unknown type {unknown!r}")

    def _decode(self, raw: msgspec.Raw) -> T | UnreadableObject:
        try:
            return self._decoder.decode(raw)
        except msgspec.MsgspecError as cause:
            metadata = self._decode_metadata(raw).metadata
            log.warning(
                "%s cannot be read and is kept as it was: %s",
                self.resource.describe(metadata.namespace, metadata.name),
                cause,
            )
            return UnreadableObject(metadata, str(cause))

    def _decode_metadata(self, raw: msgspec.Raw) -> Object:
        try:
            return msgspec.json.decode(raw, type=Object)
        except msgspec.MsgspecError as cause:
            raise Undecodable(self._call("watch"), f"an object without readable metadata: {cause}") from cause

    def _tell(self, event: Event[T]) -> List | Watch | None:
        """Tell the core, deliver what changed, and return what to do next, if anything."""
        before = self._core.problem
        actions: list[Action[T]] = self._core.on(event, self._clock())
        changes = [action for action in actions if isinstance(action, Change)]
        for change in changes:
            self._index.apply(change)
        if self._core.has_synced:
            self.synced.set()
        if self._core.has_synced or not self._core.serves:
            self.settled.set()
        for change in changes:
            for callback in tuple(self._callbacks):
                callback(change)
        self._log_problem(before)
        step = self._step(event, actions, changes)
        if step is not None:
            for follower in tuple(self._followers):
                follower(step)
        return next((action for action in actions if isinstance(action, (List, Watch))), None)

    @staticmethod
    def _step(event: Event[T], actions: list[Action[T]], changes: list[Change[T]]) -> Step[T] | None:
        match event:
            case Listed(resource_version):
                if not any(isinstance(action, Watch) for action in actions):
                    return None  # refused: it is older than the copy
                return Step(tuple(changes), resource_version, is_list=True)
            case Upserted(item):
                return Step(tuple(changes), item.metadata.resource_version, is_list=False)
            case Deleted(metadata) | UnreadableObject(metadata):
                return Step(tuple(changes), metadata.resource_version, is_list=False)
            case Bookmarked(resource_version):
                return Step((), resource_version, is_list=False)
            case _:
                return None

    def _log_problem(self, before: KubeError | None) -> None:
        after = self._core.problem
        if after is not None and (before is None or type(before) is not type(after)):
            log.warning("not following %s for now: %s", self.resource.describe(self._namespace), after)
        elif after is None and before is not None:
            log.info("following %s again", self.resource.describe(self._namespace))

    def _call(self, verb: str) -> Call:
        return Call(verb, self.resource.describe(self._namespace))
