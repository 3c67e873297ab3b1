"""Which changes of a ScaledObject or of its HPA bring a reconcile (keda.md, section 2.4). Pure.

Labels, other annotations and the status do not, with one exception: Ready turning True re-syncs the HPA's metrics after an
outage.
"""

from noctaya.local.keda import conditions
from noctaya.local.keda.records import Record
from noctaya.local.keda.spec import ANNOTATIONS


def of_scaledobject(before: Record | None, after: Record | None) -> bool:
    """Whether the change from `before` to `after` needs a reconcile."""
    if before is None or after is None or before.uid != after.uid:
        return True
    if before.metadata.generation != after.metadata.generation:
        return True
    if before.metadata.is_deleting != after.metadata.is_deleting:
        return True
    if any(
        before.metadata.annotations.get(key) != after.metadata.annotations.get(key) for key in ANNOTATIONS
    ):
        return True
    return not _is_ready(before) and _is_ready(after)


def of_hpa(before: Record | None, after: Record | None) -> bool:
    """Whether somebody made, edited or deleted it; its status is the autoscaler's own business."""
    if before is None or after is None:
        return after is None
    return (
        before.spec != after.spec
        or before.metadata.labels != after.metadata.labels
        or before.metadata.annotations != after.metadata.annotations
    )


def _is_ready(record: Record) -> bool:
    return conditions.read(record.status, conditions.READY).status == "True"
