"""What an operator does with kubectl, against the embedded API server. One program start costs a while, so the tests are few."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from noctaya.local.apiserver import ApiServer, LogRequest, WriteOptions
from tests.local.apiserver.conftest import Kubectl
from tests.local.apiserver.manifests import Object, config_map, deployment, pod, widget, widgets_definition

pytestmark = pytest.mark.kubectl


def as_yaml(*bodies: Object) -> str:
    return yaml.safe_dump_all(bodies)


async def test_apply_get_edit_label_and_delete(kubectl: Kubectl, tmp_path: Path) -> None:
    assert (
        "configmap/c created"
        in (await kubectl("apply", "-f", "-", given=as_yaml(config_map(k="1", l="2")))).out
    )
    assert "unchanged" in (await kubectl("apply", "-f", "-", given=as_yaml(config_map(k="1", l="2")))).out
    assert "configured" in (await kubectl("apply", "-f", "-", given=as_yaml(config_map(k="2")))).out
    editor = tmp_path / "editor.sh"
    editor.write_text('#!/bin/sh\nsed -i "s/k: \\"2\\"/k: edited/" "$1"\n')
    editor.chmod(0o700)
    assert "configmap/c edited" in (await kubectl("edit", "cm", "c", KUBE_EDITOR=str(editor))).out
    await kubectl("label", "cm", "c", "app=x")
    await kubectl("annotate", "cm", "c", "note=y")
    found = json.loads((await kubectl("get", "cm", "c", "-o", "json")).out)
    assert found["data"] == {"k": "edited"}
    assert (found["metadata"]["labels"], found["metadata"]["annotations"]["note"]) == ({"app": "x"}, "y")
    table = (await kubectl("get", "cm", "-A", "-l", "app=x")).out.splitlines()
    assert table[0].split() == ["NAMESPACE", "NAME", "DATA", "AGE"]
    assert table[1].split()[:3] == ["default", "c", "1"]
    assert 'configmap "c" deleted' in (await kubectl("delete", "cm", "c")).out
    assert "NotFound" in (await kubectl("get", "cm", "c", ok=False)).err


async def test_custom_resources_are_refused_shown_scaled_and_explained(kubectl: Kubectl) -> None:
    await kubectl("apply", "-f", "-", given=as_yaml(widgets_definition()))
    await kubectl("wait", "--for=condition=Established", "crd/widgets.example.test", "--timeout=5s")
    bad = await kubectl("apply", "-f", "-", given=as_yaml(widget(scaling={"min": 5})), ok=False)
    assert 'The Widget "w" is invalid: spec: Invalid value: min must not pass max' in bad.err
    typo = await kubectl("apply", "-f", "-", given=as_yaml(widget(colour="red")), ok=False)
    assert 'strict decoding error: unknown field "spec.colour"' in typo.err
    await kubectl("apply", "-f", "-", given=as_yaml(widget()))
    await kubectl("scale", "--replicas=3", "widget/w")
    rows = (await kubectl("get", "wg", "-o", "wide")).out.splitlines()
    assert rows[0].split() == ["NAME", "PHASE", "SIZE", "READY", "AGE"]
    assert json.loads((await kubectl("get", "widget", "w", "-o", "json")).out)["spec"]["replicas"] == 3
    assert "Kind:" in (await kubectl("describe", "widget", "w")).out
    await kubectl("delete", "crd", "widgets.example.test")


async def test_server_side_apply_reports_conflicts_and_forces(kubectl: Kubectl) -> None:
    one = as_yaml(deployment(replicas=1))
    await kubectl("apply", "--server-side", "--field-manager=one", "-f", "-", given=one)
    two = as_yaml(deployment(replicas=2))
    conflict = await kubectl("apply", "--server-side", "--field-manager=two", "-f", "-", given=two, ok=False)
    assert 'conflict with "one"' in conflict.err
    assert ".spec.replicas" in conflict.err
    forced = ("apply", "--server-side", "--force-conflicts", "--field-manager=two", "-f", "-")
    assert "serverside-applied" in (await kubectl(*forced, given=two)).out
    await kubectl("apply", "-f", "-", given=one)
    rows = (await kubectl("get", "deploy")).out.splitlines()
    assert rows[0].split() == ["NAME", "READY", "UP-TO-DATE", "AVAILABLE", "AGE"]
    assert rows[1].split()[:2] == ["d", "0/1"]


async def test_patches_of_every_type_and_scale(kubectl: Kubectl) -> None:
    await kubectl("apply", "-f", "-", given=as_yaml(deployment(replicas=1)))
    strategic: Any = {"spec": {"template": {"spec": {"containers": [{"name": "main", "image": "app:2"}]}}}}
    await kubectl("patch", "deploy", "d", "-p", json.dumps(strategic))
    await kubectl("patch", "deploy", "d", "--type=merge", "-p", '{"metadata":{"labels":{"a":"b"}}}')
    await kubectl(
        "patch",
        "deploy",
        "d",
        "--type=json",
        "-p",
        '[{"op":"replace","path":"/spec/paused","value":true}]',
        ok=False,
    )
    await kubectl(
        "patch", "deploy", "d", "--type=json", "-p", '[{"op":"add","path":"/spec/paused","value":true}]'
    )
    await kubectl("scale", "deploy/d", "--current-replicas=1", "--replicas=4")
    spec = json.loads((await kubectl("get", "deploy", "d", "-o", "json")).out)["spec"]
    (container,) = spec["template"]["spec"]["containers"]
    assert (container["image"], container["env"], spec["paused"], spec["replicas"]) == (
        "app:2", [{"name": "A", "value": "1"}], True, 4,
    )  # fmt: skip


async def test_typed_create_commands_that_speak_protobuf(kubectl: Kubectl) -> None:
    await kubectl("create", "namespace", "team")
    await kubectl("create", "configmap", "c", "--from-literal=k=v", "-n", "team")
    await kubectl("create", "secret", "generic", "keys", "--from-literal=key=s3cret", "-n", "team")
    await kubectl("create", "deployment", "d", "--image=app:1", "--replicas=0", "--port=80", "-n", "team")
    found = json.loads((await kubectl("get", "cm,secret,deploy", "-n", "team", "-o", "json")).out)["items"]
    assert [item["kind"] for item in found] == ["ConfigMap", "Secret", "Deployment"]
    assert (found[0]["data"], found[1]["data"], found[1]["type"]) == (
        {"k": "v"},
        {"key": "czNjcmV0"},
        "Opaque",
    )
    assert found[2]["spec"]["replicas"] == 0
    (container,) = found[2]["spec"]["template"]["spec"]["containers"]
    assert container["ports"] == [{"containerPort": 80, "protocol": "TCP"}]


class Lines:
    async def read(self, pod: Object, request: LogRequest) -> AsyncIterator[bytes]:
        yield f"{pod['metadata']['name']}/{request.container} previous={request.previous}\n".encode()


async def test_logs_and_a_description_with_events(server: ApiServer, kubectl: Kubectl) -> None:
    server.set_log_source(Lines())
    await kubectl("apply", "-f", "-", given=as_yaml(pod(node="node-1")))
    assert (await kubectl("logs", "p", "-c", "main", "-f")).out == "p/main previous=False\n"
    assert (await kubectl("logs", "p", "--previous", "--tail=3")).out == "p/main previous=True\n"
    found = server.storage.get("/pods", "default", "p")
    assert found is not None
    event = {
        "metadata": {"generateName": "p.", "namespace": "default"},
        "involvedObject": {"kind": "Pod", "name": "p", "namespace": "default", "uid": found["metadata"]["uid"]},
        "reason": "Pulled", "message": "image is here", "type": "Normal", "count": 1, "source": {"component": "agent"},
        "firstTimestamp": "2026-01-01T00:00:00Z", "lastTimestamp": "2026-01-01T00:00:00Z",
    }  # fmt: skip
    server.cluster.writes.create(server.cluster.kind("Event"), "default", event, WriteOptions())
    described = (await kubectl("describe", "pod", "p")).out
    assert "image is here" in described
    listed = (await kubectl("get", "events", "--sort-by=.lastTimestamp")).out
    assert "pod/p" in listed
    await kubectl("delete", "pod", "p", "--grace-period=0", "--force")


async def test_get_watch_prints_changes_as_they_come(server: ApiServer, kubectl: Kubectl) -> None:
    maps = server.cluster.kind("ConfigMap")
    async with asyncio.TaskGroup() as group:
        watching = group.create_task(kubectl("get", "cm", "-w", "--request-timeout=2s", ok=False))
        async with asyncio.timeout(10):
            while not server.storage.is_watched(maps.storage):  # noqa: ASYNC110 - a condition of another process
                await asyncio.sleep(0.01)
        server.cluster.writes.create(maps, "default", config_map(k="1"), WriteOptions())
    rows = [line.split() for line in watching.result().out.splitlines()]
    assert rows[0] == ["NAME", "DATA", "AGE"]
    assert rows[1][:2] == ["c", "1"]


async def test_api_resources_lists_what_is_served(kubectl: Kubectl) -> None:
    listed = {line.split()[0] for line in (await kubectl("api-resources", "--no-headers")).out.splitlines()}
    assert {
        "pods",
        "deployments",
        "leases",
        "horizontalpodautoscalers",
        "customresourcedefinitions",
    } <= listed
