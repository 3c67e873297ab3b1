"""What a call sends, what it returns, and what it raises when the answer is not the usual one."""

from __future__ import annotations

import asyncio

import msgspec
import pytest
from aiohttp import web

from noctaya.kube.client import Client, PatchType, Propagation
from noctaya.kube.config import StaticToken, TokenFile
from noctaya.kube.errors import (
    AlreadyExists,
    BadRequest,
    Conflict,
    Forbidden,
    Gone,
    Invalid,
    KindNotServed,
    NotFound,
    TooManyRequests,
    Unauthorized,
    Unavailable,
    Undecodable,
)
from noctaya.kube.objects import ConfigMap, Metadata, Pod
from noctaya.kube.resources import CONFIGMAPS, DEPLOYMENTS, NODES, PODS, SCALEDOBJECTS
from tests.kube.conftest import Until
from tests.kube.fake_server import FakeServer, drop, hang, html_502, is_list, status, too_many


async def test_get_decodes_into_a_dict_or_into_a_type(server: FakeServer, client: Client) -> None:
    server.put("pods", "a", status={"phase": "Running", "podIP": "10.0.0.7"})
    assert (await client.get(PODS, "models", "a"))["status"]["phase"] == "Running"
    pod = await client.get(PODS, "models", "a", Pod)
    assert (pod.name, pod.status.pod_ip) == ("a", "10.0.0.7")


async def test_a_list_reads_every_page(server: FakeServer, client: Client) -> None:
    for number in range(23):
        server.put("pods", f"pod-{number}")
    found = await client.list(PODS, into=Pod, page_size=10, label_selector="app=x")
    assert len({pod.name for pod in found.items}) == 23
    assert found.resource_version == str(server.version)
    assert [one.query.get("continue") for one in server.seen] == [None, "10", "20"]
    assert all(one.query["labelSelector"] == "app=x" and one.query["limit"] == "10" for one in server.seen)


async def test_an_empty_list_may_say_null(server: FakeServer, client: Client) -> None:
    async def null(_: web.Request) -> web.Response:
        return web.json_response({"metadata": {"resourceVersion": "5"}, "items": None})

    server.next(null)
    assert (await client.list(PODS)).items == []


async def test_create_fills_in_kind_and_apiversion(server: FakeServer, client: Client) -> None:
    made = await client.create(
        CONFIGMAPS,
        "models",
        ConfigMap(metadata=Metadata(name="c"), data={"k": "v"}),
        into=ConfigMap,
        dry_run=True,
    )
    assert made.data == {"k": "v"}
    sent = server.seen[-1]
    assert sent.json == {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "c"},
        "data": {"k": "v"},
    }
    assert sent.query == {"dryRun": "All"}
    with pytest.raises(AlreadyExists, match=r"create configmaps models/c"):
        await client.create(CONFIGMAPS, "models", {"metadata": {"name": "c"}})


async def test_a_replace_of_an_older_version_is_a_conflict(server: FakeServer, client: Client) -> None:
    old = server.put("configmaps", "c", data={"k": "1"})
    server.put("configmaps", "c", data={"k": "2"})
    with pytest.raises(Conflict, match="update configmaps models/c"):
        await client.replace(CONFIGMAPS, "models", "c", old)


async def test_a_merge_patch_says_so_and_can_delete_a_field(server: FakeServer, client: Client) -> None:
    server.put("deployments", "d", spec={})
    await client.patch(DEPLOYMENTS, "models", "d", {"spec": {"paused": None}}, subresource="status")
    sent = server.seen[-1]
    assert sent.path.endswith("/deployments/d/status")
    assert sent.headers["Content-Type"] == "application/merge-patch+json"
    assert sent.body == b'{"spec":{"paused":null}}'


async def test_every_patch_type_has_its_content_type(server: FakeServer, client: Client) -> None:
    server.put("deployments", "d", spec={})
    operations = [{"op": "remove", "path": "/spec/paused"}]

    async def accept(_: web.Request) -> web.Response:
        return web.json_response({})

    server.next(accept)
    await client.patch(DEPLOYMENTS, "models", "d", operations, PatchType.JSON)
    assert server.seen[-1].headers["Content-Type"] == "application/json-patch+json"
    assert server.seen[-1].json == operations
    await client.patch(DEPLOYMENTS, "models", "d", {}, PatchType.STRATEGIC)
    assert server.seen[-1].headers["Content-Type"] == "application/strategic-merge-patch+json"
    with pytest.raises(ValueError, match="its own method"):
        await client.patch(DEPLOYMENTS, "models", "d", {}, PatchType.APPLY)


