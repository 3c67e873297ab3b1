"""The HTTP contract: codes and reasons, representations, discovery, pages, bodies, logs."""

from __future__ import annotations

import stat
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from noctaya.local.apiserver import ApiServer, LogRequest
from noctaya.local.apiserver.handlers import HttpLimits
from noctaya.local.errors import PortInUse
from tests.local.apiserver.conftest import Http
from tests.local.apiserver.manifests import Object, config_map, deployment, pod, widget, widgets_definition

MAPS = "/api/v1/namespaces/default/configmaps"
DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"
MERGE = "application/merge-patch+json"
APPLY = "application/apply-patch+yaml"
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"


async def test_an_object_lives_through_create_get_replace_patch_and_delete(http: Http) -> None:
    code, made = await http.call("POST", MAPS, config_map(k="1"))
    assert (code, made["data"]) == (201, {"k": "1"})
    code, same = await http.call("GET", f"{MAPS}/c")
    assert (code, same) == (200, made)
    code, replaced = await http.call("PUT", f"{MAPS}/c", {**made, "data": {"k": "2"}})
    assert (code, replaced["data"]) == (200, {"k": "2"})
    code, stale = await http.call("PUT", f"{MAPS}/c", {**made, "data": {"k": "3"}})
    assert (code, stale["reason"]) == (409, "Conflict")
    code, patched = await http.call("PATCH", f"{MAPS}/c", {"data": {"k": None, "l": "4"}}, content_type=MERGE)
    assert (code, patched["data"]) == (200, {"l": "4"})
    code, gone = await http.call("DELETE", f"{MAPS}/c")
    assert (code, gone["status"], gone["details"]["uid"]) == (200, "Success", made["metadata"]["uid"])
    code, missing = await http.call("GET", f"{MAPS}/c")
    assert (code, missing["reason"], missing["message"]) == (404, "NotFound", 'configmaps "c" not found')


async def test_refusals_carry_the_code_and_reason_that_clients_look_at(http: Http) -> None:
    async def refused(method: str, path: str, body: Any = None, **more: Any) -> tuple[int, str]:
        code, answer = await http.call(method, path, body, **more)
        assert (answer["kind"], answer["status"], answer["code"]) == ("Status", "Failure", code)
        return code, answer["reason"]

    await http.call("POST", MAPS, config_map())
    assert await refused("POST", MAPS, config_map()) == (409, "AlreadyExists")
    assert await http.call("GET", "/apis/nope.test/v1/things") == (404, "404 page not found\n")
    assert await refused("GET", f"{MAPS}/c/status") == (404, "NotFound")
    assert await refused("POST", f"{MAPS}/c", config_map()) == (405, "MethodNotAllowed")
    assert await refused("POST", "/api/v1/configmaps", config_map()) == (405, "MethodNotAllowed")
    assert await refused("GET", MAPS, Accept="application/vnd.kubernetes.protobuf") == (406, "NotAcceptable")
    assert await refused("POST", MAPS, b"x", content_type="text/plain") == (415, "UnsupportedMediaType")
    assert await refused("PATCH", f"{MAPS}/c", {}, content_type="application/json") == (
        415,
        "UnsupportedMediaType",
    )
    assert await refused("POST", MAPS, b"{not json") == (400, "BadRequest")
    assert await refused("POST", MAPS, b"[]") == (400, "BadRequest")
    assert await refused("POST", MAPS, {**config_map("d"), "kind": "Secret"}) == (400, "BadRequest")
    assert await refused("POST", MAPS, config_map("Not_A_Name")) == (422, "Invalid")
    assert await refused("GET", f"{MAPS}?labelSelector=a=b=c") == (400, "BadRequest")
    assert await refused("GET", f"{MAPS}?fieldSelector=data.k=1") == (400, "BadRequest")
    assert await refused("PATCH", f"{MAPS}/c", config_map(), content_type=APPLY) == (422, "Invalid")
    assert await refused("GET", f"{MAPS}?limit=many") == (400, "BadRequest")
    assert await refused("GET", MAPS, Authorization="Bearer wrong") == (401, "Unauthorized")


