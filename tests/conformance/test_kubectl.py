"""kubectl's own verbs: what an operator types. Each program start costs a while, so a test does a whole errand."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from noctaya.kube.resources import CONFIGMAPS, DEPLOYMENTS
from tests.conformance.client import Api, Object
from tests.conformance.definitions import WIDGETS, widget
from tests.conformance.objects import config_map, deployment
from tests.kubectl_run import Finished, run_kubectl

pytestmark = pytest.mark.kubectl
RUN_SECONDS = 90.0


Kubectl = Callable[..., Awaitable[Finished]]


@pytest.fixture
def kubectl(widgets: Api, tmp_path: Path) -> Kubectl:
    """`await kubectl("get", "pods", given="…", ok=True)`, in the test's namespace and with a home of its own."""
    program = widgets.server.kubectl
    if program is None:
        pytest.skip("kubectl is not on PATH")
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(tmp_path),
        "KUBECONFIG": str(widgets.server.kubeconfig),
        "KUBERC": "off",
    }

    async def run(*words: str, given: str = "", ok: bool = True) -> Finished:
        finished = await run_kubectl(
            program,
            f"--namespace={widgets.namespace}",
            *words,
            environment=environment,
            given=given,
            seconds=RUN_SECONDS,
        )
        assert (finished.code == 0) is ok, f"kubectl {words}: {finished}"
        return finished

    return run


def as_yaml(*bodies: Object) -> str:
    return yaml.safe_dump_all(bodies)


async def test_apply_creates_changes_and_prunes_fields(widgets: Api, kubectl: Kubectl) -> None:
    first = as_yaml(config_map(k="1", gone="2"), widget(size=2))
    made = await kubectl("apply", "-f", "-", given=first)
    assert "configmap/c created" in made.out
    assert "widget.example.test/w created" in made.out
    assert "unchanged" in (await kubectl("apply", "-f", "-", given=as_yaml(config_map(k="1", gone="2")))).out
    assert (
        "configured"
        in (await kubectl("apply", "-f", "-", given=as_yaml(config_map(k="3"), widget(size=3)))).out
    )
    assert (await widgets.get(CONFIGMAPS, "c"))["data"] == {"k": "3"}
    assert (await widgets.get(WIDGETS, "w"))["spec"]["size"] == 3


async def test_server_side_apply_reports_a_conflict_and_forces(widgets: Api, kubectl: Kubectl) -> None:
    words = ("apply", "--server-side", "-f", "-")
    await kubectl(*words, "--field-manager=one", given=as_yaml(deployment(replicas=0)))
    other = as_yaml(deployment(replicas=0, image="app:2"))
    refused = await kubectl(*words, "--field-manager=two", given=other, ok=False)
    assert 'conflict with "one": .spec.template.spec.containers[name="main"].image' in refused.err
    await kubectl(*words, "--field-manager=two", "--force-conflicts", given=other)
    dry = await kubectl(*words, "--dry-run=server", "--field-manager=three", given=as_yaml(config_map()))
    assert "serverside-applied (server dry run)" in dry.out
    assert not await widgets.exists(CONFIGMAPS, "c")


async def test_refusals_read_as_they_should(kubectl: Kubectl) -> None:
    bad = await kubectl("apply", "-f", "-", given=as_yaml(widget(scaling={"min": 5})), ok=False)
    assert 'The Widget "w" is invalid: spec: Invalid value: min must not pass max' in bad.err
    typo = await kubectl("apply", "-f", "-", given=as_yaml(widget(colour="red")), ok=False)
    assert 'strict decoding error: unknown field "spec.colour"' in typo.err
    missing = await kubectl("get", "configmap", "none", ok=False)
    assert missing.err.strip() == 'Error from server (NotFound): configmaps "none" not found'
    unknown = await kubectl("get", "nonsense", ok=False)
    assert 'the server doesn\'t have a resource type "nonsense"' in unknown.err


async def test_get_shows_tables_json_and_selections(widgets: Api, kubectl: Kubectl) -> None:
    await widgets.create(WIDGETS, widget())
    await widgets.create(CONFIGMAPS, config_map(metadata={"labels": {"a": "b"}}, k="1"))
    rows = (await kubectl("get", "wg", "-o", "wide")).out.splitlines()
    assert rows[0].split() == ["NAME", "PHASE", "SIZE", "READY", "AGE"]
    assert rows[1].split()[0] == "w"
    rows = (await kubectl("get", "cm", "-l", "a=b")).out.splitlines()
    assert [row.split()[:2] for row in rows] == [["NAME", "DATA"], ["c", "1"]]
    found = json.loads((await kubectl("get", "cm/c", "widget/w", "-o", "json")).out)
    assert [item["kind"] for item in found["items"]] == ["ConfigMap", "Widget"]


