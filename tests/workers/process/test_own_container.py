"""A worker says in which container it runs only when the pod's status shows one that began as it did."""

from datetime import UTC, datetime

import msgspec
import pytest

from noctaya.kube.objects import Pod
from noctaya.workers.own_container import own_container

STARTED = datetime(2026, 1, 1, 12, 0, 10, tzinfo=UTC)


def pod(*statuses: dict[str, object]) -> Pod:
    return msgspec.convert({"status": {"containerStatuses": list(statuses)}}, Pod)


def running(at: str, name: str = "worker") -> dict[str, object]:
    return {"name": name, "containerID": f"containerd://{name}", "state": {"running": {"startedAt": at}}}


def test_a_container_that_began_just_before_us_is_ours() -> None:
    assert own_container(pod(running("2026-01-01T12:00:08Z")), STARTED) == "containerd://worker"


@pytest.mark.parametrize(
    "shown",
    [
        None,
        pod(),
        pod(running("2026-01-01T11:59:59Z")),
        pod(running("2026-01-01T12:00:11Z")),
        pod(running("yesterday")),
        pod(running("2026-01-01T12:00:08Z"), running("2026-01-01T12:00:08Z", "sidecar")),
        pod(
            {
                "name": "worker",
                "containerID": "containerd://x",
                "state": {"waiting": {"reason": "CrashLoopBackOff"}},
            }
        ),
    ],
)
def test_anything_else_is_not_certain(shown: Pod | None) -> None:
    assert own_container(shown, STARTED) == ""
