"""To whom a shard that we own should go. Without a leader a draining worker chooses by itself, as the leader would."""

from __future__ import annotations

from noctaya.leader.rendezvous import best_for_shard
from noctaya.workers.shard_state import Shard, ShardTiming, State


def heir_of(state: State, shard: Shard, timing: ShardTiming, now: float) -> str:
    """The incarnation that `shard` should be given to; empty: it stays. Only READY workers are given anything."""
    desired = state.desired[shard.number] if state.desired else state.pod
    if desired != state.pod:
        heir = state.proof.receiver(desired)
        if heir:
            return heir
    if (
        state.drains_since is None
        or now - max(state.drains_since, state.planned_at) < timing.leaderless_after
    ):
        return ""
    receivers = state.proof.receivers()
    receivers.pop(state.pod, None)
    return receivers.get(best_for_shard(shard.number, receivers) or "", "")
