"""Whether this incarnation holds the fleet's Lease, and until when it may act on that.

Invariants, whatever is lost, late or reordered on the way to the API server:
- `standing` is ACT at no instant at which another incarnation's may be. Ours ends `self_deadline` after the *send* of the last
  renewal that the server accepted; others wait `fence_after`, longer than that, on their own clock and take over by
  compare-and-swap. Only durations on one's own clock count (sharding.md 2.2, 2.3).
- Tenure begins or goes on by an accepted write alone, never by a read: a read that shows us as the holder may show a write
  of ours whose fate we do not know, so it is followed by another write.
- Epochs rise with every acquisition.
- With `is_one_life`, a tenure that was held and lost never begins again: its incarnation is over for good, whatever it reads
  later. That is what makes "the Lease shows another holder" a proof that lasts (`membership.py`).

Candidates are ranked (`rank`, F17): each waits `rank_step` longer than the one before it, so that a free Lease is asked for by
one, not by all.

Fails safe: unreachable, it falls from ACT to GROW (nobody can have taken over without the API server, but we cannot know
that), and refused, to NONE at once.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from noctaya.kube.versions import is_newer
from noctaya.leader.errors import TenureRefused

HIGHEST_EPOCH = 2**31 - 1
"""`leaseTransitions` is an int32."""
HIGHEST_CLAIM = HIGHEST_EPOCH // 2
"""An epoch that somebody claims to have seen is believed up to here, so that garbage cannot use the numbers up. What a Lease
says of itself, and what its holder says by it, is a fact, and may be above."""
HIGHEST_LEAP = 2**20
"""Nor is a claim believed that is further above what is known: no shard changes its holder so often unnoticed."""


def is_believable(claim: int, known: int) -> bool:
    """Whether an epoch that somebody `claim`s to have seen may be one, `known` being the highest that we know of."""
    return claim <= min(known + HIGHEST_LEAP, HIGHEST_CLAIM)


class Standing(Enum):
    """What tenure allows just now."""

    ACT = "act"
    GROW = "grow"
    """Held until the API server fell silent, and nobody told us that we lost it."""
    NONE = "none"


@dataclass(frozen=True, slots=True)
class Identity:
    """One run of a worker process. `pod_uid` may be empty (a process outside any pod): then nobody is our predecessor."""

    pod: str
    pod_uid: str
    nonce: str

    def __str__(self) -> str:
        return f"{self.pod}_{self.pod_uid[:8]}_{self.nonce}"

    def succeeds(self, holder: str) -> bool:
        """Whether `holder` is an earlier run in this very pod: it has ended, or we would not run."""
        return bool(self.pod_uid) and holder.startswith(f"{self.pod}_{self.pod_uid[:8]}_")


@dataclass(frozen=True, slots=True)
class Timing:
    """Seconds. `fence_after / self_deadline` is the ratio of clock rates that the protocol tolerates (8.5 / 6.0 = 1.42)."""

    renew_every: float = 2.5
    self_deadline: float = 6.0
    fence_after: float = 8.5
    observe_every: float = 1.0
    """How often a standby reads the Lease; also how long a holder waits before it retries."""
    observed_gap: float = 3.0
    """A standby that saw nothing for so long starts its observation anew: the API server, not the holder, may be gone."""
    retry_after: float = 0.25
    rank_step: float = 0.2
    """How much longer a candidate waits than the one ranked before it."""

    def __post_init__(self) -> None:
        if not 0 < self.renew_every < self.self_deadline < self.fence_after:
            raise TenureRefused(
                "tenure needs renew_every < self_deadline < fence_after (each in seconds), not "
                f"{self.renew_every}, {self.self_deadline}, {self.fence_after}: two workers could act at once. Change "
                "NOCTAYA_TENURE__… and start again."
            )


@dataclass(frozen=True, slots=True)
class LeaseView:
    """The Lease as the API server showed it."""

    holder: str
    epoch: int
    resource_version: str


@dataclass(frozen=True, slots=True)
class Tick:
    """Time has passed."""


@dataclass(frozen=True, slots=True)
class Seen:
    """A read was answered; None: there is no such Lease."""

    lease: LeaseView | None


@dataclass(frozen=True, slots=True)
class Watched:
    """The watch showed the Lease, unasked; None: that it was deleted. It may be older than what a read or a write has shown."""

    lease: LeaseView | None


@dataclass(frozen=True, slots=True)
class Accepted:
    """A write that was *sent* at `sent` was accepted, and left the Lease as `lease`."""

    sent: float
    lease: LeaseView


@dataclass(frozen=True, slots=True)
class Refused:
    """A write met another resourceVersion, or a Lease where it meant to create one."""


@dataclass(frozen=True, slots=True)
class Unreachable:
    """A read or write had no answer in time: a write may have happened or may happen yet."""


@dataclass(frozen=True, slots=True)
class HigherEpochSeen:
    """A status or a gateway carries this epoch. Above our own, we may be stale: nothing more until a write says otherwise."""

    epoch: int


@dataclass(frozen=True, slots=True)
class Leaving:
    """A clean stop: act no more, and let the next one in at once."""


Event = Tick | Seen | Watched | Accepted | Refused | Unreachable | HigherEpochSeen | Leaving


@dataclass(frozen=True, slots=True)
class Read:
    """Get the Lease."""


@dataclass(frozen=True, slots=True)
class Write:
    """Create (no resource version) or replace the Lease; an empty `holder` releases it."""

    holder: str
    epoch: int
    resource_version: str | None


Action = Read | Write


class Tenure:
    """See the module. One read or write is under way at a time; `next_at` says when the next `Tick` is due."""

    def __init__(
        self, identity: Identity, timing: Timing, *, is_first: bool = False, is_one_life: bool = False
    ) -> None:
        """`is_first`: a Lease that is not there was never there: this process founded the fleet, or nobody else has the name."""
        self.identity = identity
        self.timing = timing
        self.rank = 0
        """Among the candidates; set it whenever they change."""
        self.has_ended = False
        """Of a tenure with one life: it was held, and is lost."""
        self._is_first = is_first
        self._is_one_life = is_one_life
        self.epoch = 0
        """Of our tenure; 0 before the first."""
        self.next_at = 0.0
        self.has_left = False
        self._holds = False
        self._doubted = False
        self._deadline = 0.0
        self._lease: LeaseView | None = None
        self._observed_version = ""
        self._observed_since = 0.0
        self._observed_last = float("-inf")
        self._floor = 0
        self._is_busy = False
        self._refusals = 0

    def standing(self, now: float) -> Standing:
        """What may be done at `now`; ask directly before every effect."""
        if not self._holds or self._doubted:
            return Standing.NONE
        return Standing.ACT if now < self._deadline else Standing.GROW

    def deadline_in(self, now: float) -> float | None:
        """Seconds until ACT becomes GROW for want of a renewal; None when we do not act anyway."""
        return self._deadline - now if self.standing(now) is Standing.ACT else None

    @property
    def is_busy(self) -> bool:
        """Whether a read or write is under way."""
        return self._is_busy

    @property
    def shown_epoch(self) -> int:
        """The epoch that the Lease was last seen with."""
        return self._lease.epoch if self._lease else self.epoch

    @property
    def holder(self) -> str:
        """Who holds the Lease, as far as was seen; empty for nobody."""
        return self._lease.holder if self._lease else ""

    def on(self, event: Event, now: float) -> list[Action]:
        """Take `event` in; answer with the reads and writes to make now (none or one)."""
        match event:
            case Tick():
                return self._tick(now)
            case Seen(lease):
                self._is_busy = False
                return self._seen(lease, now)
            case Watched(lease):
                return self._watched(lease, now)
            case Accepted(sent, lease):
                self._is_busy = False
                return self._accepted(sent, lease, now)
            case Refused():
                # Somebody wrote: another holder, or an attempt of our own that we gave up waiting for. Until that is known
                # we do nothing.
                self._is_busy = False
                self._doubted = True
                self._refusals += 1
                if self._refusals > 1:
                    self.next_at = now + self.timing.retry_after
                    return []
                return self._ask(Read())
            case Unreachable():
                self._is_busy = False
                self._observed_last = float("-inf")
                self.next_at = now + self.timing.retry_after
                return []
            case HigherEpochSeen(epoch):
                return self._higher(epoch, now)
            case Leaving():
                return self._leave()

    def _tick(self, now: float) -> list[Action]:
        if self._is_busy or self.has_left or self.has_ended or now < self.next_at:
            return []
        if self._holds and self._lease is not None and not self._doubted:
            return self._ask(self._claim(self._lease, self.epoch))
        return self._ask(Read())

    def _seen(self, lease: LeaseView | None, now: float) -> list[Action]:
        self._lease = lease
        if self.has_left:
            return self._release()
        if self._is_one_life and self._holds and (lease is None or lease.holder != str(self.identity)):
            self._lose()
            self.has_ended = True
        if self.has_ended:
            return []
        if lease is None and (self._is_first or (self._holds and now < self._deadline)):
            # Ours was deleted, or there was none yet: nobody else can hold it. After our deadline somebody may have had it.
            self._lose()
            return self._ask(self._claim(None, self._next_epoch(0)))
        self._is_first = False
        if lease is not None and self._holds and lease.holder == str(self.identity):
            # Written by an attempt that we stopped waiting for. A new write, not this read, prolongs the tenure.
            return self._ask(self._claim(lease, max(self.epoch, self._floor)))
        self._lose()
        if self._may_take(lease, now):
            return self._ask(self._claim(lease, self._next_epoch(lease.epoch if lease else 0)))
        self.next_at = now + min(
            self.timing.observe_every, max(self._wait(lease) - self._observed_for(now), 0.0)
        )
        return []

    def _watched(self, lease: LeaseView | None, now: float) -> list[Action]:
        if lease is None:
            if not self._is_busy:
                self.next_at = min(self.next_at, now)
            return []
        if self._lease is not None and not is_newer(lease.resource_version, self._lease.resource_version):
            return []
        if self._holds:
            if lease.holder != str(self.identity) and not self._is_busy:
                self.next_at = now  # our next write says for certain
            return []
        if self._is_busy or self.has_left or self.has_ended:
            return []
        return self._seen(lease, now)

    def _may_take(self, lease: LeaseView | None, now: float) -> bool:
        """A missing Lease is waited out like a silent holder: somebody may have deleted it under one who still acts."""
        version = lease.resource_version if lease else ""
        if now - self._observed_last > self.timing.observed_gap or version != self._observed_version:
            self._observed_version, self._observed_since = version, now
        self._observed_last = now
        return self._observed_for(now) >= self._wait(lease)

    def _observed_for(self, now: float) -> float:
        return now - self._observed_since

    def _wait(self, lease: LeaseView | None) -> float:
        """For how long a Lease like this must have been seen unchanged before it may be taken."""
        if lease and (lease.holder == str(self.identity) or self.identity.succeeds(lease.holder)):
            return 0.0
        ranked = self.rank * self.timing.rank_step
        return ranked if lease and not lease.holder else self.timing.fence_after + ranked

    def _accepted(self, sent: float, lease: LeaseView, now: float) -> list[Action]:
        self._lease = lease
        if self.has_left or lease.holder != str(self.identity):
            return []
        self._holds = True
        self._refusals = 0
        self._doubted = self._floor > lease.epoch
        self._deadline = self._deadline_of(sent, now)
        self.epoch = lease.epoch
        if self._doubted:  # learned of a higher epoch while this write was under way
            return self._ask(self._claim(lease, self._floor))
        self.next_at = max(sent + self.timing.renew_every, now)
        return []

    def _deadline_of(self, sent: float, answered: float) -> float:
        """The server may have taken the write at any instant since `sent`; others count from then."""
        del answered
        return sent + self.timing.self_deadline

    def _higher(self, epoch: int, now: float) -> list[Action]:
        if epoch > HIGHEST_CLAIM:
            return []
        if not self._holds:
            self._floor = max(self._floor, epoch)
            return []
        if epoch <= self.epoch:
            return []
        # Whoever wrote that epoch holds the Lease by now, and our next write fails; or the Lease was lost and made anew,
        # and our next write lifts it above what the fleet has seen. Either way that write decides.
        self._floor = max(self._floor, epoch + 1)
        self._doubted = True
        self.next_at = min(self.next_at, now)
        return []

    def _leave(self) -> list[Action]:
        held = self._holds
        self.has_left = True
        self._refusals = 0
        self._lose()
        if not held and self._is_busy:
            # A write that nobody waits for any more may have made the Lease ours: left so, the next one waits it out.
            return self._ask(Read())
        return self._release() if held else []

    def _release(self) -> list[Action]:
        if self._lease is None or self._lease.holder != str(self.identity):
            return []
        return [Write("", max(self.epoch, self._lease.epoch), self._lease.resource_version)]

    def _lose(self) -> None:
        self._holds = False
        self._doubted = False

    def _next_epoch(self, shown: int) -> int:
        return min(max(shown, self._floor, self.epoch) + 1, HIGHEST_EPOCH)

    def _claim(self, lease: LeaseView | None, epoch: int) -> Write:
        return Write(str(self.identity), epoch, lease.resource_version if lease else None)

    def _ask(self, action: Action) -> list[Action]:
        self._is_busy = True
        return [action]
