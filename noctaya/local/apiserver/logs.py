"""The `log` subresource's contract with whoever runs the containers."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from dataclasses import dataclass
from typing import Protocol

from noctaya.local.apiserver import status
from noctaya.local.apiserver.query import flag, whole
from noctaya.local.apiserver.status import Object
from noctaya.local.apiserver.tablecells import at


@dataclass(frozen=True, slots=True)
class LogRequest:
    """Which lines are wanted. None means no limit."""

    container: str
    follow: bool = False
    previous: bool = False
    timestamps: bool = False
    tail_lines: int | None = None
    since_seconds: int | None = None
    limit_bytes: int | None = None


class LogSource(Protocol):
    """Gives the log of a pod's container; the node agent implements it."""

    def read(self, pod: Object, request: LogRequest) -> AsyncIterator[bytes]:
        """Chunks of the log; with `follow` until the container ends. May raise `ApiError` before the first chunk."""


def log_request(pod: Object, query: Mapping[str, str]) -> LogRequest:
    """The request that a query means; raises 400 when the pod has several containers and none is named."""
    containers = [c["name"] for c in at(pod, "spec", "containers", default=[])]
    initial = [c["name"] for c in at(pod, "spec", "initContainers", default=[])]
    name = pod["metadata"]["name"]
    container = query.get("container", "")
    if not container:
        if len(containers) != 1:
            raise status.bad_request(
                f"a container name must be specified for pod {name}, choose one of: {containers}"
            )
        container = containers[0]
    if container not in containers + initial:
        raise status.bad_request(f"container {container} is not valid for pod {name}")
    return LogRequest(
        container=container,
        follow=flag(query, "follow"),
        previous=flag(query, "previous"),
        timestamps=flag(query, "timestamps"),
        tail_lines=whole(query, "tailLines"),
        since_seconds=whole(query, "sinceSeconds"),
        limit_bytes=whole(query, "limitBytes"),
    )


async def chunks(source: LogSource, pod: Object, request: LogRequest) -> AsyncGenerator[bytes, None]:
    """The source's chunks, cut at the byte limit; closing this closes the source's iterator if it can be closed."""
    left = request.limit_bytes
    iterator = source.read(pod, request)
    try:
        async for chunk in iterator:
            if left is None:
                yield chunk
                continue
            yield chunk[:left]
            left -= len(chunk)
            if left <= 0:
                return
    finally:
        close = getattr(iterator, "aclose", None)
        if close is not None:
            await close()