async def test_a_body_above_the_limit_is_refused() -> None:
    limits = HttpLimits(body_bytes=1000)
    async with ApiServer(limits=limits) as server, aiohttp.ClientSession() as session:
        code, answer = await Http(server, session).call("POST", MAPS, b" " * 1001)
    assert (code, answer["reason"]) == (413, "RequestEntityTooLarge")


async def test_health_and_version_need_no_token(http: Http) -> None:
    for path in ("/healthz", "/readyz", "/livez"):
        assert await http.call("GET", path, Authorization="") == (200, "ok")
    code, version = await http.call("GET", "/version", Authorization="")
    assert code == 200
    assert version["gitVersion"].startswith("v1.35.")


async def test_yaml_is_understood_and_answered(http: Http) -> None:
    body = b"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: y}\ndata: {at: 2020-01-01T00:00:00Z}\n"
    code, made = await http.call("POST", MAPS, body, content_type="application/yaml")
    assert (code, made["data"]) == (201, {"at": "2020-01-01T00:00:00Z"})
    code, shown = await http.call("GET", f"{MAPS}/y", Accept="application/yaml")
    assert code == 200
    assert "kind: ConfigMap" in shown


async def test_legacy_and_aggregated_discovery_list_the_same_resources(http: Http) -> None:
    await http.call("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", widgets_definition())
    _, groups = await http.call("GET", "/apis")
    legacy = set()
    for group in groups["groups"]:
        for version in group["versions"]:
            _, listed = await http.call("GET", f"/apis/{version['groupVersion']}")
            legacy |= {(version["groupVersion"], r["name"]) for r in listed["resources"]}
    wanted = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json"
    _, whole = await http.call("GET", "/apis", Accept=wanted)
    aggregated = set()
    for item in whole["items"]:
        for version in item["versions"]:
            name = f"{item['metadata']['name']}/{version['version']}"
            for resource in version["resources"]:
                subs = [
                    f"{resource['resource']}/{s['subresource']}" for s in resource.get("subresources", [])
                ]
                aggregated |= {(name, one) for one in [resource["resource"], *subs]}
    assert aggregated == legacy
    assert ("example.test/v1", "widgets/scale") in legacy


async def test_a_list_comes_in_pages_of_one_moment(server: ApiServer, http: Http) -> None:
    for number in range(5):
        await http.call("POST", MAPS, config_map(f"c{number}"))
    _, first = await http.call("GET", f"{MAPS}?limit=2")
    assert first["metadata"]["remainingItemCount"] == 3
    await http.call("DELETE", f"{MAPS}/c3")
    names = [item["metadata"]["name"] for item in first["items"]]
    token = first["metadata"]["continue"]
    while token:
        _, page = await http.call("GET", f"{MAPS}?limit=2&continue={token}")
        names += [item["metadata"]["name"] for item in page["items"]]
        assert page["metadata"]["resourceVersion"] == first["metadata"]["resourceVersion"]
        token = page["metadata"].get("continue")
    assert names == [f"c{number}" for number in range(5)]
    _, again = await http.call("GET", f"{MAPS}?limit=2&continue={first['metadata']['continue']}")
    assert [item["metadata"]["name"] for item in again["items"]] == ["c2", "c3"]
    server.storage.compact()
    code, answer = await http.call("GET", f"{MAPS}?limit=2&continue={first['metadata']['continue']}")
    assert (code, answer["reason"]) == (410, "Expired")


async def test_selectors_choose_by_labels_and_fields(http: Http) -> None:
    for name, labels in (("a", {"app": "x", "tier": "1"}), ("b", {"app": "y"}), ("c", {})):
        body = config_map(name)
        body["metadata"]["labels"] = labels
        await http.call("POST", MAPS, body)

    async def names(query: str) -> list[str]:
        _, listed = await http.call("GET", f"{MAPS}?{query}")
        return [item["metadata"]["name"] for item in listed["items"]]

    assert await names("labelSelector=app%3Dx") == ["a"]
    assert await names("labelSelector=app%20in%20(x,y),!tier") == ["b"]
    assert await names("labelSelector=app%20notin%20(x)") == ["b", "c"]
    assert await names("labelSelector=app!%3Dy,tier") == ["a"]
    assert await names("fieldSelector=metadata.name%3Db") == ["b"]
    assert await names("fieldSelector=metadata.name!%3Db,metadata.namespace%3Ddefault") == ["a", "c"]


