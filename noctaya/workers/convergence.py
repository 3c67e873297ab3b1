"""One run of reconcile for one service: read what there is, render what should be, apply the difference, write the status.

Level-based: a run knows only the key and the stores, so a lost or doubled trigger changes nothing. `permission(shard)` is
asked directly before every write; without it a run ends where it is. A problem with one child stops the ones after it, and
the status still tells what is seen of the backend: a service that serves stays Ready while somebody corrects its spec.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from noctaya.api.conditions import ConditionType, Reason
from noctaya.api.names import shard_of
from noctaya.kube import Resource, Store
from noctaya.kube.errors import Forbidden, KindNotServed, KubeError
from noctaya.kube.objects import Object, condition
from noctaya.kube.resources import DEPLOYMENTS, PVCS, SCALEDOBJECTS, SERVICES
from noctaya.leader.tenure import is_believable
from noctaya.workers.apply import Applier, Permit
from noctaya.workers.audit import OFF, Audit
from noctaya.workers.autoscaling import Autoscaling, Verdict, is_stuck, is_waiting_worthwhile, verdict
from noctaya.workers.errors import BeingDeleted, NotPermitted, SpecProblem, StaleEpoch
from noctaya.workers.models import resolve
from noctaya.workers.objects import LLMService
from noctaya.workers.observe import backend
from noctaya.workers.patience import Patience
from noctaya.workers.permission import Permission
from noctaya.workers.queue import Outcome
from noctaya.workers.render import Child, Children, Fleet, render
from noctaya.workers.runtimes import choose
from noctaya.workers.scaledobject import revision_of
from noctaya.workers.specs import Specs
from noctaya.workers.status import Failure, Seen
from noctaya.workers.status_writer import StatusWriter
from noctaya.workers.stores import Stores

WORLD_ERRORS_THAT_SHOW = 3
"""So many in a row stand in the conditions; fewer are nobody's business. A refusal is: it does not pass by itself."""
KEDA_PATIENCE_SECONDS = 60.0
GATEWAY_PATIENCE_SECONDS = 30.0
DELETION_RETRY_SECONDS = 1.0
TAKEN_NAME_RETRY_SECONDS = 15.0
"""Nothing tells when somebody else's object goes away: it is not watched."""
NO_GATEWAY = "NoGatewayReady"
_GATEWAYS = "gateways"
_KEDA = "keda"


class Ownership(Protocol):
    """What reconcile asks of `ownership.py`."""

    def permission(self, shard: int) -> Permission: ...

    def epoch(self, shard: int) -> int: ...


@dataclass(frozen=True, slots=True)
class Result:
    """How a run ended, and when to look again without being told to."""

    outcome: Outcome
    again_after_seconds: float | None = None


@dataclass(slots=True)
class _Run:
    """What one run finds out on its way to the status."""

    runtime: str = ""
    minimum_replicas: int | None = None
    failure: Failure | None = None
    autoscaling_failure: str = ""
    world_error: KubeError | None = None
    again_after_seconds: float | None = None

    def again(self, seconds: float) -> None:
        self.again_after_seconds = min(seconds, self.again_after_seconds or seconds)


