"""What one container is doing, and what the agent is told and tells about it: the values of `lifecycle.py`."""

from dataclasses import dataclass, field
from enum import Enum

from noctaya.local.agent.backoff import Backoff
from noctaya.local.agent.probing import ProbeSchedule
from noctaya.local.agent.spec import ContainerSpec, ProbeKind


class Stage(Enum):
    """Where a container is in one attempt."""

    WAITING = "waiting"
    STARTING = "starting"
    RUNNING = "running"
    STOPPING = "stopping"
    ENDED = "ended"


@dataclass(frozen=True, slots=True)
class Termination:
    """How one attempt ended; times are RFC 3339."""

    exit_code: int
    reason: str
    message: str
    started_at: str
    finished_at: str
    signal: int = 0


@dataclass(slots=True)
class Container:
    """One container of a pod over all its attempts."""

    spec: ContainerSpec
    restarts: Backoff
    pulls: Backoff
    is_init: bool = False
    stage: Stage = Stage.WAITING
    attempt: int = 0
    """Number of the current attempt, 0 for the first; what kubectl shows as RESTARTS."""
    waiting_reason: str = "ContainerCreating"
    waiting_message: str = ""
    retry_at: float | None = None
    started_at: str = ""
    ended: Termination | None = None
    """The current attempt's end (stage ENDED)."""
    previous: Termination | None = None
    """The end of the attempt before."""
    probes: dict[ProbeKind, ProbeSchedule] = field(default_factory=dict)

    @property
    def is_alive(self) -> bool:
        """A process exists, or is about to."""
        return self.stage in {Stage.STARTING, Stage.RUNNING, Stage.STOPPING}

    @property
    def has_process(self) -> bool:
        """The process is known to run."""
        return self.stage in {Stage.RUNNING, Stage.STOPPING}

    @property
    def is_started(self) -> bool:
        """Running and past its startup probe."""
        startup = self.probes.get(ProbeKind.STARTUP)
        return self.has_process and (startup is None or startup.passing)

    @property
    def is_ready(self) -> bool:
        """Fit for traffic; an init container is ready when it has succeeded."""
        if self.is_init:
            return self.succeeded
        readiness = self.probes.get(ProbeKind.READINESS)
        return self.is_started and (readiness is None or readiness.passing)

    @property
    def succeeded(self) -> bool:
        """Ended with 0, and that was that."""
        return self.stage is Stage.ENDED and self.ended is not None and self.ended.exit_code == 0


# What the core is told.


@dataclass(frozen=True, slots=True)
class VolumesMounted:
    """All volumes of the pod exist."""


@dataclass(frozen=True, slots=True)
class VolumesFailed:
    """A volume cannot be made now."""

    message: str


@dataclass(frozen=True, slots=True)
class Started:
    """The container's process runs since `at`."""

    container: str
    at: str


@dataclass(frozen=True, slots=True)
class NotStarted:
    """The container could not be started (image, configuration)."""

    container: str
    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class Exited:
    """The container's process ended."""

    container: str
    exit_code: int
    signal: int
    at: str
    message: str = ""
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Probed:
    """A probe that was begun at `asked` for this attempt was answered."""

    container: str
    attempt: int
    kind: ProbeKind
    good: bool
    detail: str
    asked: float


@dataclass(frozen=True, slots=True)
class DeletionAsked:
    """The pod has a deletion timestamp, or (`gone`) is no longer in the API at all."""

    grace_seconds: float
    gone: bool = False


@dataclass(frozen=True, slots=True)
class Woken:
    """Time passed."""


Event = VolumesMounted | VolumesFailed | Started | NotStarted | Exited | Probed | DeletionAsked | Woken


# What the core wants done.


@dataclass(frozen=True, slots=True)
class MountVolumes:
    """Make the pod's volumes; answer with VolumesMounted or VolumesFailed."""


@dataclass(frozen=True, slots=True)
class StartContainer:
    """Start this attempt; answer with Started or NotStarted, later Exited."""

    container: str
    attempt: int


@dataclass(frozen=True, slots=True)
class StopContainer:
    """preStop, SIGTERM, SIGKILL within `grace_seconds`; the answer is Exited. A second one may shorten the grace."""

    container: str
    grace_seconds: float


@dataclass(frozen=True, slots=True)
class RunProbe:
    """Ask now; answer with Probed."""

    container: str
    attempt: int
    kind: ProbeKind


@dataclass(frozen=True, slots=True)
class Tell:
    """Record an event on the pod."""

    reason: str
    message: str
    type: str = "Normal"
    container: str = ""


@dataclass(frozen=True, slots=True)
class Finish:
    """No process is left and the pod is to go: clean up, then remove the object (unless it is gone)."""

    gone: bool


Action = MountVolumes | StartContainer | StopContainer | RunProbe | Tell | Finish