async def test_a_table_has_kubectls_columns_and_the_objects_metadata(http: Http) -> None:
    await http.call("POST", "/api/v1/namespaces/default/pods", pod())
    _, table = await http.call("GET", "/api/v1/namespaces/default/pods", Accept=TABLE)
    columns = [column["name"] for column in table["columnDefinitions"] if column["priority"] == 0]
    assert columns == ["Name", "Ready", "Status", "Restarts", "Age"]
    assert table["rows"][0]["cells"][:4] == ["p", "0/1", "Pending", "0"]
    assert table["rows"][0]["object"]["kind"] == "PartialObjectMetadata"
    _, whole = await http.call("GET", "/api/v1/namespaces/default/pods?includeObject=Object", Accept=TABLE)
    assert whole["rows"][0]["object"]["kind"] == "Pod"


async def test_deletecollection_deletes_what_is_selected(http: Http) -> None:
    for name in ("a", "b"):
        await http.call("POST", MAPS, config_map(name))
    code, _ = await http.call("DELETE", f"{MAPS}?fieldSelector=metadata.name%3Da")
    _, left = await http.call("GET", MAPS)
    assert code == 200
    assert [item["metadata"]["name"] for item in left["items"]] == ["b"]


async def test_the_scale_subresource_reads_and_writes_replicas(http: Http) -> None:
    await http.call("POST", DEPLOYMENTS, deployment(replicas=0))
    _, scale = await http.call("GET", f"{DEPLOYMENTS}/d/scale")
    assert (scale["kind"], scale["spec"], scale["status"]["selector"]) == ("Scale", {}, "app=d")
    headers = {"User-Agent": "keda/v2.20.2"}
    code, scaled = await http.call(
        "PUT", f"{DEPLOYMENTS}/d/scale", {**scale, "spec": {"replicas": 1}}, **headers
    )
    assert (code, scaled["spec"]) == (200, {"replicas": 1})
    code, _ = await http.call("PUT", f"{DEPLOYMENTS}/d/scale", {**scale, "spec": {"replicas": 2}}, **headers)
    assert code == 409
    code, scaled = await http.call(
        "PATCH", f"{DEPLOYMENTS}/d/scale", {"spec": {"replicas": 4}}, content_type=MERGE, **headers
    )
    assert (code, scaled["spec"]) == (200, {"replicas": 4})
    _, found = await http.call("GET", f"{DEPLOYMENTS}/d")
    assert (found["spec"]["replicas"], found["metadata"]["generation"]) == (4, 3)
    assert [entry["manager"] for entry in found["metadata"]["managedFields"] if entry.get("subresource")] == [
        "keda"
    ]
    code, answer = await http.call(
        "PATCH", f"{DEPLOYMENTS}/d/scale", {"spec": {"replicas": -1}}, content_type=MERGE, **headers
    )
    assert (code, answer["reason"]) == (422, "Invalid")


async def test_a_dry_run_answers_as_if_and_stores_nothing(http: Http) -> None:
    code, made = await http.call("POST", f"{MAPS}?dryRun=All", config_map(k="1"))
    assert (code, made["data"]) == (201, {"k": "1"})
    assert (await http.call("GET", f"{MAPS}/c"))[0] == 404


async def test_unknown_fields_of_custom_resources_are_warned_about_in_a_header(
    server: ApiServer, http: Http
) -> None:
    await http.call("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", widgets_definition())
    url = f"{server.url}/apis/example.test/v1/namespaces/default/widgets"
    token = server.client_config().token
    headers = {"Authorization": f"Bearer {token}"}
    async with http.session.post(url, json=widget(nonsense=1), headers=headers, ssl=http.tls) as response:
        assert response.status == 201
        assert response.headers.getall("Warning") == ['299 - "unknown field \\"spec.nonsense\\""']