class Convergence:
    """Reconciles one service at a time; knows nothing of queues."""

    def __init__(
        self,
        stores: Stores,
        applier: Applier,
        writer: StatusWriter,
        ownership: Ownership,
        fleet: Fleet,
        *,
        ready_to_autoscale: Callable[[], bool],
        conflicts: Callable[[str], str | None],
        clock: Callable[[], float],
        audit: Audit = OFF,
    ) -> None:
        self._audit = audit
        self._stores = stores
        self._applier = applier
        self._writer = writer
        self._ownership = ownership
        self._fleet = fleet
        self._ready_to_autoscale = ready_to_autoscale
        self._conflicts = conflicts
        self._clock = clock
        self._specs = Specs()
        self._patience = Patience()

    async def run(self, service: LLMService, world_errors: int = 0) -> Result:
        """Reconcile `service`, of which `world_errors` runs in a row failed before.

        Raises:
            NotPermitted: nothing more may be written for its shard.
            StaleEpoch: another worker owns the shard.
            KubeError: the API server's trouble; whatever could be told in the status was told.
        """
        if service.metadata.is_deleting:
            return Result(Outcome.DONE)  # the garbage collector deletes the children: none may be made anew
        shard = shard_of(service.namespace, service.name)
        permit = self._permit(shard)
        permit(f"reconcile {service.key}")
        service = self._writer.newest(service)
        epoch = self._ownership.epoch(shard)
        if service.status.shard_epoch > epoch and is_believable(service.status.shard_epoch, epoch):
            raise StaleEpoch(service.key, service.status.shard_epoch, epoch)
        run = _Run()
        try:
            children = self._render(service, run)
            await self._apply(service, children, run, permit, world_errors)
        except SpecProblem as problem:
            run.failure = Failure(problem.reason, problem.message)
        seen = self._see(service, run, epoch)
        await self._writer.write(service, seen, permit)
        if run.world_error is not None:
            raise run.world_error
        outcome = Outcome.USER_ERROR if run.failure is not None else Outcome.DONE
        return Result(outcome, run.again_after_seconds)

    def forget(self, key: str) -> None:
        """The service is gone."""
        self._patience.forget(key)
        self._writer.forget(key)

    # -- what should be ------------------------------------------------------------------------------------------------

    def _render(self, service: LLMService, run: _Run) -> Children:
        spec = self._specs.service(service)
        run.minimum_replicas = spec.scaling.min
        selector = spec.runtime.selector
        runtime = choose(
            spec.runtime.name or "",
            selector.vendor or () if selector is not None else (),
            get=lambda name: self._stores.runtimes.get("", name),
            of_vendor=lambda vendor: self._stores.runtimes.by_index("vendor", vendor),
            current=_runtime_of_this_generation(service),
        )
        run.runtime = runtime.name
        source = spec.model.source
        model = resolve(
            source.uri if source is not None else "",
            catalog=spec.model.catalog_ref or "",
            secret=source.secret_ref.name if source is not None and source.secret_ref is not None else None,
        )
        runtime_spec = self._specs.runtime(runtime)
        return render(
            service, spec, runtime.name, runtime_spec, model, self._fleet, revision=self._revision(service)
        )

    def _revision(self, service: LLMService) -> int:
        """The ScaledObject's revision: the live one, or the next when KEDA has to be asked to start over."""
        seen = self._autoscaling(service)
        self._patience.observe(service.key, is_stuck(seen), self._clock())
        revision = revision_of(seen.live)
        if seen.is_scaler_reachable and self._patience.may_rebuild(service.key, self._clock()):
            self._patience.rebuilt(service.key, self._clock())
            return revision + 1
        return revision

    # -- making it so --------------------------------------------------------------------------------------------------

    async def _apply(
        self, service: LLMService, children: Children, run: _Run, permit: Permit, world_errors: int
    ) -> None:
        for child in children.in_order():
            if child is children.scaled_object and not self._may_scale(service):
                continue
            try:
                await self._applier.ensure(child, self._live(child), service.uid, permit)
            except KindNotServed as error:
                if child is not children.scaled_object:
                    run.world_error = error
                    return
                # The CRD went away and the store has not heard of it yet; it tells when KEDA is back.
            except SpecProblem as problem:
                run.failure = Failure(problem.reason, problem.message)
                if problem.reason == Reason.NAME_CONFLICT:
                    run.again(TAKEN_NAME_RETRY_SECONDS)
                if child is children.scaled_object:
                    run.autoscaling_failure = problem.message
                if not child.is_created_once:
                    return
            except BeingDeleted:
                run.again(DELETION_RETRY_SECONDS)
            except KubeError as error:
                run.world_error = error
                if world_errors >= WORLD_ERRORS_THAT_SHOW or isinstance(error, Forbidden):
                    run.failure = Failure(child.failure, str(error))
                    if child is children.scaled_object:
                        run.autoscaling_failure = str(error)
                return

    def _may_scale(self, service: LLMService) -> bool:
        """Whether the ScaledObject may be written: KEDA, asking a scaler that does not answer, builds a wrong HPA."""
        if not self._stores.is_keda_served:
            return False
        return (
            self._ready_to_autoscale()
            or self._stores.scaledobjects.get(service.namespace, service.name) is not None
        )

    def _live(self, child: Child) -> Object | None:
        stores: dict[Resource, Store[Any]] = {
            DEPLOYMENTS: self._stores.deployments,
            SERVICES: self._stores.kube_services,
            PVCS: self._stores.pvcs,
            SCALEDOBJECTS: self._stores.scaledobjects,
        }
        found: Object | None = stores[child.resource].get(child.namespace, child.name)
        return found

    def _permit(self, shard: int) -> Permit:
        def permit(what: str) -> None:
            if self._ownership.permission(shard) is not Permission.ACT:
                raise NotPermitted(shard, what)
            self._audit.wrote(shard, self._ownership.epoch(shard), what)

        return permit

    # -- what is -------------------------------------------------------------------------------------------------------

    def _see(self, service: LLMService, run: _Run, epoch: int) -> Seen:
        deployment = self._stores.deployments.get(service.namespace, service.name)
        controller = deployment.metadata.controller() if deployment is not None else None
        if controller is None or controller.uid != service.uid:
            deployment = None
        return Seen(
            backend=backend(deployment, self._stores.pods.by_index("service", service.key)),
            autoscaling=self._autoscaling_verdict(service, run),
            endpoint=self._endpoint_verdict(service, run),
            minimum_replicas=run.minimum_replicas,
            runtime=run.runtime,
            epoch=epoch,
            failure=run.failure,
        )

    def _autoscaling(self, service: LLMService, failure: str = "") -> Autoscaling:
        live = self._stores.scaledobjects.get(service.namespace, service.name)
        hpas = self._stores.hpas.by_index("service", service.key)
        return Autoscaling(
            is_keda_served=self._stores.is_keda_served,
            is_scaler_reachable=self._ready_to_autoscale(),
            live=live,
            hpa=hpas[0] if hpas else None,
            failure=failure,
        )

    def _autoscaling_verdict(self, service: LLMService, run: _Run) -> Verdict | None:
        seen = self._autoscaling(service, run.autoscaling_failure)
        if run.failure is not None and seen.live is None:
            return Verdict("False", run.failure.reason, run.failure.message)
        found = verdict(seen)
        before = condition(service.status.conditions, ConditionType.AUTOSCALING_READY)
        gone = self._patience.observe(_KEDA, not seen.is_keda_served, self._clock())
        if not seen.is_keda_served and before is not None and gone < KEDA_PATIENCE_SECONDS:
            # An API server that lags answers 404 for a kind that another one serves: no news for ten thousand services.
            run.again(KEDA_PATIENCE_SECONDS - gone)
            return None
        lasted = self._patience.observe(service.key, is_stuck(seen), self._clock())
        if is_stuck(seen):
            run.again(
                max(1.0, KEDA_PATIENCE_SECONDS - lasted)
                if lasted < KEDA_PATIENCE_SECONDS
                else KEDA_PATIENCE_SECONDS
            )
        if is_waiting_worthwhile(found) and lasted < KEDA_PATIENCE_SECONDS:
            return None if before is not None else Verdict("Unknown", found.reason, found.message)
        return found

    def _endpoint_verdict(self, service: LLMService, run: _Run) -> Verdict | None:
        conflict = self._conflicts(service.key)
        if conflict is not None:
            return Verdict("False", Reason.NAME_CONFLICT, conflict)
        is_served = any(
            pod.is_ready and not pod.metadata.is_deleting for pod in self._stores.gateways.items()
        )
        lasted = self._patience.observe(_GATEWAYS, not is_served, self._clock())
        if is_served:
            return Verdict("True", Reason.PUBLISHED, "the gateways serve this name")
        if lasted < GATEWAY_PATIENCE_SECONDS:
            run.again(GATEWAY_PATIENCE_SECONDS - lasted + 1.0)
            return None
        return Verdict(
            "False", NO_GATEWAY, "no gateway pod is ready: requests for this service cannot be received"
        )


def _runtime_of_this_generation(service: LLMService) -> str:
    """The runtime that the present spec was resolved to, or empty when the spec is newer than that."""
    ready = condition(service.status.conditions, ConditionType.READY)
    if ready is None or ready.observed_generation != service.metadata.generation:
        return ""
    return service.status.resolved_runtime
