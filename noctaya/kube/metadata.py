"""What every Kubernetes object carries, as slim msgspec structs, and the two time formats of the API.

Only the fields named here are decoded; everything else in a response is skipped without being built, which is what makes
a list 200 times cheaper than with full models. Structs are frozen because the store shares them between readers, and
untracked by the garbage collector because a decoded JSON tree has no cycles. Times stay the strings that the server sent
(few are ever looked at); `parse_time` reads one.
"""

from __future__ import annotations

from datetime import UTC, datetime

import msgspec
from msgspec import field


class Slim(msgspec.Struct, rename="camel", omit_defaults=True, kw_only=True, frozen=True, gc=False):
    """Base of the structs of this package: camelCase on the wire, unknown fields ignored, defaults not sent."""


class OwnerReference(Slim, frozen=True):
    """Who owns an object: the garbage collector deletes the object when its owners are gone."""

    api_version: str = ""
    kind: str = ""
    name: str = ""
    uid: str = ""
    controller: bool = False
    block_owner_deletion: bool = False


class Metadata(Slim, frozen=True):
    """The part of ObjectMeta that Noctaya uses. `namespace` is empty for a cluster-wide object."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    generation: int = 0
    generate_name: str = ""
    labels: dict[str, str] = field(default_factory=dict)
    annotations: dict[str, str] = field(default_factory=dict)
    owner_references: list[OwnerReference] = field(default_factory=list)
    finalizers: list[str] = field(default_factory=list)
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None
    deletion_grace_period_seconds: int | None = None

    @property
    def is_deleting(self) -> bool:
        """Whether deletion was asked for; the object stays until finalizers and grace period are done."""
        return self.deletion_timestamp is not None

    def controller(self) -> OwnerReference | None:
        """The owner that manages this object, if there is one."""
        return next((owner for owner in self.owner_references if owner.controller), None)


class Object(Slim, frozen=True):
    """Base of every slim kind: `class Pod(Object)` adds `spec` and `status`."""

    metadata: Metadata = Metadata()

    @property
    def namespace(self) -> str:
        return self.metadata.namespace

    @property
    def name(self) -> str:
        return self.metadata.name

    @property
    def uid(self) -> str:
        return self.metadata.uid


class Condition(Slim, frozen=True):
    """A condition of any kind's status; `status` is "True", "False" or "Unknown"."""

    type: str = ""
    status: str = ""
    reason: str = ""
    message: str = ""
    observed_generation: int = 0
    last_transition_time: str | None = None

    @property
    def is_true(self) -> bool:
        return self.status == "True"


def condition(conditions: list[Condition], type_: str) -> Condition | None:
    """The condition of that type, or None."""
    return next((found for found in conditions if found.type == type_), None)


def parse_time(text: str) -> datetime:
    """A Time (`2026-01-02T03:04:05Z`) or MicroTime (`…05.123456Z`) as an aware datetime in UTC.

    Raises ValueError for anything else, a time without a zone included.
    """
    when = datetime.fromisoformat(text)
    if when.tzinfo is None:
        raise ValueError(f"time without a zone: {text!r}")
    return when.astimezone(UTC)


def format_time(when: datetime) -> str:
    """A Time, in whole seconds and UTC. `when` must be aware: a naive local time would lie to every reader."""
    return _utc(when).strftime("%Y-%m-%dT%H:%M:%SZ")


def format_micro_time(when: datetime) -> str:
    """A MicroTime with exactly six digits, as Leases and events take it, in UTC. `when` must be aware."""
    return _utc(when).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def _utc(when: datetime) -> datetime:
    if when.tzinfo is None:
        raise ValueError("a naive datetime has no place in the API; use datetime.now(UTC)")
    return when.astimezone(UTC)
