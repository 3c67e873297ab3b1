"""Keeps the route book current: objects change, routes are built anew, gateways' links are told which shards moved.

Nothing is published before everything that a route is made of has been listed once (a partial table would make gateways drop
services that exist), nor while this worker may not act. Changes of one turn of the loop make one update.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping

from noctaya.api.inferenceruntime import InferenceRuntimeSpec
from noctaya.api.llmservice import LLMServiceSpec
from noctaya.api.names import LABEL_RUNTIME, SHARD_COUNT
from noctaya.kube import Change
from noctaya.kube.objects import Deployment, Pod
from noctaya.telemetry import context
from noctaya.workers.claims import Claims
from noctaya.workers.doomed import Doomed
from noctaya.workers.errors import SpecProblem
from noctaya.workers.keys import KeyRing, SecretName
from noctaya.workers.objects import InferenceRuntime, LLMService, references, service_key, split_key
from noctaya.workers.route_book import RouteBook
from noctaya.workers.routes import Access, route_of
from noctaya.workers.runtimes import choose
from noctaya.workers.specs import Specs
from noctaya.workers.stores import Stores, owning_service

log = logging.getLogger(__name__)

KEYS_PATIENCE_SECONDS = 10.0
"""Secrets that cannot be read by then lock out the services that need them, and no others."""


class Publisher:
    """See the module. `on_routes(shards)` is told which shards changed, `on_conflicts(keys)` whose claims may have."""

    def __init__(
        self,
        stores: Stores,
        specs: Specs,
        claims: Claims,
        *,
        on_routes: Callable[[set[int]], None],
        on_conflicts: Callable[[set[str]], None] = lambda keys: None,
    ) -> None:
        self.book = RouteBook()
        self.is_ready = False
        """Whether the book is whole; before that nobody may be told of it."""
        self.keys: KeyRing | None = None
        self._stores = stores
        self._specs = specs
        self._claims = claims
        self._on_routes = on_routes
        self._on_conflicts = on_conflicts
        self._key_secrets: dict[str, SecretName] = {}
        self._doomed = Doomed()
        self._dirty: set[str] = set()
        self._changed = asyncio.Event()

    def key_secrets(self) -> Mapping[str, SecretName]:
        """Which Secret holds the client keys of a service, for those that ask for keys."""
        return self._key_secrets

    def keys_changed(self, namespace: str, name: str) -> None:
        """A Secret's digests changed."""
        self._mark(
            service.key for service in self._stores.services.by_index("secret", service_key(namespace, name))
        )

    async def run(self) -> None:
        """Publish until cancelled."""
        await self._stores.settled()
        self._stores.services.subscribe(self._service_changed)
        self._stores.runtimes.subscribe(self._runtime_changed)
        self._stores.pods.subscribe(self._pod_changed)
        self._stores.deployments.subscribe(self._deployment_changed)
        async with asyncio.TaskGroup() as group:
            if self.keys is not None:
                group.create_task(self.keys.run())
                await self._keys_loaded(self.keys)
            self._flush()
            self.is_ready = True
            log.info("routes are complete", extra=context(services=len(self._stores.services)))
            self._on_routes(set(range(SHARD_COUNT)))
            await self._follow()

    async def _keys_loaded(self, keys: KeyRing) -> None:
        try:
            async with asyncio.timeout(KEYS_PATIENCE_SECONDS):
                await keys.loaded.wait()
        except TimeoutError:
            log.warning("client keys could not be read in time: services that ask for keys let nobody in")

    async def _follow(self) -> None:
        while True:
            await self._changed.wait()
            self._changed.clear()
            if shards := self._flush():
                self._on_routes(shards)

    def _mark(self, keys: Iterable[str]) -> None:
        self._dirty.update(keys)
        if self._dirty:
            self._changed.set()

    def _service_changed(self, change: Change[LLMService]) -> None:
        key = change.subject.key
        self._mark([key])
        touched = self._claims.remove(key) if change.new is None else self._declare(change.new)
        self._mark(touched)
        if self._claims.conflicts(key) is not None:
            touched = touched | {key}
        if touched:
            self._on_conflicts(touched)
        secret = references(change.new).client_keys if change.new else ""
        if not secret:
            self._key_secrets.pop(key, None)
        elif self._key_secrets.get(key) != (change.subject.namespace, secret):
            self._key_secrets[key] = (change.subject.namespace, secret)
            if self.keys is not None:
                self.keys.look()

    def _runtime_changed(self, change: Change[InferenceRuntime]) -> None:
        runtime, services = change.subject, self._stores.services
        self._mark(service.key for service in services.by_index("runtime", runtime.name))
        for found in (change.old, change.new):
            if found is not None:
                self._mark(service.key for service in services.by_index("vendor", found.choice().vendor))

    def _pod_changed(self, change: Change[Pod]) -> None:
        self._mark(owning_service(change.subject))

    def _deployment_changed(self, change: Change[Deployment]) -> None:
        if (new := change.new) is None:
            return
        key = service_key(new.namespace, new.name)
        if self._doomed.wanted(key, new.spec.replicas, self._pod_uids(key)):
            self._mark([key])

    def _pod_uids(self, key: str) -> list[str]:
        return [pod.uid for pod in self._stores.pods.by_index("service", key)]

    def _declare(self, service: LLMService) -> set[str]:
        spec = self._spec(service)
        rank = (service.metadata.creation_timestamp or "", service.uid)
        return self._claims.declare(
            service.key,
            rank,
            hostnames=spec.endpoint.hostnames if spec else (),
            aliases=spec.endpoint.aliases if spec else (),
        )

    def _flush(self) -> set[int]:
        dirty, self._dirty = self._dirty, set()
        shards = {self._try_to_enter(key) for key in dirty}
        return {shard for shard in shards if shard is not None}

    def _try_to_enter(self, key: str) -> int | None:
        """One strange service must not take ten thousand others' routes with it; what gateways know of it stays."""
        try:
            return self._enter(key)
        except Exception:
            log.exception("a defect: no route can be made", extra=context(name=key))
            return None

    def _enter(self, key: str) -> int | None:
        service = self._stores.services.get(*split_key(key))
        if service is None:
            self._doomed.forget(key)
            return self.book.remove(key)
        spec = self._spec(service)
        pods = self._stores.pods.by_index("service", key)
        runtime = self._runtime(service, pods) if spec else None
        doomed = self._doomed.among(key, self._pod_uids(key))
        return self.book.put(route_of(service, spec, runtime, pods, self._access(service, spec), doomed))

    def _access(self, service: LLMService, spec: LLMServiceSpec | None) -> Access:
        digests = None
        if spec is not None and (authentication := spec.endpoint.authentication) is not None:
            reference = authentication.secret_ref
            digests = self.keys.digests(service.namespace, reference.name, reference.key) if self.keys else ()
        return Access(
            hostnames=self._claims.hostnames(service.key),
            aliases=self._claims.aliases(service.key),
            digests=digests,
        )

    def _spec(self, service: LLMService) -> LLMServiceSpec | None:
        try:
            return self._specs.service(service)
        except SpecProblem:
            return None  # reconcile says so in the service's conditions

    def _runtime(self, service: LLMService, pods: Iterable[Pod]) -> InferenceRuntimeSpec | None:
        """The runtime that the pods run, if there are any; else the one that would be chosen."""
        wanted, runtimes = references(service), self._stores.runtimes
        running = {pod.metadata.labels.get(LABEL_RUNTIME, "") for pod in pods} - {""}
        try:
            if len(running) == 1 and (found := runtimes.get("", running.pop())) is not None:
                return self._specs.runtime(found)
            return self._specs.runtime(
                choose(
                    wanted.runtime,
                    wanted.vendors,
                    get=lambda name: runtimes.get("", name),
                    of_vendor=lambda vendor: runtimes.by_index("vendor", vendor),
                    current=service.status.resolved_runtime,
                )
            )
        except SpecProblem:
            return None
