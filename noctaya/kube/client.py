"""Typed verbs on any kind: `await client.get(PODS, "models", "llama-0", Pod)`.

Every call has a deadline (`request_timeout_seconds`, or its own), returns plain dicts or the msgspec type asked for
with `into`, and raises the errors of `errors.py`; none is repeated here (see `retry.py`). Bodies may be dicts or
structs; `apiVersion` and `kind` are filled in, since the resource already says them. One client belongs to one event loop.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from types import TracebackType
from typing import Any, TypedDict, TypeVar, Unpack, overload

import msgspec

from noctaya.kube.config import ClusterConfig
from noctaya.kube.errors import Call
from noctaya.kube.reading import ListResult, Reader
from noctaya.kube.resources import Resource
from noctaya.kube.transport import Transport

__all__ = ["Client", "ListResult", "PatchType", "Propagation"]

T = TypeVar("T")


class PatchType(Enum):
    """How a patch is read. There is no default on the wire: a wrong content type silently means another patch."""

    MERGE = "application/merge-patch+json"
    JSON = "application/json-patch+json"
    STRATEGIC = "application/strategic-merge-patch+json"
    APPLY = "application/apply-patch+yaml"


class Propagation(Enum):
    """What happens to the children of a deleted object."""

    BACKGROUND = "Background"
    FOREGROUND = "Foreground"
    ORPHAN = "Orphan"


class CreateOptions(TypedDict, total=False):
    field_manager: str | None
    """Who owns the fields afterwards; the server takes it from the User-Agent when it is not given."""
    dry_run: bool
    timeout_seconds: float | None


class WriteOptions(CreateOptions, total=False):
    subresource: str | None
    """`status` or `scale`."""


class Client(Reader):
    """A session with one API server.

        async with Client(ClusterConfig.load(), user_agent="noctaya-worker/1.0") as client:
            pods = await client.list(PODS, "models", label_selector="app=x", into=Pod)

    `user_agent` is what flow control, audit logs and administrators see. `field_validation` ("Strict", "Warn", "Ignore")
    is sent with every write; tests set it to "Strict" to learn of fields that would be pruned.
    """

    def __init__(
        self,
        config: ClusterConfig,
        *,
        user_agent: str = "noctaya",
        request_timeout_seconds: float = 10.0,
        field_validation: str | None = None,
    ) -> None:
        super().__init__(Transport(config, user_agent=user_agent), timeout_seconds=request_timeout_seconds)
        self.config = config
        self._field_validation = field_validation

    async def __aenter__(self) -> Client:
        await self._transport.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._transport.__aexit__(kind, error, trace)

    @overload
    async def create(
        self, resource: Resource, namespace: str | None, body: Any, **options: Unpack[CreateOptions]
    ) -> dict[str, Any]: ...
    @overload
    async def create(
        self,
        resource: Resource,
        namespace: str | None,
        body: Any,
        *,
        into: type[T],
        **options: Unpack[CreateOptions],
    ) -> T: ...
    async def create(
        self,
        resource: Resource,
        namespace: str | None,
        body: Any,
        *,
        into: Any = dict,
        **options: Unpack[CreateOptions],
    ) -> Any:
        """A new object. Raises AlreadyExists, Invalid, or NotFound when its namespace does not exist."""
        content = _with_identity(resource, body)
        # The name is only for the message: the path of a create ends at the collection.
        call = Call("create", resource.describe(namespace, content.get("metadata", {}).get("name")))
        return await self._write(call, "POST", resource.path(namespace), content, into, options)

    @overload
    async def replace(
        self, resource: Resource, namespace: str | None, name: str, body: Any, **options: Unpack[WriteOptions]
    ) -> dict[str, Any]: ...
    @overload
    async def replace(
        self,
        resource: Resource,
        namespace: str | None,
        name: str,
        body: Any,
        *,
        into: type[T],
        **options: Unpack[WriteOptions],
    ) -> T: ...
    async def replace(
        self,
        resource: Resource,
        namespace: str | None,
        name: str,
        body: Any,
        *,
        into: Any = dict,
        **options: Unpack[WriteOptions],
    ) -> Any:
        """Overwrite an object. With `metadata.resourceVersion` in the body a lost race raises Conflict."""
        subresource = options.get("subresource")
        call = Call("update", resource.describe(namespace, name, subresource))
        path = resource.path(namespace, name, subresource)
        return await self._write(call, "PUT", path, _with_identity(resource, body, name), into, options)

    @overload
    async def patch(
        self,
        resource: Resource,
        namespace: str | None,
        name: str,
        patch: Any,
        patch_type: PatchType = PatchType.MERGE,
        **options: Unpack[WriteOptions],
    ) -> dict[str, Any]: ...
    @overload
    async def patch(
        self,
        resource: Resource,
        namespace: str | None,
        name: str,
        patch: Any,
        patch_type: PatchType = PatchType.MERGE,
        *,
        into: type[T],
        **options: Unpack[WriteOptions],
    ) -> T: ...
    async def patch(
        self,
        resource: Resource,
        namespace: str | None,
        name: str,
        patch: Any,
        patch_type: PatchType = PatchType.MERGE,
        *,
        into: Any = dict,
        **options: Unpack[WriteOptions],
    ) -> Any:
        """Change part of an object: `patch` is a dict (None deletes), or a list of operations for PatchType.JSON."""
        if patch_type is PatchType.APPLY:
            raise ValueError("server-side apply has its own method: client.apply(…, field_manager=…)")
        subresource = options.get("subresource")
        call = Call("patch", resource.describe(namespace, name, subresource))
        path = resource.path(namespace, name, subresource)
        return await self._write(call, "PATCH", path, patch, into, options, content_type=patch_type)

    @overload
    async def apply(
        self,
        resource: Resource,
        namespace: str | None,
        name: str,
        body: Any,
        *,
        field_manager: str,
        force: bool = False,
        subresource: str | None = None,
        dry_run: bool = False,
        timeout_seconds: float | None = None,
    ) -> dict[str, Any]: ...
    @overload
    async def apply(
        self,
        resource: Resource,
        namespace: str | None,
        name: str,
        body: Any,
        *,
        field_manager: str,
        force: bool = False,
        subresource: str | None = None,
        dry_run: bool = False,
        timeout_seconds: float | None = None,
        into: type[T],
    ) -> T: ...
    async def apply(
        self,
        resource: Resource,
        namespace: str | None,
        name: str,
        body: Any,
        *,
        field_manager: str,
        force: bool = False,
        subresource: str | None = None,
        dry_run: bool = False,
        timeout_seconds: float | None = None,
        into: Any = dict,
    ) -> Any:
        """Server-side apply: this manager wants exactly these fields.

        Raises Conflict, whose causes name the fields and their managers, when another manager owns one and `force` is
        off; with `metadata.uid` in the body, also when the object is another one by now.
        """
        if not field_manager:
            raise ValueError("server-side apply needs a field manager")
        options: WriteOptions = {
            "field_manager": field_manager,
            "dry_run": dry_run,
            "timeout_seconds": timeout_seconds,
        }
        return await self._write(
            Call("patch", resource.describe(namespace, name, subresource)),
            "PATCH",
            resource.path(namespace, name, subresource),
            _with_identity(resource, body, name),
            into,
            options,
            content_type=PatchType.APPLY,
            more_query={"force": "true"} if force else {},
        )

    async def delete(
        self,
        resource: Resource,
        namespace: str | None,
        name: str,
        *,
        uid: str | None = None,
        resource_version: str | None = None,
        propagation: Propagation | None = None,
        grace_period_seconds: int | None = None,
        dry_run: bool = False,
        timeout_seconds: float | None = None,
    ) -> None:
        """Ask for deletion. With `uid` or `resource_version` an object that is another one by now raises Conflict."""
        preconditions = _given(uid=uid, resourceVersion=resource_version)
        body = _given(
            apiVersion="v1",
            kind="DeleteOptions",
            preconditions=preconditions or None,
            propagationPolicy=propagation.value if propagation is not None else None,
            gracePeriodSeconds=grace_period_seconds,
        )
        await self._transport.request(
            Call("delete", resource.describe(namespace, name)),
            "DELETE",
            resource.path(namespace, name),
            query={"dryRun": "All"} if dry_run else None,
            body=msgspec.json.encode(body),
            content_type="application/json",
            timeout_seconds=self._limit(timeout_seconds),
        )

    async def _write(
        self,
        call: Call,
        method: str,
        path: str,
        content: Any,
        into: Any,
        options: CreateOptions,
        *,
        content_type: PatchType | None = None,
        more_query: Mapping[str, str] | None = None,
    ) -> Any:
        query = _given(
            fieldManager=options.get("field_manager"),
            dryRun="All" if options.get("dry_run") else None,
            fieldValidation=self._field_validation,
        )
        body = await self._transport.request(
            call,
            method,
            path,
            query={**query, **(more_query or {})},
            body=msgspec.json.encode(content),
            content_type=content_type.value if content_type is not None else "application/json",
            timeout_seconds=self._limit(options.get("timeout_seconds")),
        )
        return self._decode(call, body, into)


def _given(**values: Any) -> dict[str, Any]:
    return {key: value for key, value in values.items() if value is not None}


def _with_identity(resource: Resource, body: Any, name: str | None = None) -> dict[str, Any]:
    """The body with apiVersion and kind (and the name, where the path has one); what the body says itself wins."""
    content = dict(body) if isinstance(body, Mapping) else dict(msgspec.to_builtins(body))
    content.setdefault("apiVersion", resource.api_version)
    content.setdefault("kind", resource.kind)
    if name is not None:
        content["metadata"] = {"name": name, **content.get("metadata", {})}
    return content
