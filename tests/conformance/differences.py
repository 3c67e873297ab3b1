"""Where the embedded API server may answer otherwise than Kubernetes, and why that is good enough.

Each entry is pinned by a test through `differs`: both answers are written there, so that an entry that describes no difference
any more fails, and so does a difference that nobody listed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tests.conformance.server import Server


@dataclass(frozen=True, slots=True)
class Difference:
    """One behaviour. `why` says what makes it harmless."""

    id: str
    what: str
    why: str


_LISTED = (
    Difference(
        "unreadable-body-words",
        "other words for a body that cannot be read as JSON or as this kind",
        "code and reason are the same; the words quote Go's decoder",
    ),
    Difference(
        "builtin-unknown-fields",
        "unknown fields of built-in kinds are kept, and neither refused nor warned about",
        "it holds no schemas of built-in kinds; manifests are checked under Strict on the real server",
    ),
    Difference(
        "builtin-wrong-types",
        "a value of the wrong type in a built-in kind is refused by validation, with other words",
        "code and reason are the same",
    ),
    Difference(
        "duplicate-fields",
        "a field that a body has twice is not refused under Strict; the last one counts",
        "nothing of ours writes one, and YAML is read by kubectl first",
    ),
    Difference(
        "label-selector-words",
        "other words for a label selector that cannot be parsed",
        "code and reason are the same",
    ),
    Difference(
        "cel-conversion-words",
        "other words for a CEL function that fails on its argument",
        "code, reason and field are the same; rules of ours check with `matches` before they convert",
    ),
    Difference(
        "apply-wrong-type",
        "an applied custom resource with a value of the wrong type is 422 instead of 500",
        "both are refusals that no retry mends",
    ),
    Difference(
        "update-owns-containers",
        "field ownership by Update does not name the maps and lists themselves (`.`), only what is in them",
        "it decides only whether an emptied map stays as {}",
    ),
    Difference(
        "scale-path-complaint",
        "no further complaint about the scale's path when spec is no object",
        "the object is refused for the same field anyway",
    ),
    Difference(
        "service-account-volume",
        "pods get no volume with a service account's token",
        "pods are processes that find the API by a kubeconfig",
    ),
    Difference(
        "patch-directive-code",
        "an unknown $patch directive is 400 instead of 500",
        "kubectl knows the directives",
    ),
)
DIFFERENCES = {one.id: one for one in _LISTED}


def differs(server: Server, which: str, seen: Any, *, real: Any, embedded: Any) -> None:
    """`seen` is what this server does; the two are known to differ, and how."""
    listed = DIFFERENCES[which]
    assert real != embedded, f"{listed.id} is no difference: both answers are the same"
    if server.is_real:
        assert seen == real, f"{listed.id}: Kubernetes does otherwise than the test says"
    else:
        assert seen != real, f"{listed.id} differs no longer: take it off the list and assert it for both"
        assert seen == embedded, f"{listed.id}: the embedded server does something else by now"
