"""What to do next for one pod: a kubelet's pod worker as a pure state machine.

It is told what happened (`states.Event`) and answers with what to do (`states.Action`); it has no clock, process or socket.
Invariants: a container has at most one live attempt; application containers start only after every init container has
succeeded, and never once deletion was asked for; `Finish` comes exactly once, after the last process ended; a probe is
never asked twice at a time. Times: `now` is monotonic; strings are wall time for people.
"""

from collections.abc import Iterator

from noctaya.local.agent.backoff import Backoff
from noctaya.local.agent.probing import ProbeSchedule, Verdict
from noctaya.local.agent.settings import AgentSettings
from noctaya.local.agent.spec import ContainerSpec, PodSpec, ProbeKind
from noctaya.local.agent.states import (
    Action,
    Container,
    DeletionAsked,
    Event,
    Exited,
    Finish,
    MountVolumes,
    NotStarted,
    Probed,
    RunProbe,
    Stage,
    StartContainer,
    Started,
    StopContainer,
    Tell,
    Termination,
    VolumesFailed,
    VolumesMounted,
    Woken,
)


class PodLifecycle:
    """One pod from its arrival on the node until nothing of it is left."""

    def __init__(self, pod: PodSpec, settings: AgentSettings, restarts: dict[str, int] | None = None) -> None:
        self.pod = pod
        self._settings = settings
        restarts = restarts or {}
        self.init_containers = [self._container(spec, restarts, is_init=True) for spec in pod.init_containers]
        self.containers = [self._container(spec, restarts) for spec in pod.containers]
        self.is_terminating = False
        self._gone = False
        self._finished = False
        self._mounted = False
        self._mounting = False
        self._mount_retry_at = 0.0
        self._mount_backoff = Backoff(settings.volume_base_seconds, 10.0, first_at_once=False)
        self._grace = pod.grace_seconds
        self._asking: set[tuple[str, ProbeKind]] = set()

    def _container(self, spec: ContainerSpec, restarts: dict[str, int], is_init: bool = False) -> Container:
        settings = self._settings
        container = Container(
            spec,
            restarts=Backoff(settings.restart_base_seconds, settings.restart_maximum_seconds),
            pulls=Backoff(settings.pull_base_seconds, settings.restart_maximum_seconds, first_at_once=False),
            is_init=is_init,
            attempt=restarts.get(spec.name, 0),
        )
        if self.pod.init_containers:
            container.waiting_reason = "PodInitializing"
        return container

    # -- what the shell asks --

    def all_containers(self) -> Iterator[Container]:
        """Init containers, then the others, in the pod's order."""
        yield from self.init_containers
        yield from self.containers

    def find(self, name: str) -> Container:
        """The container of this name."""
        return next(container for container in self.all_containers() if container.spec.name == name)

    def wake_at(self) -> float | None:
        """When to send `Woken` if nothing else happens; None while only an outside event can change anything."""
        times = [container.retry_at for container in self.all_containers() if container.retry_at is not None]
        if not self._mounted and not self._mounting:
            times.append(self._mount_retry_at)
        for container in self.containers:
            times += [schedule.due for kind, schedule in self._askable(container)]
        return min(times, default=None) if not self._finished else None

    @property
    def is_initialized(self) -> bool:
        """Every init container has succeeded."""
        return all(container.succeeded for container in self.init_containers)

    @property
    def has_init_failure(self) -> bool:
        """An init container failed for good: the pod fails without its containers ever starting."""
        return any(
            container.stage is Stage.ENDED and not container.succeeded and not self._may_restart(container)
            for container in self.init_containers
        )

    # -- what happens --

    def on(self, event: Event, now: float) -> list[Action]:
        """Take in one event and say what to do."""
        actions: list[Action] = []
        match event:
            case VolumesMounted():
                self._mounted, self._mounting = True, False
            case VolumesFailed(message):
                self._mounting = False
                self._mount_retry_at = self._mount_backoff.after(now)
                actions.append(Tell("FailedMount", message, "Warning"))
            case Started(name, at):
                self._started(self.find(name), at, now, actions)
            case NotStarted(name, reason, message):
                self._not_started(self.find(name), reason, message, now, actions)
            case Exited():
                self._exited(self.find(event.container), event, now, actions)
            case Probed():
                self._probed(event, now, actions)
            case DeletionAsked(grace, gone):
                self._deletion_asked(grace, gone, actions)
            case Woken():
                pass
        self._advance(now, actions)
        return actions

    def _started(self, container: Container, at: str, now: float, actions: list[Action]) -> None:
        container.stage = Stage.RUNNING
        container.started_at = at
        container.ended = None
        container.pulls = Backoff(
            self._settings.pull_base_seconds, self._settings.restart_maximum_seconds, first_at_once=False
        )
        container.probes = {
            probe.kind: ProbeSchedule(probe, now, self._settings.prompt_probe_seconds)
            for probe in container.spec.probes
        }
        actions.append(
            Tell("Started", f"Started container {container.spec.name}", container=container.spec.name)
        )

    def _not_started(
        self, container: Container, reason: str, message: str, now: float, actions: list[Action]
    ) -> None:
        container.stage = Stage.WAITING
        container.waiting_reason, container.waiting_message = reason, message
        name = container.spec.name
        if reason == "ErrImagePull":
            # The first half of the pause shows ErrImagePull, the second ImagePullBackOff, as on a cluster.
            container.retry_at = now + (container.pulls.after(now) - now) / 2
            image = container.spec.image
            actions.append(Tell("Failed", f'Failed to pull image "{image}": {message}', "Warning", name))
            actions.append(Tell("Failed", "Error: ErrImagePull", "Warning", name))
        else:
            container.retry_at = now + self._settings.config_retry_seconds
            actions.append(Tell("Failed", f"Error: {message}", "Warning", name))

    def _exited(self, container: Container, event: Exited, now: float, actions: list[Action]) -> None:
        reason = event.reason or ("Completed" if event.exit_code == 0 else "Error")
        started_at = container.started_at or event.at
        container.previous = container.ended = Termination(
            event.exit_code, reason, event.message, started_at, event.at, event.signal
        )
        container.stage = Stage.ENDED
        container.probes = {}
        if self.is_terminating or not self._may_restart(container):
            container.retry_at = None
            return
        container.retry_at = container.restarts.after(now)
        if container.retry_at > now:
            pause = container.restarts.seconds
            pod = f"{self.pod.name}_{self.pod.namespace}({self.pod.uid})"
            name = container.spec.name
            container.waiting_reason = "CrashLoopBackOff"
            container.waiting_message = f"back-off {pause:g}s restarting failed container={name} pod={pod}"
            text = f"Back-off restarting failed container {name} in pod {pod}"
            actions.append(Tell("BackOff", text, "Warning", name))

    def _probed(self, event: Probed, now: float, actions: list[Action]) -> None:
        container = self.find(event.container)
        self._asking.discard((event.container, event.kind))
        schedule = container.probes.get(event.kind)
        if schedule is None or container.attempt != event.attempt or container.stage is not Stage.RUNNING:
            return  # the answer is about a process that is no more
        outcome = schedule.answered(event.good, event.asked, now)
        name = container.spec.name
        if outcome.counted_failure:
            text = f"{event.kind.value.capitalize()} probe failed: {event.detail}"
            actions.append(Tell("Unhealthy", text, "Warning", name))
        if outcome.verdict is Verdict.PASSED and event.kind is ProbeKind.STARTUP:
            for other in container.probes.values():
                other.hold(now)
        elif outcome.verdict is Verdict.FAILED and event.kind is not ProbeKind.READINESS:
            grace = self._grace if schedule.spec.grace_seconds is None else schedule.spec.grace_seconds
            text = f"Container {name} failed {event.kind.value} probe, will be restarted"
            actions.append(Tell("Killing", text, container=name))
            self._stop(container, grace, actions)

    def _deletion_asked(self, grace: float, gone: bool, actions: list[Action]) -> None:
        self._gone = self._gone or gone
        first = not self.is_terminating
        if not first and grace >= self._grace:
            return
        self.is_terminating = True
        self._grace = grace
        for container in self.all_containers():
            container.retry_at = None
            if container.has_process:
                if first:
                    text = f"Stopping container {container.spec.name}"
                    actions.append(Tell("Killing", text, container=container.spec.name))
                self._stop(container, grace, actions)

    # -- what follows --

    def _advance(self, now: float, actions: list[Action]) -> None:
        if self.is_terminating:
            self._advance_terminating(actions)
            return
        if not self._mounted:
            if not self._mounting and now >= self._mount_retry_at:
                self._mounting = True
                actions.append(MountVolumes())
            return
        for container in self.init_containers:
            if not container.succeeded:
                self._drive(container, now, actions)
                return
        for container in self.containers:
            self._drive(container, now, actions)

    def _advance_terminating(self, actions: list[Action]) -> None:
        for container in self.all_containers():
            if container.stage is Stage.RUNNING:  # it was being started when deletion was asked for
                self._stop(container, self._grace, actions)
        if (
            not self._finished
            and not self._mounting
            and not any(item.is_alive for item in self.all_containers())
        ):
            self._finished = True
            actions.append(Finish(self._gone))

    def _drive(self, container: Container, now: float, actions: list[Action]) -> None:
        if container.is_alive:
            self._ask_due(container, now, actions)
            return
        if container.retry_at is not None and now < container.retry_at:
            return
        if container.stage is Stage.WAITING and container.waiting_reason == "ErrImagePull":
            self._back_off_pull(container, now, actions)
            return
        if container.stage is Stage.ENDED:
            if not self._may_restart(container):
                return
            container.attempt += 1
        container.retry_at = None
        container.stage = Stage.STARTING
        actions.append(StartContainer(container.spec.name, container.attempt))

    def _back_off_pull(self, container: Container, now: float, actions: list[Action]) -> None:
        image = container.spec.image
        container.retry_at = now + container.pulls.seconds / 2
        container.waiting_reason = "ImagePullBackOff"
        container.waiting_message = f'Back-off pulling image "{image}": {container.waiting_message}'
        name = container.spec.name
        actions.append(Tell("BackOff", f'Back-off pulling image "{image}"', "Normal", name))
        actions.append(Tell("Failed", "Error: ImagePullBackOff", "Warning", name))

    def _ask_due(self, container: Container, now: float, actions: list[Action]) -> None:
        for kind, schedule in self._askable(container):
            if schedule.due <= now:
                self._asking.add((container.spec.name, kind))
                actions.append(RunProbe(container.spec.name, container.attempt, kind))

    def _askable(self, container: Container) -> list[tuple[ProbeKind, ProbeSchedule]]:
        if container.stage is not Stage.RUNNING or self.is_terminating:
            return []
        startup = container.probes.get(ProbeKind.STARTUP)
        is_starting = startup is not None and not startup.passing
        return [
            (kind, schedule)
            for kind, schedule in container.probes.items()
            if (container.spec.name, kind) not in self._asking
            and not schedule.finished
            and (kind is ProbeKind.STARTUP) == is_starting
        ]

    def _stop(self, container: Container, grace: float, actions: list[Action]) -> None:
        container.stage = Stage.STOPPING
        actions.append(StopContainer(container.spec.name, grace))

    def _may_restart(self, container: Container) -> bool:
        policy = self.pod.restart_policy
        if container.is_init and policy == "Always":
            policy = "OnFailure"  # an init container that succeeded is done
        failed = container.ended is not None and container.ended.exit_code != 0
        return policy == "Always" or (policy == "OnFailure" and failed)
