"""A Deployment's conditions over time, with the clock in the test's hand."""

from typing import Any

from noctaya.local.controllers.progress import deadline, deployment_status
from noctaya.local.controllers.rollout import SetState, Strategy

STRATEGY = Strategy(surge=1, unavailable=0)


def step(spec: dict[str, Any], before: dict[str, Any], new: SetState, now: float) -> dict[str, Any]:
    return deployment_status(spec, before, 1, STRATEGY, new, [], now)


def condition(status: dict[str, Any], kind: str) -> tuple[str, str]:
    found = next(item for item in status["conditions"] if item["type"] == kind)
    return found["status"], found["reason"]


def test_a_rollout_that_does_not_move_misses_its_deadline() -> None:
    spec = {"replicas": 1, "progressDeadlineSeconds": 60}
    stuck = SetState("web-1", wanted=1, pods=1)
    status = step(spec, {}, stuck, 1000.0)
    assert condition(status, "Progressing") == ("True", "NewReplicaSetCreated")
    status = step(spec, status, stuck, 1010.0)
    progressing = next(item for item in status["conditions"] if item["type"] == "Progressing")
    assert deadline(spec, progressing) == 1060.0
    status = step(spec, status, stuck, 1061.0)
    assert condition(status, "Progressing") == ("False", "ProgressDeadlineExceeded")
    assert condition(status, "Available") == ("False", "MinimumReplicasUnavailable")


def test_a_completed_rollout_stays_so_while_it_sleeps_and_wakes() -> None:
    spec = {"replicas": 0, "progressDeadlineSeconds": 60}
    status = step(spec, {}, SetState("web-1", wanted=0), 1000.0)
    assert condition(status, "Progressing") == ("True", "NewReplicaSetAvailable")
    awake = {"replicas": 1, "progressDeadlineSeconds": 60}
    status = step(awake, status, SetState("web-1", wanted=1, pods=1), 5000.0)
    assert condition(status, "Progressing") == ("True", "NewReplicaSetAvailable")
    assert condition(status, "Available") == ("False", "MinimumReplicasUnavailable")
    assert status["unavailableReplicas"] == 1
    status = step(awake, status, SetState("web-1", wanted=1, pods=1, ready=1, available=1), 5001.0)
    assert condition(status, "Available") == ("True", "MinimumReplicasAvailable")


def test_a_new_template_begins_a_new_rollout() -> None:
    spec = {"replicas": 1}
    done = SetState("web-1", wanted=1, pods=1, ready=1, available=1)
    status = step(spec, {}, done, 1000.0)
    assert condition(status, "Progressing") == ("True", "NewReplicaSetAvailable")
    old = [done]
    status = deployment_status(spec, status, 2, STRATEGY, SetState("web-2", wanted=1), old, 1001.0)
    assert condition(status, "Progressing") == ("True", "NewReplicaSetCreated")
    status = deployment_status(spec, status, 2, STRATEGY, SetState("web-2", wanted=1, pods=1), old, 1002.0)
    assert condition(status, "Progressing") == ("True", "ReplicaSetUpdated")


def test_an_unchanged_world_writes_the_same_status() -> None:
    spec = {"replicas": 1}
    done = SetState("web-1", wanted=1, pods=1, ready=1, available=1)
    status = step(spec, {}, done, 1000.0)
    assert step(spec, status, done, 2000.0) == status
