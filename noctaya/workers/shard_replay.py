"""Live a recording again: the very core, from the state it had, told what it heard. For `noctaya dump` and for a bug's first hour."""

from __future__ import annotations

from collections.abc import Iterator

from noctaya.leader.tenure import Standing
from noctaya.workers.shard_events import Action
from noctaya.workers.shard_ownership import ShardOwnership
from noctaya.workers.shard_state import ShardTiming
from noctaya.workers.shard_story import Chapter, Heard


def replay(
    chapter: Chapter, timing: ShardTiming | None = None
) -> Iterator[tuple[Heard, list[Action], ShardOwnership]]:
    """Each event with what the core answered, and the core as it was then. Consumes the chapter's state."""
    at = [Standing.NONE]
    core = ShardOwnership(
        chapter.opening.pod, standing=lambda now: at[0], timing=timing, state=chapter.opening
    )
    for heard in chapter.heard:
        at[0] = heard.standing
        yield heard, core.on(heard.event, heard.now), core
