"""Only processes that were started here are ended, and a part's end is noticed."""

import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cluster.errors import CommandFailed, NotReadyInTime, PartEnded
from tests.cluster.parts import REVIVE_SECONDS, Part, Parts
from tests.cluster.processes import ProcessId, end, run

Eventually = Callable[[Callable[[], bool], float], None]


def test_another_process_under_the_same_number_is_left_alone() -> None:
    with subprocess.Popen(["sleep", "60"]) as process:
        identity = ProcessId.of(process.pid)
        assert identity is not None
        earlier = ProcessId(identity.pid, identity.started - 1)
        assert not earlier.send(signal.SIGKILL)
        end([earlier])
        assert identity.is_alive
        end([identity])
        assert not identity.is_alive


def test_a_process_that_ignores_the_polite_word_is_killed() -> None:
    deaf = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('deaf', flush=True); time.sleep(60)"
    with subprocess.Popen([sys.executable, "-c", deaf], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        identity = ProcessId.of(process.pid)
        assert identity is not None
        end([identity], grace_seconds=0.2)
    assert process.returncode == -signal.SIGKILL


def test_a_failed_command_says_what_it_said() -> None:
    with pytest.raises(CommandFailed, match=r"ended with 3: no such luck") as failure:
        run(["sh", "-c", "echo no such luck >&2; exit 3"])
    assert failure.value.code == 3


def test_a_command_that_hangs_is_killed_in_time() -> None:
    with pytest.raises(CommandFailed, match="did not end in time"):
        run(["sleep", "60"], timeout_seconds=0.1)


def test_a_part_that_ends_during_the_start_is_named_with_its_last_words(tmp_path: Path) -> None:
    parts = Parts(tmp_path)
    parts.start(Part("etcd", ["sh", "-c", "echo the disk is full; exit 7"]))
    with pytest.raises(PartEnded, match=r"(?s)etcd ended with 7.*the disk is full"):
        parts.until("etcd", lambda: False, 5.0)


def test_something_that_never_gets_ready_is_given_up(tmp_path: Path) -> None:
    with pytest.raises(NotReadyInTime, match="the moon is not ready"):
        Parts(tmp_path).until("the moon", lambda: False, 0.1)


def test_a_part_that_is_killed_is_started_again_after_a_moment(
    tmp_path: Path, eventually: Eventually
) -> None:
    told: list[dict[str, ProcessId]] = []
    parts = Parts(tmp_path, told.append)
    parts.start(Part("part", ["sleep", "60"]))
    first = parts.ids()["part"]
    first.send(signal.SIGKILL)
    eventually(lambda: not first.is_alive, 5.0)
    now = time.monotonic()
    parts.revive(now)
    assert parts.revivals == {}
    parts.revive(now + REVIVE_SECONDS)
    assert parts.revivals == {"part": 1}
    assert told[-1]["part"] == parts.ids()["part"] != first
    parts.stop()
    assert parts.ids() == {}


def test_parts_end_in_the_opposite_order(tmp_path: Path) -> None:
    parts, log = Parts(tmp_path / "logs"), tmp_path / "ends"
    (tmp_path / "logs").mkdir()
    for name in ("store", "server"):
        program = (
            f"trap 'echo {name} >> {log}; exit' TERM; touch {tmp_path / name}; while :; do sleep 0.05; done"
        )
        parts.start(Part(name, ["sh", "-c", program]))
        parts.until(name, (tmp_path / name).exists, 5.0)
    parts.stop()
    assert log.read_text().split() == ["server", "store"]