async def test_apply_names_its_manager_and_forces_only_when_told(server: FakeServer, client: Client) -> None:
    server.put("deployments", "d", spec={})
    await client.apply(DEPLOYMENTS, "models", "d", {"spec": {"replicas": 1}}, field_manager="noctaya")
    first = server.seen[-1]
    assert first.headers["Content-Type"] == "application/apply-patch+yaml"
    assert first.query == {"fieldManager": "noctaya"}
    assert first.json == {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "d"},
        "spec": {"replicas": 1},
    }
    await client.apply(
        DEPLOYMENTS, "models", "d", {"metadata": {"uid": "u"}}, field_manager="noctaya", force=True
    )
    assert server.seen[-1].query == {"fieldManager": "noctaya", "force": "true"}
    assert server.seen[-1].json["metadata"] == {"name": "d", "uid": "u"}


async def test_a_delete_can_be_limited_to_one_uid(server: FakeServer, client: Client) -> None:
    uid = server.put("pods", "a")["metadata"]["uid"]
    with pytest.raises(Conflict):
        await client.delete(PODS, "models", "a", uid="another")
    await client.delete(
        PODS, "models", "a", uid=uid, propagation=Propagation.FOREGROUND, grace_period_seconds=0
    )
    sent = server.seen[-1].json
    assert (sent["propagationPolicy"], sent["gracePeriodSeconds"], sent["preconditions"]) == (
        "Foreground",
        0,
        {"uid": uid},
    )
    with pytest.raises(NotFound):
        await client.delete(PODS, "models", "a")


async def test_a_missing_kind_is_not_a_missing_object(server: FakeServer, client: Client) -> None:
    with pytest.raises(NotFound, match='get pods models/nobody: HTTP 404 NotFound: pods "nobody" not found'):
        await client.get(PODS, "models", "nobody")
    server.unserved.add("scaledobjects")
    with pytest.raises(KindNotServed, match=r"scaledobjects\.keda\.sh models/x.*is its CRD installed"):
        await client.get(SCALEDOBJECTS, "models", "x")


async def test_an_html_page_becomes_unavailable_with_a_short_message(
    server: FakeServer, client: Client
) -> None:
    server.next(html_502)
    with pytest.raises(Unavailable, match="502 Bad Gateway") as caught:
        await client.get(PODS, "models", "a")
    assert len(str(caught.value)) < 500
    assert caught.value.status == 502


async def test_a_429_carries_its_retry_after(server: FakeServer, client: Client) -> None:
    server.next(too_many(7))
    with pytest.raises(TooManyRequests) as caught:
        await client.list(PODS)
    assert caught.value.retry_after_seconds == 7


async def test_an_answer_that_never_comes_ends_at_the_deadline(server: FakeServer, client: Client) -> None:
    server.next(hang)
    with pytest.raises(Unavailable, match=r"within 0\.05 s"):
        await client.get(PODS, "models", "a", timeout_seconds=0.05)


