"""When a probe is due and what its answers mean: a kubelet's semantics as a pure object.

Counted probes run at `initialDelaySeconds + k * periodSeconds` after the container's start, and thresholds count only
those. Difference from a kubelet, on purpose: until its first success a startup or readiness probe is *also* looked at every
`prompt_seconds` in between (a kubelet looks at readiness promptly once, when the container has started, and then each
period), because a cold start should not wait up to a period for an answer that is already there. Such a look in between can
only bring the success forward; it never counts as a failure.
"""

from dataclasses import dataclass
from enum import Enum

from noctaya.local.agent.spec import ProbeKind, ProbeSpec


class Verdict(Enum):
    """What an answer changed."""

    NOTHING = "nothing"
    PASSED = "passed"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Outcome:
    """`verdict`, and whether this answer was a counted failure (worth an `Unhealthy` event)."""

    verdict: Verdict
    counted_failure: bool = False


class ProbeSchedule:
    """One probe of one run of a container.

    Invariant: `passing` changes to true only after `successThreshold` good answers in a row, and to false (or, for startup
    and liveness, to the verdict FAILED) only after `failureThreshold` counted bad ones in a row.
    """

    def __init__(self, spec: ProbeSpec, started: float, prompt_seconds: float) -> None:
        self.spec = spec
        self.passing = spec.kind is ProbeKind.LIVENESS
        self._prompt_seconds = prompt_seconds
        self._counted_at = started + spec.initial_delay_seconds
        self._due = self._counted_at
        self._good = 0
        self._bad = 0
        self._succeeded_once = False

    @property
    def due(self) -> float:
        """When to look next."""
        return self._due

    @property
    def finished(self) -> bool:
        """A startup probe that passed is never asked again."""
        return self.spec.kind is ProbeKind.STARTUP and self.passing

    def hold(self, now: float) -> None:
        """The probe may not run yet (startup has not passed): it starts at `now`, at once."""
        self._counted_at = self._due = max(now, self._counted_at)

    def answered(self, good: bool, asked: float, now: float) -> Outcome:
        """A look begun at `asked` ended at `now`."""
        counted = asked >= self._counted_at
        if counted:
            self._counted_at = max(self._counted_at + self.spec.period_seconds, now)
        outcome = self._judge(good, counted)
        prompt = (
            not self._succeeded_once and self.spec.kind is not ProbeKind.LIVENESS and self._prompt_seconds > 0
        )
        self._due = min(self._counted_at, now + self._prompt_seconds) if prompt else self._counted_at
        return outcome

    def _judge(self, good: bool, counted: bool) -> Outcome:
        if good:
            if not counted and self.spec.success_threshold > 1:
                return Outcome(Verdict.NOTHING)
            self._bad = 0
            self._good += 1
            if self._good < self.spec.success_threshold:
                return Outcome(Verdict.NOTHING)
            self._succeeded_once = True
            changed = not self.passing
            self.passing = True
            return Outcome(Verdict.PASSED if changed else Verdict.NOTHING)
        if not counted:
            return Outcome(Verdict.NOTHING)
        self._good = 0
        self._bad += 1
        if self._bad < self.spec.failure_threshold:
            return Outcome(Verdict.NOTHING, counted_failure=True)
        if self.spec.kind is ProbeKind.READINESS:
            changed = self.passing
            self.passing = False
            return Outcome(Verdict.FAILED if changed else Verdict.NOTHING, counted_failure=True)
        self._bad = 0
        return Outcome(Verdict.FAILED, counted_failure=True)
