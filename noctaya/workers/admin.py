"""The admin port: read-only. Probes and metrics for the pod network; a look inside as JSON on loopback (port-forward) only.

`/readyz` is 200 once the worker has listed everything, whatever KEDA or the API server do after: a worker that is not ready
leaves the scaler's Service, and KEDA would lose the answers that it has. Its body lists the problems.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import msgspec
from aiohttp import web
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import choose_encoder

from noctaya.loopback import is_loopback
from noctaya.workers.errors import QueryRefused
from noctaya.workers.problems import Problems

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
View = Callable[[], Any]
Query = Callable[[Mapping[str, str]], Any]
"""A view that takes the query's parameters. Raises QueryRefused."""


def admin_app(
    *,
    is_synced: Callable[[], bool],
    problems: Problems,
    metrics: CollectorRegistry,
    views: Mapping[str, View],
    queries: Mapping[str, Query] | None = None,
) -> web.Application:
    """The application; each of `views` and `queries` is shown as JSON under `/debug/<name>`."""

    async def healthz(request: web.Request) -> web.Response:
        del request
        return web.Response(text="ok\n")

    async def readyz(request: web.Request) -> web.Response:
        del request
        synced = is_synced()
        body = {
            "ready": synced,
            "problems": [problem._asdict() for problem in problems.current()],
        }
        return _json(body, status=200 if synced else 503)

    async def exposition(request: web.Request) -> web.Response:
        encode, content_type = choose_encoder(request.headers.get("Accept", ""))
        return web.Response(body=encode(metrics), headers={"Content-Type": content_type})

    def debug(query: Query) -> Handler:
        async def show(request: web.Request) -> web.Response:
            if not is_loopback(request.remote):
                raise web.HTTPForbidden(text="only from loopback: use kubectl port-forward\n")
            try:
                return _json(query(request.query))
            except QueryRefused as refused:
                return _json({"error": str(refused)}, status=400)

        return show

    app = web.Application()
    app.router.add_get("/healthz", healthz)
    app.router.add_get("/readyz", readyz)
    app.router.add_get("/metrics", exposition)
    for name, view in views.items():
        app.router.add_get(f"/debug/{name}", debug(_without_parameters(view)))
    for name, query in (queries or {}).items():
        app.router.add_get(f"/debug/{name}", debug(query))
    return app


def _without_parameters(view: View) -> Query:
    return lambda _: view()


def _json(body: Any, *, status: int = 200) -> web.Response:
    return web.Response(
        body=msgspec.json.encode(body) + b"\n", content_type="application/json", status=status
    )
