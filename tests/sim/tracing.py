"""What happened in one schedule, in the order in which it happened, told by every core and by the API server's history."""

from __future__ import annotations

from collections.abc import Iterator

from tests.sim.world import World


def trace(world: World, shard: int | None = None) -> Iterator[str]:
    """The lines; with `shard` only those about it, the map and the members. Workers that are dead tell nothing."""
    lines: list[tuple[float, str]] = []
    for change in world.api.log:
        if shard is not None and change.name not in (f"noctaya-shard-{shard:03d}", f"status-{shard}"):
            if change.map is None:
                continue
        what = "deleted" if change.is_gone else change.map or change.view or change.owns
        lines.append((change.at, f"api        {change.name} {what}"))
    for worker in world.workers.values():
        for story in (worker.ownership.story, worker.planner.story):
            for entry in story.entries():
                if shard is None or entry.subject == f"shard/{shard}":
                    at = (entry.now - worker.pod.offset) / worker.pod.rate
                    lines.append((at, f"{worker.name:<10} {entry.subject}: {entry.text}"))
    lines.sort(key=lambda line: line[0])
    yield from (f"{at:9.3f}  {text}" for at, text in lines)
