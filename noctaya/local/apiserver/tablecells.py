"""Small readings of an object for table cells: paths, ages, selectors, in the words that kubectl's users know."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from noctaya.local.apiserver.status import Json, Object


def at(found: Json, *keys: str, default: Json = "") -> Json:
    """The value below `keys`, or `default` when something on the way is missing or null."""
    for key in keys:
        if not isinstance(found, dict):
            return default
        found = found.get(key)
    return default if found is None else found


def joined(parts: Iterable[Json]) -> str:
    """Comma-separated."""
    return ",".join(str(part) for part in parts)


def creation(found: Object) -> str:
    """metadata.creationTimestamp."""
    return str(found["metadata"].get("creationTimestamp") or "")


def seconds_since(timestamp: str, now: float) -> float:
    """Age of an RFC 3339 timestamp in seconds."""
    return now - datetime.fromisoformat(timestamp.replace("Z", "+00:00")).timestamp()


def age(timestamp: Json, now: float) -> str:
    """Age as kubectl prints it; `<unknown>` for none, `<invalid>` for the far future."""
    if not timestamp:
        return "<unknown>"
    try:
        seconds = seconds_since(str(timestamp), now)
    except ValueError:
        return "<invalid>"
    return human_duration(seconds)


def human_duration(seconds: float) -> str:
    """`42s`, `3m10s`, `5h`, `2d3h`, `400d`: two units while the first is small."""
    whole = int(seconds)
    if whole < -1:
        return "<invalid>"
    whole = max(whole, 0)
    if whole < 120:
        return f"{whole}s"
    minutes, rest = divmod(whole, 60)
    if minutes < 10:
        return f"{minutes}m{rest}s" if rest else f"{minutes}m"
    if minutes < 180:
        return f"{minutes}m"
    hours, rest = divmod(minutes, 60)
    if hours < 8:
        return f"{hours}h{rest}m" if rest else f"{hours}h"
    if hours < 48:
        return f"{hours}h"
    days, rest = divmod(hours, 24)
    if days < 8:
        return f"{days}d{rest}h" if rest else f"{days}d"
    if days < 730:
        return f"{days}d"
    years, rest = divmod(days, 365)
    return f"{years}y{rest}d" if years < 8 and rest else f"{years}y"


def selector_text(selector: Object) -> str:
    """A label selector in kubectl's one-line form."""
    parts = [f"{key}={value}" for key, value in sorted((selector.get("matchLabels") or {}).items())]
    for rule in selector.get("matchExpressions") or []:
        key, operator, values = rule.get("key"), rule.get("operator"), rule.get("values") or []
        shown = {"Exists": f"{key}", "DoesNotExist": f"!{key}"}.get(operator)
        if shown is None:
            shown = f"{key} {'in' if operator == 'In' else 'notin'} ({joined(values)})"
        parts.append(shown)
    return ",".join(parts) or "<none>"
