"""Objects as the controllers hold them: slim metadata, the rest as JSON, because controllers copy templates whole."""

import hashlib
import json
from datetime import UTC, datetime
from typing import Any

from msgspec import field

from noctaya.kube.metadata import Object, format_time
from noctaya.kube.resources import Resource

Json = dict[str, Any]
SAFE_LETTERS = "bcdfghjklmnpqrstvwxz2456789"
"""No vowels, so that no hash spells a word (Kubernetes' alphabet)."""


class Record(Object, frozen=True):
    """Any kind with spec and status."""

    spec: dict[str, Any] = field(default_factory=dict)
    status: dict[str, Any] = field(default_factory=dict)


class SliceRecord(Object, frozen=True):
    """An EndpointSlice."""

    endpoints: list[dict[str, Any]] = field(default_factory=list)
    ports: list[dict[str, Any]] = field(default_factory=list)


def owner(resource: Resource, record: Object) -> Json:
    """The owner reference that a controller puts on what it makes."""
    return {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "name": record.name,
        "uid": record.uid,
        "controller": True,
        "blockOwnerDeletion": True,
    }


def owner_uid(record: Object) -> list[str]:
    """Index: the controlling owner's uid."""
    found = record.metadata.controller()
    return [found.uid] if found is not None else []


def matches(selector: Json | None, labels: dict[str, str]) -> bool:
    """Whether a LabelSelector (`matchLabels`, `matchExpressions`) chooses these labels; None chooses nothing."""
    if selector is None:
        return False
    if any(labels.get(key) != value for key, value in (selector.get("matchLabels") or {}).items()):
        return False
    for term in selector.get("matchExpressions") or ():
        value, values = labels.get(term["key"]), term.get("values") or ()
        holds = {
            "In": value in values,
            "NotIn": value not in values,
            "Exists": value is not None,
            "DoesNotExist": value is None,
        }.get(term["operator"], False)
        if not holds:
            return False
    return True


def pod_is_ready(pod: Record) -> bool:
    """The agent's verdict."""
    return any(
        item["type"] == "Ready" and item["status"] == "True" for item in pod.status.get("conditions") or ()
    )


def ready_since(pod: Record) -> str | None:
    """When the Ready condition became true, as RFC 3339."""
    for item in pod.status.get("conditions") or ():
        if item["type"] == "Ready" and item["status"] == "True":
            return str(item["lastTransitionTime"])
    return None


def pod_is_active(pod: Record) -> bool:
    """Neither finished nor on its way out."""
    return not pod.metadata.is_deleting and pod.status.get("phase") not in {"Succeeded", "Failed"}


def short_hash(value: object, length: int = 10) -> str:
    """A stable hash of JSON in letters that fit names and labels."""
    digest = hashlib.sha256(json.dumps(value, sort_keys=True).encode()).digest()
    number = int.from_bytes(digest[:16])
    letters = []
    for _ in range(length):
        number, rest = divmod(number, len(SAFE_LETTERS))
        letters.append(SAFE_LETTERS[rest])
    return "".join(letters)


def wall_time(at: float) -> str:
    """A wall clock's seconds as the API writes them."""
    return format_time(datetime.fromtimestamp(at, UTC))


def seconds_of(text: str) -> float:
    """The API's time as a wall clock's seconds."""
    return datetime.fromisoformat(text).timestamp()
