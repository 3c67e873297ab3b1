"""Every answer that is a refusal, in OpenAI's error shape, and its status code: one place.

The shape is `{"error": {"message", "type", "param", "code"}}`; clients build their typed exceptions from status and code. A
message says what happened, to which model, and what to do next; it never holds a key.
"""

from dataclasses import dataclass, field

import msgspec

from noctaya.errors import NoctayaError

BUSY_RETRY_SECONDS = 5
"""Retry-After of 429: places come free as answers finish."""
COLD_RETRY_SECONDS = 10
"""Retry-After of 503: a start takes longer."""

JSON = "application/json"
MESSAGE_LIMIT = 2000
"""Longest message in characters: a client must not get a megabyte of its own back."""


@dataclass(eq=False)
class Refusal(NoctayaError):
    """An answer instead of the model's; `reason` is the label of `noctaya_gateway_rejections_total`."""

    status: int
    message: str
    type: str
    code: str | None = None
    param: str | None = None
    reason: str = "invalid_request"
    headers: dict[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        return self.message

    def body(self) -> bytes:
        """The error object as JSON. What a client or an engine said may hold what no UTF-8 can, and may be long."""
        message = self.message.encode(errors="replace").decode()
        if len(message) > MESSAGE_LIMIT:
            message = message[:MESSAGE_LIMIT] + "…"
        return msgspec.json.encode(
            {"error": {"message": message, "type": self.type, "param": self.param, "code": self.code}}
        )

    def frame(self) -> bytes:
        """The same as one server-sent event, for an answer whose status is already sent."""
        return b"data: " + self.body() + b"\n\n"


def model_not_found(model: str) -> Refusal:
    """404: nothing of that name here, or nothing that this caller may see."""
    return Refusal(
        404,
        f"The model '{model}' does not exist or you do not have access to it. GET /v1/models lists what you may use.",
        "invalid_request_error",
        "model_not_found",
        "model",
        "unknown_model",
    )


def model_ambiguous(model: str, keys: list[str]) -> Refusal:
    """400: several services answer to that name."""
    return Refusal(
        400,
        f"The model '{model}' is ambiguous here. Name one of {', '.join(sorted(keys))}.",
        "invalid_request_error",
        "model_ambiguous",
        "model",
        "unknown_model",
    )


def model_missing() -> Refusal:
    """400: neither path nor Host nor body says which model is meant."""
    return Refusal(
        400,
        "You must provide a model: as the field 'model' (\"namespace/name\"), or call /{namespace}/{name}/v1/….",
        "invalid_request_error",
        "missing_required_parameter",
        "model",
    )


def bad_json(detail: str) -> Refusal:
    """400: the body is not the JSON object that it claims to be."""
    return Refusal(
        400,
        f"The request body is not a valid JSON object: {detail}. Send one.",
        "invalid_request_error",
        "invalid_json",
    )


def bad_request(message: str) -> Refusal:
    """400: a request that no part of HTTP or of this API allows."""
    return Refusal(400, message, "invalid_request_error", "bad_request")


def path_not_found(method: str, path: str) -> Refusal:
    """404: not a path of this API. Wakes nothing."""
    return Refusal(
        404,
        f"Unknown request URL: {method} {path}. Inference is POST /v1/…, the list of models GET /v1/models.",
        "invalid_request_error",
        "unknown_url",
        reason="unknown_path",
    )


def method_not_allowed(method: str, path: str, allowed: str) -> Refusal:
    """405: a known path, but not with this method. Wakes nothing."""
    return Refusal(
        405,
        f"{method} is not allowed for {path}. Use {allowed}.",
        "invalid_request_error",
        "method_not_allowed",
        reason="unknown_path",
        headers={"allow": allowed},
    )


def unauthorized(message: str, code: str = "invalid_api_key") -> Refusal:
    """401: no key, or not one of this model's."""
    return Refusal(
        401,
        message,
        "authentication_error",
        code,
        reason="unauthorized",
        headers={"www-authenticate": 'Bearer realm="noctaya"'},
    )


def namespace_closed(key: str) -> Refusal:
    """403: a service without keys in a namespace that is not open; no key can help."""
    namespace = key.partition("/")[0]
    return Refusal(
        403,
        f"The model '{key}' has no client keys and namespace '{namespace}' is not open. Give the model keys, or ask the "
        "administrator to open the namespace.",
        "permission_error",
        "namespace_not_open",
        reason="unauthorized",
    )


def authentication_unavailable(key: str) -> Refusal:
    """503: the model needs keys and we hold none for it: nobody gets in (fail closed)."""
    return _unavailable(
        f"The keys of model '{key}' are not available. Its secret may be missing or empty; try again later.",
        "authentication_unavailable",
        "authentication_unavailable",
    )


def queue_full(key: str, places: int) -> Refusal:
    """429: all places of this model at this gateway are taken."""
    return _busy(f"The model '{key}' is busy: all {places} places of its queue are taken.")


def service_bytes_full(key: str) -> Refusal:
    """429: the requests that wait for this model fill its share of memory."""
    return _busy(f"The model '{key}' is busy: the requests that wait for it fill its memory.")


def process_bytes_full() -> Refusal:
    """503: the requests that wait fill this gateway's memory."""
    return _unavailable(
        "This gateway's memory for waiting requests is full. Try again later.", "overloaded", "bytes_full"
    )


def body_too_large(limit: int) -> Refusal:
    """413."""
    return Refusal(
        413,
        f"The request body is larger than {limit} bytes. Send a smaller one.",
        "invalid_request_error",
        "request_too_large",
        reason="body_too_large",
    )


def head_too_large(limit: int) -> Refusal:
    """431."""
    return Refusal(
        431,
        f"The request head is larger than {limit} bytes. Send fewer or shorter headers.",
        "invalid_request_error",
        "headers_too_large",
        reason="head_too_large",
    )


def request_timeout() -> Refusal:
    """408: the client took too long to send its request."""
    return Refusal(
        408,
        "The request did not arrive in time. Send it again.",
        "invalid_request_error",
        "request_timeout",
        reason="slow_client",
    )


def cold_start(key: str) -> Refusal:
    """503 of `reject` mode: the model sleeps and is being woken; come back."""
    return _unavailable(f"The model '{key}' is waking up. Try again later.", "model_cold", "cold_start")


def activation_timeout(key: str, seconds: float, problem: str) -> Refusal:
    """503: the model did not wake in the time that a request may be held."""
    why = f" It reports {problem}." if problem else ""
    return _unavailable(
        f"The model '{key}' did not become ready within {seconds:g} s.{why} Try again later.",
        "activation_timeout",
        "activation_timeout",
    )


def service_gone(key: str) -> Refusal:
    """503: the model was deleted while the request waited for it."""
    return _unavailable(
        f"The model '{key}' was removed while the request waited for it.", "model_removed", "removed"
    )


def draining() -> Refusal:
    """503: this gateway ends and the request could not be finished in time."""
    return _unavailable("This gateway is shutting down. Send the request again.", "shutting_down", "draining")


def upstream_failed(key: str, detail: str) -> Refusal:
    """502: the engine broke off. Not sent again: it may have begun to work."""
    return Refusal(
        502,
        f"The model '{key}' failed to answer: {detail}.",
        "server_error",
        "upstream_error",
        reason="upstream",
    )


def upstream_timeout(key: str, seconds: float) -> Refusal:
    """504: the engine was silent for too long."""
    return Refusal(
        504,
        f"The model '{key}' sent nothing for {seconds:g} s.",
        "server_error",
        "upstream_timeout",
        reason="upstream",
    )


def internal() -> Refusal:
    """500: a defect of ours; the log has the story."""
    return Refusal(
        500,
        "The gateway failed. Its log has the details under this request's id.",
        "server_error",
        "internal_error",
        reason="internal",
    )


def _busy(message: str) -> Refusal:
    return Refusal(
        429,
        f"{message} Try again later.",
        "rate_limit_error",
        "queue_full",
        reason="queue_full",
        headers={"retry-after": str(BUSY_RETRY_SECONDS)},
    )


def _unavailable(message: str, code: str, reason: str) -> Refusal:
    return Refusal(
        503,
        message,
        "service_unavailable",
        code,
        reason=reason,
        headers={"retry-after": str(COLD_RETRY_SECONDS)},
    )


class _EngineError(msgspec.Struct):
    message: str | None = None
    type: str | None = None
    param: str | None = None
    code: str | int | None = None


class _EngineAnswer(msgspec.Struct):
    error: _EngineError | str | None = None


def from_engine(key: str, status: int, body: bytes) -> Refusal:
    """An engine's error whose status can no longer be sent: its own error object if it has one, else its text."""
    try:
        told = msgspec.json.decode(body, type=_EngineAnswer).error
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        told = None
    if isinstance(told, _EngineError):
        return Refusal(
            status,
            told.message or f"The model '{key}' answered with status {status}.",
            told.type or "server_error",
            str(told.code) if told.code is not None else str(status),
            told.param,
            reason="upstream",
        )
    text = told or body[:500].decode(errors="replace").strip() or "no details"
    return Refusal(
        status,
        f"The model '{key}' answered with status {status}: {text}",
        "server_error",
        str(status),
        reason="upstream",
    )
