"""Kubernetes `Status` objects: how the API server says no.

Every refusal is an `ApiError` built by one of the functions below, so that code and reason always agree the way client
libraries and kubectl expect. The HTTP shell turns an `ApiError` into a response; nothing else knows status codes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import msgspec

from noctaya.local.errors import LocalError

Json = Any
Object = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Cause:
    """One broken field, as kubectl lists it under `details.causes`."""

    field: str
    message: str
    reason: str = "FieldValueInvalid"

    def as_json(self) -> Object:
        """The cause as the API writes it."""
        return {"reason": self.reason, "message": self.message, "field": self.field}


class ApiError(LocalError):
    """A refusal with its HTTP code, machine-readable reason and details."""

    def __init__(self, code: int, reason: str, message: str, details: Object | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.reason = reason
        self.message = message
        self.details = details

    def as_status(self) -> Object:
        """The `Status` object that is the response's body."""
        status: Object = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": self.message,
            "code": self.code,
        }
        if self.reason:
            status["reason"] = self.reason
        if self.details is not None:
            status["details"] = self.details
        return status


def shown(value: Json) -> str:
    """A value in a message, as JSON."""
    return msgspec.json.encode(value).decode()


def qualified(plural: str, group: str) -> str:
    """`deployments.apps`, or just `pods` in the core group."""
    return f"{plural}.{group}" if group else plural


def _details(plural: str, group: str, name: str) -> Object:
    details: Object = {}
    if name:
        details["name"] = name
    if group:
        details["group"] = group
    if plural:
        details["kind"] = plural
    return details


def not_found(plural: str, group: str, name: str) -> ApiError:
    """404 for an object."""
    return ApiError(
        404, "NotFound", f'{qualified(plural, group)} "{name}" not found', _details(plural, group, name)
    )


def no_such_path() -> ApiError:
    """404 for a path that serves nothing."""
    return ApiError(404, "NotFound", "the server could not find the requested resource", {})


class NoSuchGroup(ApiError):
    """404 outside everything that is served: plain text, as no API is there to make a Status."""

    def __init__(self) -> None:
        super().__init__(404, "NotFound", "404 page not found\n")


def no_connections(subresource: str) -> ApiError:
    """501 for connections into a pod; kubectl shows the message."""
    return ApiError(
        501,
        "NotImplemented",
        f"the embedded cluster has no {subresource}: a pod is a process of this machine, "
        "with the address that `kubectl get pods -o wide` shows",
    )


def already_exists(plural: str, group: str, name: str) -> ApiError:
    """409 for a create."""
    return ApiError(
        409,
        "AlreadyExists",
        f'{qualified(plural, group)} "{name}" already exists',
        _details(plural, group, name),
    )


def conflict(plural: str, group: str, name: str, why: str) -> ApiError:
    """409 for a write that lost a race or broke a precondition."""
    message = f'Operation cannot be fulfilled on {qualified(plural, group)} "{name}": {why}'
    return ApiError(409, "Conflict", message, _details(plural, group, name))


STALE = "the object has been modified; please apply your changes to the latest version and try again"


def bad_request(message: str) -> ApiError:
    """400: the request itself makes no sense."""
    return ApiError(400, "BadRequest", message)


def unauthorized() -> ApiError:
    """401: no or a wrong bearer token."""
    return ApiError(401, "Unauthorized", "Unauthorized")


def forbidden(plural: str, group: str, name: str, why: str, causes: list[Cause] | None = None) -> ApiError:
    """403 with causes."""
    details = _details(plural, group, name)
    if causes:
        details["causes"] = [cause.as_json() for cause in causes]
    return ApiError(403, "Forbidden", f'{qualified(plural, group)} "{name}" is forbidden: {why}', details)


def method_not_allowed() -> ApiError:
    """405: the resource exists, the verb does not."""
    message = "the server does not allow this method on the requested resource"
    return ApiError(405, "MethodNotAllowed", message, {})


def not_acceptable() -> ApiError:
    """406: no common media type."""
    message = "406: Not Acceptable\n\nAvailable representations: application/json, application/yaml"
    return ApiError(406, "NotAcceptable", message, {})


def unsupported_media_type(allowed: str) -> ApiError:
    """415: a body in a format that this endpoint does not take."""
    return ApiError(
        415,
        "UnsupportedMediaType",
        f"the body of the request was in an unknown format - accepted media types include: {allowed}",
    )


def not_a_patch() -> ApiError:
    """415: a content type that is no patch at all."""
    return ApiError(415, "UnsupportedMediaType", "415: Unsupported Media Type", {})


def not_applicable() -> ApiError:
    """422: a JSON patch that cannot be done. The real server does not say why."""
    return ApiError(422, "Invalid", "the server rejected our request due to an error in our request", {})


def undecodable_patch(patched: Json, why: str) -> ApiError:
    """422: what a patch leaves is no object of this kind."""
    return invalid("", "", "", [Cause("patch", f"Invalid value: {shown(shown(patched))}: {why}")])


def version_too_large(asked: int, newest: int) -> ApiError:
    """504: a version that this server has not seen yet."""
    causes = [{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}]
    return ApiError(
        504,
        "Timeout",
        f"Timeout: Too large resource version: {asked}, current: {newest}",
        {"causes": causes, "retryAfterSeconds": 1},
    )


def too_large(limit_bytes: int) -> ApiError:
    """413: a body above the limit."""
    return ApiError(413, "RequestEntityTooLarge", f"Request entity too large: limit is {limit_bytes}")


def expired(message: str = "The resourceVersion for the provided watch is too old.") -> ApiError:
    """410: the history that the client asks for is gone; it must list again."""
    return ApiError(410, "Expired", message)


def invalid(kind: str, group: str, name: str, causes: list[Cause]) -> ApiError:
    """422: the object breaks rules; each cause names a field."""
    listed = [f"{cause.field}: {cause.message}" for cause in causes]
    text = listed[0] if len(listed) == 1 else f"[{', '.join(listed)}]"
    details = _details(kind, group, name)
    details["causes"] = [cause.as_json() for cause in causes]
    return ApiError(422, "Invalid", f'{qualified(kind, group)} "{name}" is invalid: {text}', details)


def success(plural: str, group: str, name: str, uid: str) -> Object:
    """The `Status` that answers a delete which is already complete."""
    return {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Success",
        "details": {**_details(plural, group, name), "uid": uid},
    }
