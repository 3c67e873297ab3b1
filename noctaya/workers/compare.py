"""Whether a live child already says everything that we would apply, so that nothing needs to be written.

The API server adds defaults, other managers add their own fields, and values come back in canonical spelling (`1024Mi` as
`1Gi`, empty strings left out). So the question is never equality: `says(live, wanted)` holds when every field of `wanted`
has the same meaning in `live`. It may be wrong only in the harmless direction: answering False costs one apply.
"""

from __future__ import annotations

from typing import Any

from noctaya.api.errors import InvalidQuantity
from noctaya.api.quantities import Quantity

MERGE_KEYS: dict[str, tuple[str, ...]] = {
    "containers": ("name",),
    "initContainers": ("name",),
    "env": ("name",),
    "ports": ("name", "port", "containerPort"),
    "volumes": ("name",),
    "volumeMounts": ("mountPath",),
    "imagePullSecrets": ("name",),
    "ownerReferences": ("uid",),
}
"""Lists that the API server merges by key: others may add entries to them. Every other list is a whole."""

QUANTITY_PARENTS = frozenset({"requests", "limits", "capacity"})
QUANTITY_FIELDS = frozenset({"sizeLimit", "storage"})
OMITTED_ZEROS = frozenset({"initialDelaySeconds"})
"""Numbers that the API server leaves out when they are 0. Elsewhere absence is another value: KEDA's cooldown of 300 s."""


def says(live: Any, wanted: Any, field: str = "", parent: str = "") -> bool:
    """Whether `live` holds everything that `wanted` asks for; `field` and `parent` name where both stand."""
    if isinstance(wanted, dict):
        if not isinstance(live, dict):
            return live is None and _is_empty(wanted, field)
        return all(says(live.get(key), value, key, field) for key, value in wanted.items())
    if isinstance(wanted, list):
        return _list_says(live if isinstance(live, list) else [], wanted, field)
    if live == wanted and isinstance(live, bool) == isinstance(wanted, bool):
        return True
    if live is None:
        return _is_empty(wanted, field)
    if parent in QUANTITY_PARENTS or field in QUANTITY_FIELDS:
        return _same_quantity(live, wanted)
    return False


def _list_says(live: list[Any], wanted: list[Any], field: str) -> bool:
    keys = MERGE_KEYS.get(field)
    if keys is None or not all(isinstance(entry, dict) for entry in [*live, *wanted]):
        return len(live) == len(wanted) and all(map(says, live, wanted))
    by_key = {tuple(entry.get(key) for key in keys if key in entry): entry for entry in live}
    for entry in wanted:
        identity = tuple(entry.get(key) for key in keys if key in entry)
        if identity not in by_key or not says(by_key[identity], entry):
            return False
    return True


def _is_empty(value: Any, field: str) -> bool:
    """What Go's `omitempty` leaves out: an absent field means the same. Never `False`: Kubernetes' booleans that we set are
    pointers whose absence means true (`automountServiceAccountToken`, `allowPrivilegeEscalation`)."""
    if isinstance(value, dict):
        return all(_is_empty(inner, key) for key, inner in value.items())
    if isinstance(value, (bool, int)):
        return value is not False and value == 0 and field in OMITTED_ZEROS
    return value is None or value in ("", [])


def _same_quantity(live: Any, wanted: Any) -> bool:
    try:
        return Quantity.parse(live) == Quantity.parse(wanted)
    except InvalidQuantity:
        return False
