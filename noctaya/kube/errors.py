"""Everything an API server (or the way to it) can answer, as types, mapped in one table from status and reason.

`from_response` is the only place that reads an error body. The body may be a Status object, plain text or a load
balancer's HTML page; whatever it is, the message names the verb and the object and quotes at most 300 characters. What a
caller may rely on: `Unavailable` and `TooManyRequests` are the world's mistakes and worth a retry (`retry.py`), all others
will fail again until something changes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import msgspec

from noctaya.errors import NoctayaError

_QUOTED_CHARACTERS = 300
_MAX_RETRY_AFTER_SECONDS = 300.0


class Cause(NamedTuple):
    """One entry of `Status.details.causes`: which field, why, in which words."""

    field: str
    message: str
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Call:
    """What was being attempted; stands in every message."""

    verb: str
    """get, list, watch, create, update, patch, delete: the verb as RBAC knows it."""
    target: str
    """`deployments.apps models/llama`, or a path for raw calls."""

    def __str__(self) -> str:
        return f"{self.verb} {self.target}"


class KubeError(NoctayaError):
    """A call to the API server failed. `status` is 0 when there was no HTTP answer."""

    def __init__(
        self,
        call: Call,
        message: str,
        *,
        status: int = 0,
        reason: str = "",
        causes: tuple[Cause, ...] = (),
    ) -> None:
        super().__init__(f"{call}: {message}")
        self.call = call
        self.message = message
        self.status = status
        self.reason = reason
        self.causes = causes


class BadRequest(KubeError):
    """The server could not make sense of the request (400, 406, 413, 415, and any other 4xx)."""


class Unauthorized(KubeError):
    """Our credentials are not accepted, even after they were read again."""


class Forbidden(KubeError):
    """RBAC (or an admission plugin, or a quota) refuses this verb on this resource."""


class NotFound(KubeError):
    """This object does not exist (or its namespace does not); the kind is served."""


class KindNotServed(KubeError):
    """The API server does not know the whole resource: the CRD is missing, or its version is not served."""


class MethodNotSupported(KubeError):
    """The resource exists and does not take this verb (405)."""


class AlreadyExists(KubeError):
    """Create met an object of that name."""


class Conflict(KubeError):
    """Somebody else was there first: resourceVersion, uid or field manager. `causes` lists contested fields."""


class Gone(KubeError):
    """This resourceVersion or continue token can no longer (or not yet) be served: list again."""


class Invalid(KubeError):
    """The object breaks its schema or a rule; `causes` names the fields."""


class TooManyRequests(KubeError):
    """The server asks for less (429). `retry_after_seconds` is what it asked for, or None."""

    retry_after_seconds: float | None = None


class Unavailable(KubeError):
    """No usable answer: 5xx, connection refused or lost, a deadline passed. The call may or may not have happened."""

    retry_after_seconds: float | None = None


class Silent(Unavailable):
    """A stream without a byte for too long: its connection is dead, or the server waits for a version it has not reached."""


class Undecodable(KubeError):
    """The answer was a success and not what was expected: not JSON, or fields of another type."""


class ConfigError(NoctayaError):
    """No usable way to a cluster: kubeconfig, service account or credentials plugin."""


class _Details(msgspec.Struct):
    name: str = ""
    kind: str = ""
    causes: list[dict[str, Any]] | None = None
    retry_after_seconds: float = msgspec.field(default=0, name="retryAfterSeconds")


class Status(msgspec.Struct):
    """metav1.Status, as much of it as decides anything."""

    kind: str = ""
    message: str = ""
    reason: str = ""
    code: int = 0
    details: _Details | None = None


# Reason first (it is finer: 409 and 404 and 504 each mean several things), then the status, then its class.
_BY_REASON: Mapping[str, type[KubeError]] = {
    "AlreadyExists": AlreadyExists,
    "BadRequest": BadRequest,
    "Conflict": Conflict,
    "Expired": Gone,
    "Forbidden": Forbidden,
    "Gone": Gone,
    "InternalError": Unavailable,
    "Invalid": Invalid,
    "MethodNotAllowed": MethodNotSupported,
    "NotFound": NotFound,
    "ServerTimeout": Unavailable,
    "ServiceUnavailable": Unavailable,
    "Timeout": Unavailable,
    "TooManyRequests": TooManyRequests,
    "Unauthorized": Unauthorized,
}
_BY_STATUS: Mapping[int, type[KubeError]] = {
    401: Unauthorized,
    403: Forbidden,
    404: NotFound,
    405: MethodNotSupported,
    408: Unavailable,
    409: Conflict,
    410: Gone,
    422: Invalid,
    429: TooManyRequests,
}
_FUTURE_VERSION = "ResourceVersionTooLarge"

_RBAC_SAYS = " cannot "
"""`User "x" cannot patch resource …`. A quota, an admission webhook or a policy answers Forbidden too, in other words."""

_status_decoder = msgspec.json.Decoder(Status)


def from_response(call: Call, status: int, headers: Mapping[str, str], body: bytes) -> KubeError:
    """The error that an HTTP answer with status 300 or more stands for."""
    parsed = _parse_status(body)
    if parsed is None:
        return _build(
            call, status, "", _quote(body.decode("utf-8", "replace")), None, headers.get("Retry-After")
        )
    return _build(
        call, status, parsed.reason, _quote(parsed.message), parsed.details, headers.get("Retry-After")
    )


def from_stream(call: Call, body: bytes | msgspec.Raw) -> KubeError:
    """The error that an ERROR event inside a watch stands for; its object is a Status with a code of its own."""
    parsed = _parse_status(bytes(body)) or Status(message=_quote(bytes(body).decode("utf-8", "replace")))
    return _build(call, parsed.code or 500, parsed.reason, _quote(parsed.message), parsed.details, None)


def _build(
    call: Call, status: int, reason: str, message: str, details: _Details | None, retry_after: str | None
) -> KubeError:
    causes = _causes(details)
    kind = _classify(status, reason, details, causes)
    text = f"HTTP {status}" + (f" {reason}" if reason else "") + (f": {message}" if message else "")
    if kind is Forbidden and _RBAC_SAYS in message:
        text = f"not allowed to {call.verb} {call.target} ({text}); check the role bound to this identity"
    elif kind is Forbidden:
        text = f"the API server refuses to {call.verb} {call.target} ({text})"
    elif kind is KindNotServed:
        text = f"the API server does not serve this resource ({text}); is its CRD installed?"
    elif kind is Invalid:
        text += "".join(
            f"; {cause.field}: {_quote(cause.message)}" for cause in causes[:10] if cause.field not in message
        )
    error = kind(call, text, status=status, reason=reason, causes=causes)
    if isinstance(error, (TooManyRequests, Unavailable)):
        error.retry_after_seconds = _retry_after(retry_after, details)
    return error


def _classify(
    status: int, reason: str, details: _Details | None, causes: tuple[Cause, ...]
) -> type[KubeError]:
    if any(cause.reason == _FUTURE_VERSION for cause in causes):
        # A server that is behind (or was restored) cannot serve our version and may never: only a list tells.
        return Gone
    if status == 404 and not (details is not None and details.name):
        # An unknown resource is answered by the mux: plain text, or a Status that names no object.
        return KindNotServed
    found = _BY_REASON.get(reason) or _BY_STATUS.get(status)
    if found is not None:
        return found
    return Unavailable if status >= 500 or status < 400 else BadRequest


def _parse_status(body: bytes) -> Status | None:
    try:
        parsed = _status_decoder.decode(body)
    except msgspec.MsgspecError:
        return None
    return parsed if parsed.kind == "Status" else None


def _causes(details: _Details | None) -> tuple[Cause, ...]:
    if details is None or not details.causes:
        return ()
    return tuple(
        Cause(str(cause.get("field", "")), str(cause.get("message", "")), str(cause.get("reason", "")))
        for cause in details.causes
    )


def _retry_after(header: str | None, details: _Details | None) -> float | None:
    try:
        seconds = float(header) if header else 0.0
    except ValueError:  # the HTTP-date form: API servers never send it, proxies might; back-off covers it
        seconds = 0.0
    if not seconds and details is not None:
        seconds = details.retry_after_seconds
    return min(seconds, _MAX_RETRY_AFTER_SECONDS) if seconds > 0 else None


def _quote(text: str) -> str:
    flat = " ".join(text.split())
    return flat if len(flat) <= _QUOTED_CHARACTERS else flat[:_QUOTED_CHARACTERS] + "…"
