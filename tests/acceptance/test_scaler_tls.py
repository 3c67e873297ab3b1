"""Mutual TLS between KEDA and the scaler (E15) is not built yet: it is refused where everybody can see it.

When it is built, these tests fail, and E15 itself takes their place.
"""

import asyncio

import pytest

from tests.acceptance.api import Api
from tests.acceptance.clients import ask
from tests.acceptance.conftest import Models
from tests.acceptance.fleet import NAMESPACE, Fleet
from tests.acceptance.waiting import until

TLS = {
    "serverSecretName": "external-scaler-server",
    "authenticationRef": {"name": "external-scaler-mtls", "kind": "TriggerAuthentication"},
}
FIELD = "spec.scaling.externalScaler.tls"
SHOWN_SECONDS = 60.0
CONNECT_SECONDS = 5.0
SCALER_TLS_PORT = 9093


async def test_a_model_that_asks_for_mutual_tls_is_refused_and_says_which_field(
    api: Api, models: Models, fleet: Fleet, namespace: str
) -> None:
    """E15 is not there: nothing is scaled over a plaintext connection instead, and without the field the model works."""
    model = await models(
        "encrypted", scaling={"externalScaler": {"tls": TLS}, "activationTimeout": "2s"}, usable=False
    )
    for kind, status in (("AutoscalingReady", "False"), ("Degraded", "True"), ("Ready", "False")):
        shown = await model.until_condition(kind, status, SHOWN_SECONDS, reason="ScaledObject")
        assert FIELD in shown["message"]
    assert await model.phase() == "Degraded"

    async def told() -> bool:
        return any(
            event["reason"] == "ScaledObject" and FIELD in event["message"]
            for event in await api.list("events", namespace)
        )

    await until(told, SHOWN_SECONDS, "an event names the field")
    assert await model.trigger() == {}
    assert await api.find("deployments", model.name, namespace) is None
    refusal = await ask(fleet.url, model.model, stream=False)
    assert (refusal.status, refusal.error_code) == (503, "activation_timeout"), refusal
    assert "ScaledObject" in refusal.json()["error"]["message"]

    await model.patch(scaling={"externalScaler": None, "activationTimeout": "2m"})
    await model.until_usable()
    answer = await ask(fleet.url, model.model)
    assert answer.is_whole, answer


async def test_a_working_model_that_is_given_mutual_tls_keeps_its_scaler_and_says_so(
    models: Models, fleet: Fleet
) -> None:
    """E15 is not there: what KEDA has is not changed into something that looks as if it were encrypted."""
    model = await models("changed")
    before = await model.trigger()
    await model.patch(scaling={"externalScaler": {"tls": TLS}})
    await model.until_condition("Degraded", "True", SHOWN_SECONDS, reason="ScaledObject")
    assert await model.trigger() == before
    assert "authenticationRef" not in before
    answer = await ask(fleet.url, model.model)
    assert answer.is_whole, answer


async def test_nothing_listens_on_the_scalers_tls_port(fleet: Fleet, api: Api) -> None:
    """E15 is not there: the Service has port 9093 reserved, and whoever connects to it is refused at once."""
    service = await api.get("services", "noctaya-scaler", NAMESPACE)
    assert SCALER_TLS_PORT in [port["port"] for port in service["spec"]["ports"]]
    for worker in await fleet.until_pods("worker"):
        with pytest.raises(ConnectionRefusedError):
            await asyncio.wait_for(asyncio.open_connection(worker.address, SCALER_TLS_PORT), CONNECT_SECONDS)
