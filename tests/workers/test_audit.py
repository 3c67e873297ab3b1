"""The audit: whole lines by the clock of leases, nothing when it is off, and never in the way."""

from __future__ import annotations

import logging
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from noctaya.kube.clock import boottime
from noctaya.leader.member_record import MemberRecord
from noctaya.leader.planner_events import FenceMember, ReadMap, WriteMap
from noctaya.leader.shard_map import ShardMap
from noctaya.wire import control
from noctaya.workers.audit import (
    AnyLine,
    Audit,
    Fenced,
    Mapped,
    Sent,
    Started,
    Stood,
    Stopped,
    Told,
    Wrote,
    read_lines,
)
from noctaya.workers.demand import AtLeast, Known, Unknown
from noctaya.workers.metric import Silence
from noctaya.workers.permission import Permission
from noctaya.workers.questions import About, Active, Question, Wanted

QUESTION = Question(About.DEMAND, "ai/qwen", 10.0)
SHARD = QUESTION.shard


def written(tmp_path: Path, deeds: Callable[[Audit], object], by: str = "w0_u_1") -> list[AnyLine]:
    file = tmp_path / "audit"
    audit = Audit(str(file), who=lambda: by, clock=lambda: 7.5)
    deeds(audit)
    audit.close()
    return read_lines(file.read_bytes())


def test_every_effect_is_a_line_with_time_incarnation_shard_and_epoch(tmp_path: Path) -> None:
    update = control.ShardUpdate(shard=3, epoch=4, version=5)

    def deeds(audit: Audit) -> None:
        audit.stood("act")
        audit.started(3, 4)
        audit.wrote(3, 4, "apply x")
        audit.sent(update, "b0", Permission.GROW)
        audit.stopped(3)
        audit.stopped(3)
        audit.led(FenceMember(1, "w1", "w1_u_1", "9", MemberRecord(), is_proven=True), 2)
        audit.led(WriteMap(2, ShardMap(generation=8, leader_epoch=2, reason="why"), None), 2)
        audit.led(ReadMap(3), 2)

    at, by = 7.5, "w0_u_1"
    assert written(tmp_path, deeds) == [
        Stood(at=at, by=by, standing="act"),
        Started(at=at, by=by, shard=3, epoch=4),
        Wrote(at=at, by=by, shard=3, epoch=4, what="apply x"),
        Sent(at=at, by=by, shard=3, epoch=4, version=5, to="b0", permission="grow"),
        Stopped(at=at, by=by, shard=3, epoch=4),
        Fenced(at=at, by=by, epoch=2, pod="w1", incarnation="w1_u_1", is_proven=True),
        Mapped(at=at, by=by, epoch=2, generation=8, reason="why"),
    ]


def test_an_answer_tells_value_or_silence_what_was_known_and_by_which_permission(tmp_path: Path) -> None:
    def deeds(audit: Audit) -> None:
        audit.started(SHARD, 6)
        audit.told(QUESTION, Wanted(4), Permission.ACT, Known(4))
        audit.told(QUESTION, Wanted(9), Permission.GROW, AtLeast(2))
        audit.told(QUESTION, Active(False), Permission.ACT, Unknown(1))
        audit.told(QUESTION, Silence("why"), Permission.NONE, None)

    told = [line for line in written(tmp_path, deeds) if isinstance(line, Told)]
    assert [(line.epoch, line.permission, line.value, line.demand, line.seen) for line in told] == [
        (6, "act", 4, "known", 4),
        (6, "grow", 9, "at_least", 2),
        (6, "act", 0, "unknown", 1),
        (6, "none", None, "", 0),
    ]


def test_the_end_of_a_shard_is_noted_for_who_began_it(tmp_path: Path) -> None:
    names = ["w0_u_1"]
    audit = Audit(str(tmp_path / "audit"), who=lambda: names[-1])
    audit.started(1, 5)
    names.append("w0_u_2")  # the incarnation after
    audit.stopped(1)
    audit.close()
    assert [line.by for line in read_lines((tmp_path / "audit").read_bytes())] == ["w0_u_1", "w0_u_1"]


def test_off_it_asks_for_nothing_and_writes_nothing() -> None:
    def nobody() -> str:
        raise AssertionError("asked")

    audit = Audit("", who=nobody)
    audit.stood("act")
    audit.started(1, 2)
    audit.stopped(1)
    audit.wrote(1, 2, "x")
    audit.sent(control.ShardUpdate(), "b0", Permission.ACT)
    audit.told(QUESTION, Wanted(1), Permission.ACT, Known(1))
    audit.led(WriteMap(1, ShardMap(), None), 1)


@pytest.mark.parametrize("file", ["/dev/full", "/nowhere/at/all"])
def test_a_file_that_cannot_be_written_is_complained_of_once_and_nothing_stops(
    file: str, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.ERROR):
        audit = Audit(file)
        for shard in range(3):
            audit.started(shard, 1)
    assert [record.message for record in caplog.records] == ["the audit cannot be written, going on without"]


def test_several_processes_append_whole_lines_by_one_clock(tmp_path: Path) -> None:
    file = tmp_path / "audit"
    code = (
        "import sys\nfrom noctaya.workers.audit import Audit\n"
        "audit = Audit(sys.argv[1], who=lambda: sys.argv[2])\n"
        "for shard in range(128): audit.wrote(shard, 1, 'x' * 300)\n"
    )
    before = boottime()
    processes = [subprocess.Popen([sys.executable, "-c", code, str(file), f"w{n}"]) for n in range(2)]
    assert [process.wait(60) for process in processes] == [0, 0]
    lines = read_lines(file.read_bytes())
    assert len(lines) == 256
    assert all(before <= line.at <= boottime() for line in lines)


def test_a_line_that_a_kill_cut_off_is_no_line(tmp_path: Path) -> None:
    whole = written(tmp_path, lambda audit: audit.started(1, 2))
    assert read_lines((tmp_path / "audit").read_bytes() + b'{"effect":"sta') == whole
