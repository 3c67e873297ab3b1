"""Metrics: the names that dashboards know, and never more series than services with traffic, two hundred at most."""

import aiohttp
from aiohttp.test_utils import make_mocked_request
from aiohttp.web import HTTPForbidden

from noctaya.gateway import admin
from noctaya.gateway.metrics import IDLE_SECONDS, MAX_SERVICES, Metrics
from tests.gateway.fake_engine import fake_engine
from tests.gateway.fake_worker import fake_worker
from tests.gateway.running import gateway, words
from tests.gateway.services import KEY, endpoint, message


def requests_of(metrics: Metrics, namespace: str, service: str, code: str = "200") -> float | None:
    labels = {"namespace": namespace, "service": service, "code": code}
    return metrics.registry.get_sample_value("noctaya_gateway_requests_total", labels)


def test_services_beyond_the_limit_are_counted_together() -> None:
    metrics = Metrics(lambda: 0.0)
    for number in range(MAX_SERVICES + 3):
        metrics.of(f"ai/s{number}").answered("200")
    assert requests_of(metrics, "ai", "s0") == 1
    assert requests_of(metrics, "ai", f"s{MAX_SERVICES}") is None
    assert requests_of(metrics, "_other", "_other") == 3


def test_a_service_without_traffic_for_an_hour_makes_room_and_its_series_go() -> None:
    now = 0.0
    metrics = Metrics(lambda: now)
    for number in range(MAX_SERVICES):
        metrics.of(f"ai/s{number}").answered("200")
    now = IDLE_SECONDS / 2
    metrics.of("ai/s1").answered("200")
    now = IDLE_SECONDS + 1
    metrics.of("ai/new").answered("200")
    assert requests_of(metrics, "ai", "new") == 1
    assert requests_of(metrics, "ai", "s0") is None
    assert requests_of(metrics, "ai", "s1") == 2


async def test_the_names_that_dashboards_know_are_served_on_the_admin_port() -> None:
    async with fake_worker() as worker, fake_engine() as engine:
        worker.serve(message())
        worker.on_wake = lambda wake: worker.serve(message(endpoints=[endpoint(engine.port)]))
        async with gateway(worker.address) as running, running.openai() as client:
            await words(client, KEY)
            _, told = await running.admin("/metrics")
        labels = 'namespace="ai",service="tiny"'
        for line in (
            f'noctaya_gateway_requests_total{{code="200",{labels}}} 1.0',
            f"noctaya_gateway_activation_events_total{{{labels}}} 1.0",
            f"noctaya_gateway_activation_wait_seconds_count{{{labels}}} 1.0",
            'noctaya_gateway_cold_start_seconds_count{namespace="ai",phase="total",service="tiny"} 1.0',
            'noctaya_gateway_demand{namespace="_other",service="_other"} 0.0',
            'noctaya_gateway_pending{namespace="_other",service="_other"} 0.0',
            "noctaya_gateway_links 1.0",
            "noctaya_gateway_routes 1.0",
        ):
            assert line in told, line
        assert 'noctaya_gateway_demand_reports_total{result="success"}' in told


async def test_a_refusal_counts_for_the_service_that_the_body_names() -> None:
    async with fake_worker() as worker:
        worker.serve(message(max_body_bytes=10))
        async with gateway(worker.address) as running, aiohttp.ClientSession() as session:
            async with running.post(session) as answer:
                assert answer.status == 413
            _, told = await running.admin("/metrics")
    assert 'noctaya_gateway_requests_total{code="413",namespace="ai",service="tiny"} 1.0' in told


async def test_a_look_inside_is_for_loopback_only() -> None:
    app = admin.build(Metrics(lambda: 0.0), lambda: (True, []), lambda: {"services": {}})

    async def status(path: str, remote: str) -> int:
        request = make_mocked_request("GET", path, app=app).clone(remote=remote)
        match = await app.router.resolve(request)
        try:
            return (await match.handler(request)).status
        except HTTPForbidden as refused:
            return refused.status

    for remote in ("127.0.0.1", "::1", "::ffff:127.0.0.1"):
        assert await status("/debug/queue", remote) == 200
    for remote in ("10.244.0.7", "::ffff:10.244.0.7", "fd00::7", ""):
        assert await status("/debug/queue", remote) == 403
        assert await status("/readyz", remote) == 200
