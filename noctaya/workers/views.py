"""A look inside a worker, as plain data: what `/debug/…` shows and metrics count. Read only; never a key nor a digest."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from noctaya.kube.clock import boottime
from noctaya.workers.control_security import ControlSecurity
from noctaya.workers.intake import Intake
from noctaya.workers.link import ControlLink
from noctaya.workers.ownership import Ownership
from noctaya.workers.place import Place
from noctaya.workers.problems import Problems
from noctaya.workers.publisher import Publisher
from noctaya.workers.reconcile import Reconciler
from noctaya.workers.relay import Relay
from noctaya.workers.scaler import ExternalScaler
from noctaya.workers.stores import Stores


@dataclass(frozen=True, slots=True)
class Parts:
    """What a worker is made of, as far as anybody looks at it."""

    intake: Intake
    scaler: ExternalScaler
    link: ControlLink
    publisher: Publisher
    ownership: Ownership
    reconciler: Reconciler
    stores: Stores
    problems: Problems
    place: Place
    relay: Relay
    security: ControlSecurity


def views(parts: Parts) -> dict[str, Callable[[], Any]]:
    """The views by name."""
    return {
        "demand": lambda: demand_view(parts),
        "routes": lambda: routes_view(parts),
        "wakes": parts.intake.wakes.view,
    }


def demand_view(parts: Parts) -> dict[str, Any]:
    """Who wants what, and how sure that is."""
    now, book = boottime(), parts.intake.book
    return {
        "shards": parts.ownership.owned(),
        "known": book.is_known(now),
        "silent": book.silent_gateways(now),
        "services": book.active(now),
        "gateways": {
            "/".join(pod): {
                "boot": member.boot_id,
                "sequence": member.sequence,
                "reported_seconds_ago": round(now - member.full_at, 3) if member.full_at > 0 else None,
                "streams": len(member.streams),
            }
            for pod, member in book.members.items()
        },
        "scaler_streams": parts.scaler.stream_count,
    }


def routes_view(parts: Parts) -> dict[str, Any]:
    """Which version of every shard that has services, here and at each gateway."""
    counts = parts.publisher.book.counts()
    return {
        "fleet": parts.ownership.fleet,
        "complete": parts.publisher.is_ready,
        "shards": {
            str(shard): {
                "permission": parts.ownership.permission(shard).value,
                "epoch": parts.ownership.epoch(shard),
                "version": version,
                "services": count,
            }
            for shard, (version, count) in counts.items()
        },
        "gateways": {
            "/".join(session.pod): {
                str(shard): version for shard, (_, version) in session.acknowledged.items() if shard in counts
            }
            for session in parts.link.sessions
        },
    }
