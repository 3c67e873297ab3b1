"""When the fleet is quiet enough to level it: nothing urgent waits here, only moves that nobody needs at once.

Homing orphans and emptying donors never waits. Levelling waits 5 s after a join (more may follow), 30 s after a rollout was
last seen running (else each of its steps would move shards that the next one moves again: 116 moves instead of 64 were
measured on a naive one), and after a crash it stays content with one shard beyond the share for a while.
"""

from __future__ import annotations

from dataclasses import dataclass

NEVER = float("-inf")


@dataclass(frozen=True, slots=True)
class HoldOffTiming:
    """Seconds."""

    after_join: float = 5.0
    after_rollout: float = 30.0
    slack_after_crash: float = 10.0
    guess_rollout_for: float = 300.0
    """Without word of the Deployment, several versions side by side are a rollout for so long after the last join."""


class HoldOff:
    """See the module."""

    def __init__(self, timing: HoldOffTiming | None = None) -> None:
        self.timing = timing or HoldOffTiming()
        self.newest: str | None = None
        """The version that a running rollout leads to; None while none runs."""
        self._told: tuple[bool, str] | None = None
        self._joined_at = NEVER
        self._rolled_at = NEVER
        self._crashed_at = NEVER

    def joined(self, now: float) -> None:
        """A worker became ready."""
        self._joined_at = now

    def crashed(self, now: float) -> None:
        """Shards lost their owner without its doing."""
        self._crashed_at = now

    def told(self, is_running: bool, newest: str) -> None:
        """What the Deployment says; from now on nothing is guessed."""
        self._told = (is_running, newest)

    def look(self, versions: set[str], youngest: str, now: float) -> None:
        """What members run: decides about a rollout together with `told`."""
        if self._told is not None:
            is_running, newest = self._told
        else:
            is_running = len(versions) > 1 and now - self._joined_at < self.timing.guess_rollout_for
            newest = ""
        if is_running:
            self._rolled_at = now
        self.newest = (newest or youngest) if is_running else None

    def is_over(self, now: float) -> bool:
        """Whether shards may be moved for balance alone."""
        return (
            now - self._joined_at >= self.timing.after_join
            and now - self._rolled_at >= self.timing.after_rollout
        )

    def slack(self, now: float) -> int:
        """How many shards beyond its share a worker may keep."""
        return 1 if now - self._crashed_at < self.timing.slack_after_crash else 0
