"""What can be wrong with how the fleet is set up or with what its objects say; losing a Lease is not an error but an event."""

from __future__ import annotations

from noctaya.errors import NoctayaError, UserError


class TenureRefused(UserError):
    """Durations with which two workers could act at once."""


class CertificateTimingRefused(UserError):
    """Lifetimes with which a certificate could end before its successor is trusted."""


class ShardMapInvalid(NoctayaError):
    """A ShardMap that cannot be obeyed; the last good one stays in force."""

    def __init__(self, problem: str) -> None:
        super().__init__(f"the ShardMap is refused and the last good one stays in force: {problem}")
        self.problem = problem


class ShardMapForeign(ShardMapInvalid):
    """A ShardMap for another number of shards or another hash: no worker of this fleet may touch it."""


class MemberRecordInvalid(NoctayaError):
    """An annotation on a member Lease that its worker cannot have written."""

    def __init__(self, annotation: str, problem: str) -> None:
        super().__init__(f"annotation {annotation} {problem}; the record before it stays in force")
        self.annotation = annotation


class NotLeading(NoctayaError):
    """A write was not sent: the tenure under which it was asked for does not act any more."""

    def __init__(self) -> None:
        super().__init__("the leader's tenure ended before its write was sent; the next leader goes on")
