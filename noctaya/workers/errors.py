"""Why a service could not be brought to what its spec says, in the two kinds that decide when to try again.

`SpecProblem` is a person's mistake: it stands in the service's conditions under its reason and waits for a change of the
spec or of something the spec refers to. `NotPermitted` is nobody's: this worker may not act for the shard just now. Errors
of the API server (`noctaya.kube.errors`) pass through and are retried with back-off.
"""

from __future__ import annotations

from noctaya.errors import NoctayaError, UserError


class SpecProblem(UserError):
    """Something a person has to change. `reason` becomes the reason of Ready=False and Degraded=True."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason
        self.message = message


class NotPermitted(NoctayaError):
    """`permission(shard)` was not *act* directly before a write: nothing was sent."""

    def __init__(self, shard: int, what: str) -> None:
        super().__init__(f"not allowed to {what}: this worker does not hold shard {shard} just now")
        self.shard = shard


class StaleEpoch(NoctayaError):
    """The object carries a higher epoch than ours: another worker owns the shard, whatever we believe."""

    def __init__(self, key: str, seen: int, ours: int) -> None:
        super().__init__(
            f"{key} was written at epoch {seen} and ours is {ours}: the shard has another owner; leaving it alone"
        )
        self.seen = seen
        self.ours = ours


class BeingDeleted(NoctayaError):
    """An object is in the way only for now (on its way out, or changing too fast to be read): again in a moment."""


class QueryRefused(UserError):
    """A question to the admin port with a parameter that it cannot have."""


class ClusterWentBack(NoctayaError):
    """The cluster was set back to an earlier state; whoever starts this process starts it again."""

    def __init__(self) -> None:
        super().__init__(
            "the API server shows an earlier state than it did, as after the restoration of a backup. This worker ends, to "
            "begin anew with what there is now."
        )
