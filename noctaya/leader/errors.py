"""What can be wrong with the way tenure is set up; losing it is not an error but an event."""

from __future__ import annotations

from noctaya.errors import UserError


class TenureRefused(UserError):
    """Durations with which two workers could act at once."""