async def test_a_body_that_stops_halfway_ends_at_the_deadline(server: FakeServer, client: Client) -> None:
    async def half(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Length": "1000"})
        await response.prepare(request)
        await response.write(b'{"metadata":')
        await asyncio.Event().wait()
        return response

    server.next(half)
    with pytest.raises(Unavailable, match="no complete answer"):
        await client.get(PODS, "models", "a", timeout_seconds=0.05)


async def test_a_dropped_connection_is_unavailable(server: FakeServer, client: Client) -> None:
    for _ in range(3):  # aiohttp itself tries a GET again when a reused connection breaks
        server.next(drop)
    with pytest.raises(Unavailable, match="connection failed"):
        await client.get(PODS, "models", "a")


async def test_a_port_where_nobody_listens_is_unavailable(server: FakeServer) -> None:
    config = server.config()
    await server.__aexit__()
    async with Client(config) as client:
        with pytest.raises(Unavailable, match="connection failed"):
            await client.version()


async def test_an_answer_that_is_not_json_is_named(server: FakeServer, client: Client) -> None:
    async def login_page(_: web.Request) -> web.Response:
        return web.Response(text="<html>please log in</html>")

    server.next(login_page)
    with pytest.raises(Undecodable, match="get pods models/a"):
        await client.get(PODS, "models", "a")


async def test_a_redirect_is_not_followed(server: FakeServer, client: Client) -> None:
    async def elsewhere(_: web.Request) -> web.Response:
        return web.Response(status=302, headers={"Location": "http://127.0.0.1:1/"})

    server.next(elsewhere)
    with pytest.raises(Unavailable, match="302"):
        await client.get(PODS, "models", "a")


async def test_an_invalid_object_names_its_fields(server: FakeServer, client: Client) -> None:
    async def invalid(_: web.Request) -> web.Response:
        causes = [
            {"reason": "FieldValueInvalid", "field": "spec.scaling.min", "message": "Invalid value: -1"}
        ]
        return status(422, "Invalid", "is invalid", name="x", causes=causes)

    server.next(invalid)
    with pytest.raises(Invalid, match=r"spec\.scaling.min: Invalid value: -1") as caught:
        await client.create(CONFIGMAPS, "models", {"metadata": {"name": "x"}})
    assert caught.value.causes[0].field == "spec.scaling.min"


async def test_a_refusal_by_rbac_names_verb_and_resource(server: FakeServer, client: Client) -> None:
    async def forbidden(_: web.Request) -> web.Response:
        return status(
            403, "Forbidden", 'nodes is forbidden: User "w" cannot list resource "nodes" in API group ""'
        )

    server.next(forbidden)
    with pytest.raises(Forbidden, match="not allowed to list nodes"):
        await client.list(NODES)


@pytest.mark.parametrize(
    ("code", "reason", "expected"),
    [
        (400, "BadRequest", BadRequest),
        (410, "Expired", Gone),
        (413, "RequestEntityTooLarge", BadRequest),
        (500, "InternalError", Unavailable),
        (503, "ServiceUnavailable", Unavailable),
        (504, "Timeout", Unavailable),
        (504, "", Unavailable),
        (418, "", BadRequest),
        (401, "", Unauthorized),
    ],
)
async def test_each_status_has_its_error(
    server: FakeServer, client: Client, code: int, reason: str, expected: type[Exception]
) -> None:
    async def answer(_: web.Request) -> web.Response:
        return status(code, reason, "because")

    server.next(answer)
    with pytest.raises(expected) as caught:
        await client.list(PODS)
    assert type(caught.value) is expected


async def test_a_version_from_the_future_is_gone_not_unavailable(server: FakeServer, client: Client) -> None:
    async def too_large(_: web.Request) -> web.Response:
        return status(
            504, "Timeout", "Too large resource version", causes=[{"reason": "ResourceVersionTooLarge"}]
        )

    server.next(too_large)
    with pytest.raises(Gone):
        await client.list(PODS)


async def test_every_request_says_who_asks_and_wants_no_compression(
    server: FakeServer, client: Client
) -> None:
    assert (await client.version())["gitVersion"] == "v1.35.0"
    headers = server.seen[-1].headers
    assert (headers["User-Agent"], headers["Accept-Encoding"]) == ("noctaya-test", "identity")
    assert "Authorization" not in headers


async def test_proxies_and_netrc_of_the_environment_are_ignored(
    server: FakeServer, monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    netrc = tmp_path_factory.mktemp("home") / ".netrc"
    netrc.write_text("machine 127.0.0.1 login a password b\n")
    monkeypatch.setenv("NETRC", str(netrc))
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    async with Client(server.config(token=StaticToken("t"))) as client:
        await client.version()
    assert server.seen[-1].headers["Authorization"] == "Bearer t"


async def test_a_401_reads_the_token_file_again_once(
    server: FakeServer, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.mktemp("sa") / "token"
    path.write_text("old\n")

    async def rotated(_: web.Request) -> web.Response:
        path.write_text("new\n")
        return status(401, "Unauthorized", "Unauthorized")

    async with Client(server.config(token=TokenFile(path))) as client:
        server.next(rotated)
        await client.version()
        assert [one.headers["Authorization"] for one in server.seen] == ["Bearer old", "Bearer new"]
        server.next(rotated)  # this time the file stays as it is: a second attempt would be refused as well
        with pytest.raises(Unauthorized):
            await client.version()
        assert len(server.seen) == 3


async def test_a_missing_token_file_is_reported_as_refused_credentials(
    server: FakeServer, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.mktemp("sa") / "token"
    async with Client(server.config(token=TokenFile(path))) as client:
        with pytest.raises(Unauthorized, match="cannot read the token file"):
            await client.version()


async def test_a_cancelled_call_stays_cancelled(server: FakeServer, client: Client, until: Until) -> None:
    server.next(hang, is_list)
    async with asyncio.TaskGroup() as tasks:
        task = tasks.create_task(client.list(PODS))
        await until(lambda: bool(server.seen))
        task.cancel()
    assert task.cancelled()


async def test_raw_returns_bytes(server: FakeServer, client: Client) -> None:
    assert msgspec.json.decode(await client.raw("GET", "/version")) == {"gitVersion": "v1.35.0"}


async def test_a_client_that_is_not_open_says_so(server: FakeServer) -> None:
    with pytest.raises(RuntimeError, match="not open"):
        await Client(server.config()).version()
