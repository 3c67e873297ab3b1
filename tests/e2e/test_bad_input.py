"""A person's mistakes: each is refused at once, by name, and wakes nothing."""

import os
import subprocess
import sys

import openai
import pytest

from noctaya.local.cluster import refuse_taken
from noctaya.local.errors import PortInUse
from tests.e2e.cluster import EmbeddedCluster
from tests.e2e.scripted import manifest, scripted_service


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        ({"model": {}}, "spec.model"),
        ({"model": {"source": {"uri": ""}}}, "spec.model.source.uri"),
        ({"runtime": {}}, "spec.runtime"),
        ({"runtime": {"selector": {"vendor": ["acme"]}}}, "spec.runtime.selector.vendor"),
        ({"scaling": {"min": 2, "max": 1}}, "spec.scaling"),
        ({"scaling": {"activationTimeout": "0s"}}, "activationTimeout"),
        ({"scaling": {"scaleDownStabilization": "1h1s"}}, "scaleDownStabilization"),
        ({"scaling": {"metric": "moonPhase"}}, "spec.scaling.metric"),
        ({"endpoint": {"maxQueue": 0}}, "spec.endpoint.maxQueue"),
        ({"endpoint": {"coldStart": {"mode": "maybe"}}}, "spec.endpoint.coldStart.mode"),
        ({"endpoint": {"coldStart": {"heartbeatInterval": "0s"}}}, "heartbeatInterval"),
        ({"cache": {"strategy": "Attic"}}, "spec.cache.strategy"),
        ({"resources": {"accelerators": 0}}, "spec.resources.accelerators"),
    ],
)
def test_kubectl_apply_refuses_a_broken_service_and_names_the_field(
    cluster: EmbeddedCluster, spec: dict[str, object], field: str
) -> None:
    refused = cluster.kubectl(
        "apply", "-f", "-", stdin=manifest(scripted_service("broken", "llamacpp-cpu", **spec)), check=False
    )
    assert refused.returncode != 0
    assert field in refused.stderr, refused.stderr


def test_a_name_whose_children_would_not_fit_is_refused(cluster: EmbeddedCluster) -> None:
    refused = cluster.kubectl(
        "apply", "-f", "-", stdin=manifest(scripted_service("x" * 60, "llamacpp-cpu")), check=False
    )
    assert refused.returncode != 0
    assert "name" in refused.stderr


def test_an_unknown_model_gets_404_in_the_shape_of_openai_and_wakes_nothing(cluster: EmbeddedCluster) -> None:
    with cluster.openai() as client, pytest.raises(openai.NotFoundError) as caught:
        client.chat.completions.create(model="ai/nobody", messages=[{"role": "user", "content": "hi"}])
    assert caught.value.code == "model_not_found"
    assert (
        cluster.get("deployments", "smollm2")["spec"]["replicas"] == 0 or cluster.phase("smollm2") == "Ready"
    )


def test_a_body_that_is_no_json_gets_400(cluster: EmbeddedCluster) -> None:
    answer = cluster.http(
        "POST", "/v1/chat/completions", content=b"{not json", headers={"content-type": "application/json"}
    )
    assert answer.status_code == 400
    assert answer.json()["error"]["type"] == "invalid_request_error"


@pytest.mark.parametrize("role", ["worker", "gateway"])
def test_an_unknown_variable_stops_the_start_and_names_the_nearest(role: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "noctaya", role],
        env={**os.environ, "NOCTAYA_LOG__LEVL": "debug"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 2
    assert "NOCTAYA_LOG__LEVEL" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_port_in_use_is_named(cluster: EmbeddedCluster) -> None:
    with pytest.raises(PortInUse, match=str(cluster.port)):
        refuse_taken(cluster.port)
    done = subprocess.run(
        [sys.executable, "-m", "noctaya", "local", "--port", str(cluster.port)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 2
    assert str(cluster.port) in done.stderr
