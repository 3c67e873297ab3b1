"""When an incarnation is over, so that what it held may be taken: the proof that an acquirer needs.

`X is over` once the view of the Leases shows one of these:
1. the member Lease of X's pod is held by nobody: fenced or left, both compare-and-swap upon X's own last write;
2. it is held by a later run in the same pod (same uid): X ended before that run could begin;
3. we are that later run ourselves;
4. it is absent, or held by a pod of the same name with another uid, and has been for `fence_after` on our clock: X's last
   accepted renewal was before that, so X's deadline has passed, and X can never renew again (`Tenure.is_one_life`);
5. X itself has said so (`Resigned`), for this very epoch.
Age alone, a pod's deletion or a silent peer prove nothing.

Why a view that lags cannot lie here: member and shard Leases come from *one* watch, so the view is a prefix of their history.
X claimed its member Lease before it could be named in a shard's record, so a view with that record holds that claim, and what
it shows of X's Lease later than that claim stays true: an incarnation that is over is over for good.
"""

from __future__ import annotations

from collections.abc import Collection

import msgspec

from noctaya.leader.lease_names import pod_of_incarnation
from noctaya.leader.member_record import MemberState


class Peer(msgspec.Struct):
    """A member Lease as last seen."""

    incarnation: str
    state: MemberState | None


class Proof(msgspec.Struct):
    """See the module. Times are on our clock."""

    fence_after: float
    peers: dict[str, Peer] = msgspec.field(default_factory=dict)
    unseen: dict[str, float] = msgspec.field(default_factory=dict)
    """Since when an incarnation that some record names is not shown by its member Lease."""

    def see(self, pod: str, incarnation: str, state: MemberState | None) -> bool:
        """Take a member Lease in. True when more than a renewal has changed."""
        self.unseen.pop(incarnation, None)
        peer = self.peers.get(pod)
        if peer is None:
            self.peers[pod] = Peer(incarnation, state)
            return True
        if state is None:
            state = peer.state if peer.incarnation == incarnation else None
        if peer.incarnation == incarnation and peer.state is state:
            return False
        peer.incarnation, peer.state = incarnation, state
        return True

    def lose(self, pod: str, now: float, named: Collection[str]) -> bool:
        """The member Lease of `pod` is gone; `named` are the incarnations that some record names.

        Its absence counts from here: were it to count from when somebody wants a shard of it, a leader that is lost with its
        pod would cost the time to fence twice, once for the leader's Lease and once more for its shards.
        """
        peer = self.peers.pop(pod, None)
        self.unseen = {holder: since for holder, since in self.unseen.items() if holder in named}
        if peer is not None and peer.incarnation in named:
            self.unseen[peer.incarnation] = now
        return peer is not None

    def is_over(self, holder: str, now: float) -> bool:
        """Whether the incarnation `holder` can never act again (cases 1, 2 and 4)."""
        peer = self.peers.get(pod_of_incarnation(holder))
        shown = peer.incarnation if peer is not None else None
        if shown == holder:
            self.unseen.pop(holder, None)
            return False
        if shown == "" or (shown is not None and _is_same_pod(shown, holder)):
            self.unseen.pop(holder, None)
            return True
        return now - self.unseen.setdefault(holder, now) >= self.fence_after

    def receiver(self, pod: str) -> str:
        """The incarnation of `pod` if it may be given a shard just now, else empty."""
        peer = self.peers.get(pod)
        return peer.incarnation if peer is not None and peer.state is MemberState.READY else ""

    def has_others(self, pod: str) -> bool:
        """Whether a worker besides that of `pod` is there, or is coming, that could be given something."""
        return any(
            other != pod and peer.incarnation and peer.state is not MemberState.DRAINING
            for other, peer in self.peers.items()
        )

    def receivers(self) -> dict[str, str]:
        """Every pod that may be given a shard, with its incarnation."""
        return {
            pod: peer.incarnation
            for pod, peer in self.peers.items()
            if peer.state is MemberState.READY and peer.incarnation
        }


def _is_same_pod(one: str, other: str) -> bool:
    """Whether both ran in one pod. Without a uid nobody can tell."""
    pod, uid, _ = (*one.split("_"), "", "")[:3]
    return bool(uid) and other.startswith(f"{pod}_{uid}_")
