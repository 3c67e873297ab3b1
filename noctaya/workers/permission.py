"""What a worker may do for a shard just now; asked directly before every effect (DESIGN section 4)."""

from __future__ import annotations

from enum import Enum


class Permission(Enum):
    """From everything to nothing."""

    ACT = "act"
    """API writes, new config versions, any answer."""
    GROW = "grow"
    """The API server is out of reach and nobody has fenced us: config already sent, `true`, and values that do not fall."""
    NONE = "none"
    """Another worker owns the shard, or may."""
