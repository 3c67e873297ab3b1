"""The admin port: read-only, and not for clients; it works on while the gateway drains.

Probes and metrics are for the pod network. A look inside names models, pods and addresses: it is for loopback only
(port-forward).
"""

import asyncio
from collections.abc import Callable
from http import HTTPStatus
from typing import Any

from aiohttp import web
from prometheus_client import exposition

from noctaya.gateway.metrics import Metrics
from noctaya.loopback import is_loopback

Readiness = Callable[[], tuple[bool, list[str]]]
"""Whether this gateway should get requests, and what speaks against it."""


def build(metrics: Metrics, readiness: Readiness, queue: Callable[[], dict[str, Any]]) -> web.Application:
    """The admin application."""

    async def healthz(request: web.Request) -> web.Response:
        del request
        return web.Response(text="ok\n")

    async def readyz(request: web.Request) -> web.Response:
        del request
        is_ready, problems = readiness()
        status = HTTPStatus.OK if is_ready else HTTPStatus.SERVICE_UNAVAILABLE
        return web.json_response({"ready": is_ready, "problems": problems}, status=status)

    async def expose(request: web.Request) -> web.Response:
        encode, content_type = exposition.choose_encoder(request.headers.get("accept", ""))
        # In a thread: a thousand series take milliseconds that held streams should not wait for.
        text = await asyncio.to_thread(encode, metrics.registry)
        return web.Response(body=text, headers={"content-type": content_type})

    async def debug_queue(request: web.Request) -> web.Response:
        if not is_loopback(request.remote):
            raise web.HTTPForbidden(text="only from loopback: use kubectl port-forward\n")
        return web.json_response(queue())

    app = web.Application()
    app.add_routes(
        [
            web.get("/healthz", healthz),
            web.get("/readyz", readyz),
            web.get("/metrics", expose),
            web.get("/debug/queue", debug_queue),
        ]
    )
    return app
