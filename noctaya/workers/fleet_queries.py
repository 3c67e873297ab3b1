"""The questions about the fleet that the admin port answers under `/debug/<name>`, and how their parameters are read.

Fails with `QueryRefused`, which says what the parameter should be; the port answers 400 with it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

import msgspec

from noctaya.api.names import SHARD_COUNT
from noctaya.workers.errors import QueryRefused
from noctaya.workers.fleet_checks import verify_view
from noctaya.workers.fleet_views import (
    Cores,
    View,
    fleet_view,
    plan_view,
    rebalance_view,
    shards_view,
    story_view,
    why_view,
)

if TYPE_CHECKING:
    from noctaya.workers.admin import Query

MAX_WORKERS: Final = 1000


def fleet_queries(cores: Cores, clock: Callable[[], float]) -> dict[str, Query]:
    """Every question by its name; `clock` is the one that the cores are driven by."""
    return {
        "fleet": lambda _: fleet_view(cores, clock()),
        "shards": lambda _: shards_view(cores, clock()),
        "story": lambda query: story_view(cores, clock(), query.get("subject") or None),
        "why": lambda query: why_view(cores, _number(query, "shard", 0, SHARD_COUNT - 1), clock()),
        "plan": lambda query: plan_view(cores, _number(query, "workers", 1, MAX_WORKERS), clock()),
        "rebalance": lambda _: rebalance_view(cores, clock()),
        "verify": lambda _: verify_view(cores, clock()),
        "dump": lambda _: dump_view(cores, clock()),
    }


def dump_view(cores: Cores, now: float) -> View:
    """Everything that the cores know and were told, for somebody who was not there. No key and no demand is in it."""
    recording = cores.ownership.recording
    planner = cores.planner
    return {
        "now": now,
        "fleet": fleet_view(cores, now),
        "shards": shards_view(cores, now)["shards"],
        "verify": verify_view(cores, now)["findings"],
        "story": story_view(cores, now)["entries"],
        "map": _plain(planner.map),
        "ownership": _plain(cores.ownership.state),
        "recording": msgspec.json.decode(recording.dump()) if recording is not None else None,
        "planner": {
            "is_complete": planner.story.is_complete,
            "inputs": [
                {"now": heard_at, "event": type(event).__name__, "what": _plain(event)}
                for heard_at, event in planner.story.inputs()
            ],
        },
    }


def _plain(value: object) -> Any:
    return msgspec.to_builtins(value, enc_hook=str, str_keys=True)


def _number(query: Mapping[str, str], name: str, low: int, high: int) -> int:
    text = query.get(name, "")
    if not (text.isascii() and text.isdigit() and len(text) <= 4 and low <= int(text) <= high):
        raise QueryRefused(f"{name} must be a number from {low} to {high}, not {text[:40]!r}: ?{name}={low}")
    return int(text)
