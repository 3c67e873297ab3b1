"""Where the fleet is, in a caller's words. Imports nothing, for every start of `noctaya` reads it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

NAMESPACE: Final = "noctaya-system"


@dataclass(frozen=True, slots=True)
class Way:
    """How to reach the fleet."""

    admin: tuple[str, ...] = ()
    """Admin ports; none: find the workers."""
    kubeconfig: str | None = None
    """Path, or several as $KUBECONFIG takes them; None: as kubectl finds it."""
    context: str | None = None
    namespace: str = NAMESPACE
    """Of the fleet's own objects."""