async def test_both_event_apis_show_the_same_events(http: Http) -> None:
    event: Object = {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {"name": "e", "namespace": "default"},
        "eventTime": "2026-01-01T00:00:00.000000Z",
        "reportingController": "noctaya",
        "reportingInstance": "w0",
        "action": "Waking",
        "reason": "Woken",
        "type": "Normal",
        "note": "woken by a request",
        "regarding": {"kind": "Pod", "name": "p", "namespace": "default"},
    }
    code, made = await http.call("POST", "/apis/events.k8s.io/v1/namespaces/default/events", event)
    assert (code, made["note"]) == (201, "woken by a request")
    query = "fieldSelector=involvedObject.name%3Dp,involvedObject.kind%3DPod"
    _, listed = await http.call("GET", f"/api/v1/namespaces/default/events?{query}")
    (core,) = listed["items"]
    assert (core["message"], core["involvedObject"]["name"], core["apiVersion"]) == (
        "woken by a request",
        "p",
        "v1",
    )


class Recorded:
    """A log source with three lines."""

    def __init__(self) -> None:
        self.asked: list[LogRequest] = []

    async def read(self, pod: Object, request: LogRequest) -> AsyncIterator[bytes]:
        self.asked.append(request)
        for line in (b"one\n", b"two\n", pod["metadata"]["name"].encode() + b"\n"):
            yield line


async def test_logs_come_from_the_log_source(server: ApiServer, http: Http) -> None:
    path = "/api/v1/namespaces/default/pods/p/log"
    await http.call("POST", "/api/v1/namespaces/default/pods", pod())
    assert (await http.call("GET", path))[0] == 503
    source = Recorded()
    server.set_log_source(source)
    assert await http.call("GET", f"{path}?follow=true&tailLines=5&previous=true") == (200, "one\ntwo\np\n")
    assert source.asked == [LogRequest("main", follow=True, previous=True, tail_lines=5)]
    assert await http.call("GET", f"{path}?limitBytes=6") == (200, "one\ntw")
    code, answer = await http.call("GET", f"{path}?container=other")
    assert (code, answer["message"]) == (400, "container other is not valid for pod p")


async def test_openapi_says_that_the_server_validates_fields(http: Http) -> None:
    _, index = await http.call("GET", "/openapi/v3")
    _, document = await http.call("GET", index["paths"]["apis/apps/v1"]["serverRelativeURL"])
    patch = document["paths"]["/apis/apps/v1/namespaces/{namespace}/deployments/{name}"]["patch"]
    assert "fieldValidation" in [parameter["name"] for parameter in patch["parameters"]]


async def test_a_taken_port_is_named(server: ApiServer) -> None:
    port = int(server.url.rsplit(":", 1)[1])
    other = ApiServer(port=port)
    try:
        with pytest.raises(PortInUse, match=str(port)):
            await other.start()
    finally:
        await other.stop()


async def test_secrets_on_disk_are_for_their_owner_only(server: ApiServer, tmp_path: Path) -> None:
    config = server.kubeconfig(tmp_path / "kubeconfig")
    private = [config, *server.client_config().ca_path.parent.iterdir()]
    assert {stat.S_IMODE(path.stat().st_mode) for path in private} == {0o600}


async def test_state_token_and_certificates_survive_a_restart(tmp_path: Path) -> None:
    async with ApiServer(tmp_path) as first:
        made = first.cluster.kind("ConfigMap")
        created = first.storage.put(made.storage, "default", "c", config_map(k="1"))
        before = first.client_config()
        revision = first.storage.revision
    async with ApiServer(tmp_path) as second:
        assert second.client_config().token == before.token
        assert second.storage.get("/configmaps", "default", "c") == created
        assert second.storage.revision == revision


async def test_a_body_that_is_nested_beyond_reason_is_the_clients_mistake(
    http: Http, caplog: pytest.LogCaptureFixture
) -> None:
    for depth in (300, 5000):
        nested = b'{"a":' * depth + b"1" + b"}" * depth
        body = b'{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"deep"},"data":' + nested + b"}"
        code, answer = await http.call("POST", MAPS, body)
        assert code in (400, 422), (depth, answer)
    assert "internal error" not in caplog.text


@pytest.mark.parametrize("subresource", ["exec", "attach", "portforward", "proxy"])
async def test_a_connection_into_a_pod_is_refused_with_the_way_around(http: Http, subresource: str) -> None:
    code, answer = await http.call("POST", f"/api/v1/namespaces/default/pods/p/{subresource}")
    assert code == 501
    assert "kubectl get pods -o wide" in answer["message"]
