"""What Noctaya's users write and read: the two kinds of its API group, and the small languages inside them.

The models are the source of the CustomResourceDefinitions. This package does no I/O beyond writing those files, knows no
cluster, and never imports a layer above it. Importing it is cheap: pydantic's models (`noctaya.api.llmservice`,
`noctaya.api.inferenceruntime`) and the CRDs (`noctaya.api.crds`) are imported by those who need them, not here, because the
paths that see every watch event need only names, quantities, durations and conditions.
"""

from noctaya.api.conditions import Condition, ConditionType, Phase, Reason, find_condition, set_condition
from noctaya.api.durations import Duration
from noctaya.api.errors import (
    FieldProblem,
    InvalidDuration,
    InvalidName,
    InvalidQuantity,
    InvalidSpec,
    InvalidTemplate,
)
from noctaya.api.names import API_VERSION, GROUP, HASH_NAME, SHARD_COUNT, VERSION, child_names, shard_of
from noctaya.api.quantities import Quantity
from noctaya.api.templates import Template, TemplateContext

__all__ = [
    "API_VERSION",
    "GROUP",
    "HASH_NAME",
    "SHARD_COUNT",
    "VERSION",
    "Condition",
    "ConditionType",
    "Duration",
    "FieldProblem",
    "InvalidDuration",
    "InvalidName",
    "InvalidQuantity",
    "InvalidSpec",
    "InvalidTemplate",
    "Phase",
    "Quantity",
    "Reason",
    "Template",
    "TemplateContext",
    "child_names",
    "find_condition",
    "set_condition",
    "shard_of",
]
