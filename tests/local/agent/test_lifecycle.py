"""A pod's decisions in virtual time; the invariants hold for every order of events."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from noctaya.kube.metadata import Metadata
from noctaya.local.agent.lifecycle import PodLifecycle
from noctaya.local.agent.settings import AgentSettings
from noctaya.local.agent.spec import PodObject, parse_pod
from noctaya.local.agent.states import (
    Action,
    DeletionAsked,
    Event,
    Exited,
    Finish,
    MountVolumes,
    NotStarted,
    RunProbe,
    Stage,
    StartContainer,
    Started,
    StopContainer,
    Tell,
    VolumesFailed,
    VolumesMounted,
    Woken,
)
from noctaya.local.agent.status import pod_phase, pod_status

AT = "2026-01-01T00:00:00Z"


def pod(*, init: int = 0, containers: int = 1, policy: str = "Always", **container: Any) -> PodObject:
    spec = {
        "restartPolicy": policy,
        "initContainers": [{"name": f"init{n}", "image": "x"} for n in range(init)],
        "containers": [{"name": f"main{n}", "image": "x", **container} for n in range(containers)],
    }
    return PodObject(metadata=Metadata(name="p", namespace="ns", uid="u1"), spec=spec)


def lifecycle(found: PodObject) -> PodLifecycle:
    return PodLifecycle(parse_pod(found), AgentSettings())


def mounted(found: PodObject) -> PodLifecycle:
    core = lifecycle(found)
    assert core.on(Woken(), 0.0) == [MountVolumes()]
    return core


def doing(actions: list[Action]) -> list[Action]:
    return [action for action in actions if not isinstance(action, Tell)]


def test_containers_start_together_when_the_volumes_are_there() -> None:
    core = mounted(pod(containers=2))
    assert doing(core.on(VolumesMounted(), 0.0)) == [StartContainer("main0", 0), StartContainer("main1", 0)]


def test_init_containers_come_one_by_one_first() -> None:
    core = mounted(pod(init=2))
    assert doing(core.on(VolumesMounted(), 0.0)) == [StartContainer("init0", 0)]
    assert doing(core.on(Started("init0", AT), 1.0)) == []
    assert doing(core.on(Exited("init0", 0, 0, AT), 2.0)) == [StartContainer("init1", 0)]
    core.on(Started("init1", AT), 3.0)
    assert doing(core.on(Exited("init1", 0, 0, AT), 4.0)) == [StartContainer("main0", 0)]


def test_volumes_are_tried_again_with_a_growing_pause() -> None:
    core = mounted(pod())
    core.on(VolumesFailed("no"), 0.0)
    assert core.wake_at() == 0.5
    assert core.on(Woken(), 0.4) == []
    assert doing(core.on(Woken(), 0.5)) == [MountVolumes()]
    core.on(VolumesFailed("no"), 0.5)
    assert core.wake_at() == 1.5


def test_the_first_restart_is_at_once_then_ten_seconds_doubling() -> None:
    core = mounted(pod())
    core.on(VolumesMounted(), 0.0)
    now, pauses = 0.0, []
    for attempt in range(5):
        core.on(Started("main0", AT), now)
        actions = doing(core.on(Exited("main0", 1, 0, AT), now))
        due = now if actions else core.wake_at()
        assert due is not None
        pauses.append(due - now)
        now = due
        if not actions:
            assert core.find("main0").waiting_reason == "CrashLoopBackOff"
            actions = doing(core.on(Woken(), now))
        assert actions == [StartContainer("main0", attempt + 1)]
    assert pauses == [0.0, 10.0, 20.0, 40.0, 80.0]


def test_a_container_that_ran_for_ten_minutes_starts_with_a_clean_slate() -> None:
    core = mounted(pod())
    core.on(VolumesMounted(), 0.0)
    for _ in range(2):
        core.on(Started("main0", AT), 0.0)
        core.on(Exited("main0", 1, 0, AT), 0.0)
    core.on(Woken(), 10.0)
    core.on(Started("main0", AT), 10.0)
    assert doing(core.on(Exited("main0", 1, 0, AT), 700.0)) == [StartContainer("main0", 3)]


def test_a_container_being_started_when_deletion_is_asked_is_stopped_then() -> None:
    core = mounted(pod())
    core.on(VolumesMounted(), 0.0)
    assert doing(core.on(DeletionAsked(30), 1.0)) == []
    assert doing(core.on(Started("main0", AT), 2.0)) == [StopContainer("main0", 30)]
    assert doing(core.on(Exited("main0", 0, 15, AT), 3.0)) == [Finish(gone=False)]


def test_a_second_deletion_only_ever_shortens_the_grace_period() -> None:
    core = mounted(pod())
    core.on(VolumesMounted(), 0.0)
    core.on(Started("main0", AT), 0.0)
    assert doing(core.on(DeletionAsked(30), 1.0)) == [StopContainer("main0", 30)]
    assert doing(core.on(DeletionAsked(60), 2.0)) == []
    assert doing(core.on(DeletionAsked(1), 3.0)) == [StopContainer("main0", 1)]
    assert doing(core.on(DeletionAsked(0, gone=True), 3.0)) == [StopContainer("main0", 0)]
    assert doing(core.on(Exited("main0", 137, 9, AT), 3.1)) == [Finish(gone=True)]


def test_liveness_and_readiness_wait_for_startup() -> None:
    probes: dict[str, Any] = {
        kind: {"tcpSocket": {"port": 1}} for kind in ("startupProbe", "livenessProbe", "readinessProbe")
    }
    core = mounted(pod(**probes))
    core.on(VolumesMounted(), 0.0)
    asked = [a.kind for a in core.on(Started("main0", AT), 0.0) if isinstance(a, RunProbe)]
    assert asked == ["startup"]


def test_a_restarting_pod_stays_running_and_a_finished_one_does_not() -> None:
    for policy, code, phase in [
        ("Always", 0, "Running"), ("OnFailure", 1, "Running"), ("OnFailure", 0, "Succeeded"),
        ("Never", 0, "Succeeded"), ("Never", 1, "Failed"),
    ]:  # fmt: skip
        core = mounted(pod(policy=policy))
        core.on(VolumesMounted(), 0.0)
        core.on(Started("main0", AT), 0.0)
        core.on(Exited("main0", code, 0, AT), 0.0)
        assert pod_phase(core) == phase, (policy, code)


def test_a_status_written_again_keeps_its_transition_times() -> None:
    found = pod()
    core = mounted(found)
    core.on(VolumesMounted(), 0.0)
    core.on(Started("main0", AT), 0.0)
    first = pod_status(found, core, "127.64.0.1", "2026-01-01T00:00:01Z")
    seen = PodObject(metadata=found.metadata, spec=found.spec, status=first)
    assert pod_status(seen, core, "127.64.0.1", "2026-01-01T00:00:09Z") == first


EVENTS = st.sampled_from(
    ["mounted", "mount failed", "started", "not started", "exited", "failed", "delete", "gone", "wake"]
)


@given(
    story=st.lists(st.tuples(EVENTS, st.integers(0, 3)), max_size=60),
    init=st.integers(0, 2),
    containers=st.integers(1, 2),
    policy=st.sampled_from(["Always", "OnFailure", "Never"]),
)
def test_a_pod_never_runs_two_attempts_never_skips_init_and_finishes_once(
    story: list[tuple[str, int]], init: int, containers: int, policy: str
) -> None:
    core = lifecycle(pod(init=init, containers=containers, policy=policy))
    alive: set[str] = set()
    mounting = finished = deleted = False
    now = 0.0
    names = [c.spec.name for c in core.all_containers()]
    for what, which in [("wake", 0), *story]:
        now += 1.0
        name = names[which % len(names)]
        running = core.find(name).stage
        event: Event = Woken()
        if what in {"mounted", "mount failed"} and mounting:
            mounting, event = False, VolumesMounted() if what == "mounted" else VolumesFailed("no")
        elif what == "started" and running is Stage.STARTING:
            event = Started(name, AT)
        elif what == "not started" and running is Stage.STARTING:
            event = NotStarted(name, "ErrImagePull", "no")
            alive.discard(name)
        elif what in {"exited", "failed"} and running in {Stage.RUNNING, Stage.STOPPING}:
            event = Exited(name, int(what == "failed"), 0, AT)
            alive.discard(name)
        elif what in {"delete", "gone"}:
            deleted, event = True, DeletionAsked(float(which), gone=what == "gone")
        for action in core.on(event, now):
            assert not finished, "nothing happens after Finish"
            match action:
                case MountVolumes():
                    assert not mounting
                    mounting = True
                case StartContainer(started, _):
                    assert not deleted
                    assert started not in alive
                    if started.startswith("main"):
                        assert core.is_initialized
                    alive.add(started)
                case StopContainer(stopped, _):
                    assert stopped in alive
                case Finish():
                    assert deleted
                    assert not alive
                    finished = True
                case _:
                    pass
        pod_status(pod(init=init, containers=containers, policy=policy), core, "127.64.0.1", AT)