async def test_patches_of_every_type_and_scale(widgets: Api, kubectl: Kubectl) -> None:
    await widgets.create(DEPLOYMENTS, deployment(replicas=0))
    containers: Any = {"spec": {"template": {"spec": {"containers": [{"name": "main", "image": "app:2"}]}}}}
    await kubectl("patch", "deployment", "d", "-p", json.dumps(containers))
    await kubectl("patch", "deployment", "d", "--type=merge", "-p", '{"metadata": {"labels": {"a": "b"}}}')
    operation = [{"op": "replace", "path": "/spec/minReadySeconds", "value": 3}]
    await kubectl("patch", "deployment", "d", "--type=json", "-p", json.dumps(operation))
    await kubectl("scale", "deployment/d", "--replicas=2", "--current-replicas=0")
    found = await widgets.get(DEPLOYMENTS, "d")
    container = found["spec"]["template"]["spec"]["containers"][0]
    assert (container["image"], container["env"]) == ("app:2", [{"name": "A", "value": "1"}])
    assert (found["spec"]["replicas"], found["spec"]["minReadySeconds"]) == (2, 3)
    assert found["metadata"]["labels"] == {"a": "b"}


async def test_wait_hears_of_conditions_fields_and_deletions(widgets: Api, kubectl: Kubectl) -> None:
    await widgets.create(WIDGETS, widget())

    async def until_ready() -> None:
        conditions = [{"type": "Ready", "status": "True"}]
        await asyncio.sleep(0)
        await widgets.patch(
            WIDGETS, "w", {"status": {"phase": "P", "conditions": conditions}}, subresource="status"
        )

    waited, _ = await asyncio.gather(
        kubectl("wait", "--for=condition=Ready", "widget/w", "--timeout=60s"), until_ready()
    )
    assert "condition met" in waited.out
    await kubectl("wait", "--for=jsonpath={.status.phase}=P", "widget/w", "--timeout=60s")
    gone, _ = await asyncio.gather(
        kubectl("wait", "--for=delete", "widget/w", "--timeout=60s", ok=True),
        kubectl("delete", "widget", "w"),
    )
    assert gone.code == 0


async def test_delete_ends_what_it_names_and_says_so(widgets: Api, kubectl: Kubectl) -> None:
    await widgets.create(CONFIGMAPS, config_map("a", metadata={"labels": {"x": "1"}}))
    await widgets.create(CONFIGMAPS, config_map("b", metadata={"labels": {"x": "1"}}))
    said = (await kubectl("delete", "cm", "-l", "x=1")).out
    assert 'configmap "a" deleted' in said
    assert 'configmap "b" deleted' in said
    assert "NotFound" in (await kubectl("delete", "cm", "a", ok=False)).err
    assert (await kubectl("delete", "cm", "a", "--ignore-not-found")).out == ""


async def test_discovery_explain_and_rights(kubectl: Kubectl) -> None:
    listed = (await kubectl("api-resources", "--api-group=example.test")).out.splitlines()
    assert listed[1].split() == ["widgets", "wg", "example.test/v1", "true", "Widget"]
    assert "example.test/v1" in (await kubectl("api-versions")).out.split()
    explained = (await kubectl("explain", "widget.spec.scaling")).out
    assert "FIELD: scaling <Object>" in explained
    assert "min" in explained
    assert (await kubectl("auth", "can-i", "create", "deployments")).out.strip() == "yes"
    assert "serverVersion" in (await kubectl("version", "-o", "json")).out


async def test_create_label_annotate_and_describe(widgets: Api, kubectl: Kubectl) -> None:
    await kubectl("create", "configmap", "c", "--from-literal=k=1")
    await kubectl("label", "configmap", "c", "a=b")
    await kubectl("annotate", "configmap", "c", "note=hello")
    found = (await widgets.get(CONFIGMAPS, "c"))["metadata"]
    assert (found["labels"], found["annotations"]) == ({"a": "b"}, {"note": "hello"})
    described = (await kubectl("describe", "configmap", "c")).out
    assert "a=b" in described
