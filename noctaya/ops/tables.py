"""Answers as text for people: plain columns, as kubectl writes them, so that they can be read, piped and compared.

Pure: an answer in, lines out. Nothing is cut off, for what is cut is what somebody looks for; `-` is what is not known or not
there.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

GAP = "   "
Answer = dict[str, Any]


def columns(head: Sequence[str], rows: Iterable[Sequence[object]]) -> Iterator[str]:
    """Lines of equal columns under `head`."""
    table = [tuple(head), *(tuple("-" if cell in (None, "") else str(cell) for cell in row) for row in rows)]
    widths = [max(len(row[column]) for row in table) for column in range(len(head))]
    for row in table:
        yield GAP.join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()


def status_lines(fleet: Answer) -> Iterator[str]:
    """`noctaya status`."""
    leader, map_, shards = fleet["leader"], fleet["map"], fleet["shards"]
    epoch = "" if leader["epoch"] is None else f", epoch {leader['epoch']}"
    generation = "none" if map_["generation"] is None else f"generation {map_['generation']}"
    reason = f": {map_['reason']}" if map_["reason"] else ""
    imbalance = "-" if fleet["imbalance"] is None else fleet["imbalance"]
    yield f"fleet    {fleet['fleet'] or '-'}"
    yield f"leader   {leader['pod'] or 'not known'}{epoch}"
    yield f"map      {generation}{reason}"
    yield f"mode     {mode(fleet)}"
    yield (
        f"shards   {shards['owned']} of {shards['total']} owned, {shards['moving']} moving; fullest and emptiest worker "
        f"differ by {imbalance}"
    )
    yield f"told by  {fleet['told_by']['pod']}"
    yield ""
    yield from worker_lines(fleet["members"])
    if fleet["moves"]:
        yield ""
        yield from move_lines(fleet)


def mode(fleet: Answer) -> str:
    """In one phrase, the most important thing about the fleet."""
    told_by, map_ = fleet["told_by"], fleet["map"]
    if not told_by["has_listed"]:
        return "starting: the asked worker has not seen the fleet yet"
    if not told_by["is_current"]:
        return "the API server is silent: all goes on as it was, nothing is moved or scaled down"
    if map_["problem"]:
        return str(map_["problem"])
    if not map_["is_assigned"]:
        return "no shard is assigned yet"
    frozen = map_["is_frozen"] or map_["is_freeze_asked"]
    return "frozen: no shard moves for balance alone" if frozen else "normal"


def worker_lines(members: Sequence[Answer]) -> Iterator[str]:
    """`noctaya workers`."""
    yield from columns(
        ("WORKER", "STATE", "SHARDS", "DESIRED", "SILENT", "LOAD", "VERSION", "ZONE", "ADDRESS", "NOTES"),
        (
            (
                member["pod"],
                member["state"],
                member["shards_owned"],
                member["shards_desired"],
                f"{member['silent_seconds']:.1f}s",
                f"{member['load']:.2f}",
                member["version"],
                member["zone"],
                member["address"],
                ", ".join(_notes(member)),
            )
            for member in members
        ),
    )


def _notes(member: Answer) -> Iterator[str]:
    if not member["incarnation"]:
        yield "its Lease is held by nobody"
    if member["is_draining"]:
        yield "drain asked"
    if member["is_cordoned"]:
        yield "cordoned"
    if member["is_doubted"]:
        yield "in doubt"
    if not member["is_readable"]:
        yield "annotations unreadable"
    if member["reason"]:
        yield str(member["reason"])


def move_lines(fleet: Answer) -> Iterator[str]:
    """`noctaya moves`."""
    yield from columns(
        ("SHARD", "FROM", "TO", f"PHASE ON {fleet['told_by']['pod']}"),
        ((move["shard"], move["from"], move["to"], move["phase_here"]) for move in fleet["moves"]),
    )


def recent_lines(fleet: Answer) -> Iterator[str]:
    """The latest moves that the leader told."""
    now = time.time()
    yield from columns(
        ("TIME", "SUBJECT", "WHAT"),
        ((clock(now - move["seconds_ago"]), move["subject"], move["text"]) for move in fleet["recent_moves"]),
    )


def shard_lines(shards: Sequence[Answer], told_by: str) -> Iterator[str]:
    """`noctaya shards`."""
    yield from columns(
        ("SHARD", "WORKER", "EPOCH", "DESIRED", "HOLDER", f"ON {told_by}", "SINCE"),
        (
            (
                shard["shard"],
                shard["pod"] if shard["is_held"] else None,
                shard["epoch"],
                shard["desired"],
                shard["holder"],
                shard["here"]["phase"],
                seconds(shard["here"]["since_seconds"]),
            )
            for shard in shards
        ),
    )


def why_lines(why: Answer) -> Iterator[str]:
    """`noctaya why`."""
    yield f"{why['because']}."
    yield ""
    yield from columns(
        ("CHOICE", "WORKER", "ROLE", "HOLDS", "SHARE"),
        (
            (
                place,
                worker["pod"],
                worker["role"],
                worker["held"],
                _share(worker["floor"], worker["ceiling"]),
            )
            for place, worker in enumerate(why["preferences"], 1)
        ),
    )


def _share(floor: int | None, ceiling: int | None) -> str | None:
    if floor is None:
        return None
    return str(floor) if floor == ceiling else f"{floor}-{ceiling}"


def plan_lines(plan: Answer) -> Iterator[str]:
    """`noctaya plan`."""
    yield f"with {plan['workers']} workers {plan['moves']} shards would move"
    yield ""
    yield from columns(("WORKER", "SHARDS"), sorted(plan["counts"].items()))


def rebalance_lines(plan: Answer) -> Iterator[str]:
    """`noctaya rebalance --dry-run`."""
    if not plan["moves"]:
        yield "nothing to move: every worker has its share"
        return
    yield f"{len(plan['moves'])} shards would move"
    for reason in plan["held_off_by"]:
        yield f"held off: {reason}"
    yield ""
    yield from columns(
        ("SHARD", "FROM", "TO"), ((move["shard"], move["from"], move["to"]) for move in plan["moves"])
    )


def verify_lines(findings: Sequence[Answer]) -> Iterator[str]:
    """`noctaya verify`."""
    if not findings:
        yield "nothing is inconsistent"
    for found in findings:
        yield f"{found['subject']}: {found['problem']}"
        yield f"    {found['todo']}"


def story_lines(entries: Sequence[Answer]) -> Iterator[str]:
    """`noctaya story`."""
    yield from columns(
        ("TIME", "TOLD BY", "SUBJECT", "WHAT"),
        ((clock(entry["at"]), entry["worker"], entry["subject"], entry["text"]) for entry in entries),
    )


def clock(at: float) -> str:
    """A moment for people, with milliseconds: a handover takes less than a second."""
    return time.strftime("%H:%M:%S", time.localtime(at)) + f".{int(at % 1 * 1000):03d}"


def seconds(count: float | None) -> str | None:
    """A duration for people."""
    if count is None:
        return None
    if count < 120:
        return f"{count:.1f}s"
    return f"{count / 60:.0f}m" if count < 7200 else f"{count / 3600:.0f}h"
