"""Representations and refusals: what an answer looks like, whichever kind it is about."""

from __future__ import annotations

from typing import Any

import pytest

from noctaya.kube.resources import CONFIGMAPS, DEPLOYMENTS, PODS, SECRETS, SERVICES
from tests.conformance.client import MERGE, Api, Object
from tests.conformance.definitions import WIDGETS, widget
from tests.conformance.differences import differs
from tests.conformance.objects import config_map, deployment

TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
PARTIAL = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io"
PARTIALS = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"
NO_METHOD = "the server does not allow this method on the requested resource"
NO_RESOURCE = "the server could not find the requested resource"


async def test_an_object_is_created_with_what_the_server_decides(api: Api) -> None:
    body = config_map(metadata={"uid": "mine", "resourceVersion": "", "creationTimestamp": None}, k="1")
    answer = await api.call("POST", api.path(CONFIGMAPS), body)
    assert answer.code == 201
    metadata = answer.body["metadata"]
    assert metadata["uid"] != "mine"
    assert (metadata["name"], metadata["namespace"]) == ("c", api.namespace)
    assert metadata["creationTimestamp"].endswith("Z")
    assert int(metadata["resourceVersion"]) > 0


async def test_a_name_may_be_generated(api: Api) -> None:
    made = await api.ok("POST", api.path(CONFIGMAPS), {"metadata": {"generateName": "g-"}})
    assert made["metadata"]["name"].startswith("g-")
    assert len(made["metadata"]["name"]) == 7


async def test_a_custom_kinds_table_has_the_columns_of_its_definition(widgets: Api) -> None:
    await widgets.create(WIDGETS, widget(size=3))
    conditions = [{"type": "Ready", "status": "True"}]
    await widgets.patch(
        WIDGETS, "w", {"status": {"phase": "P", "conditions": conditions}}, subresource="status"
    )
    table = await widgets.ok("GET", widgets.path(WIDGETS), accept=TABLE)
    assert (table["kind"], table["apiVersion"]) == ("Table", "meta.k8s.io/v1")
    assert [_column(one) for one in table["columnDefinitions"]] == [
        ("Name", "string", "name", 0),
        ("Phase", "string", "", 0),
        ("Size", "integer", "", 1),
        ("Ready", "string", "", 0),
        ("Age", "date", "", 0),
    ]
    assert table["columnDefinitions"][1]["description"] == (
        "Custom resource definition column (in JSONPath format): .status.phase"
    )
    (row,) = table["rows"]
    assert row["cells"][:4] == ["w", "P", 3, "True"]
    assert (row["object"]["kind"], row["object"]["apiVersion"]) == (
        "PartialObjectMetadata",
        "meta.k8s.io/v1",
    )


@pytest.mark.parametrize(
    ("resource", "body", "columns", "cells"),
    [
        (CONFIGMAPS, config_map("x", k="1"), ["Name", "Data", "Age"], ["x", 1]),
        (
            DEPLOYMENTS,
            deployment("x", replicas=0),
            ["Name", "Ready", "Up-to-date", "Available", "Age", "Containers", "Images", "Selector"],
            ["x", "0/0", 0, 0],
        ),
        (
            PODS,
            {"metadata": {"name": "x"}, "spec": {"containers": [{"name": "a", "image": "b"}]}},
            [
                "Name",
                "Ready",
                "Status",
                "Restarts",
                "Age",
                "IP",
                "Node",
                "Nominated Node",
                "Readiness Gates",
            ],
            ["x", "0/1", "Pending", "0"],
        ),
        (
            SERVICES,
            {"metadata": {"name": "x"}, "spec": {"type": "ExternalName", "externalName": "a.b"}},
            ["Name", "Type", "Cluster-IP", "External-IP", "Port(s)", "Age", "Selector"],
            ["x", "ExternalName", "<none>", "a.b", "<none>"],
        ),
    ],
    ids=lambda value: getattr(value, "plural", None),
)
async def test_a_built_in_kinds_table_has_kubectls_columns(
    api: Api, resource: Any, body: Object, columns: list[str], cells: list[Any]
) -> None:
    await api.ok("POST", api.path(resource), body)
    table = await api.ok("GET", api.path(resource, "x"), accept=TABLE)
    assert [one["name"] for one in table["columnDefinitions"]] == columns
    assert table["rows"][0]["cells"][: len(cells)] == cells


def _column(one: Object) -> tuple[str, str, str, int]:
    return (one["name"], one["type"], one["format"], one["priority"])


async def test_metadata_alone_may_be_asked_for(api: Api) -> None:
    made = await api.create(CONFIGMAPS, config_map(k="1"))
    one = await api.ok("GET", api.path(CONFIGMAPS, "c"), accept=PARTIAL)
    assert one == {
        "kind": "PartialObjectMetadata",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": made["metadata"],
    }
    many = await api.ok("GET", api.path(CONFIGMAPS), accept=PARTIALS, query={"labelSelector": "!x"})
    assert (many["kind"], many["apiVersion"]) == ("PartialObjectMetadataList", "meta.k8s.io/v1")
    assert one in many["items"]


@pytest.mark.parametrize(
    ("method", "path", "code", "reason", "message"),
    [
        ("GET", "/api/v1/namespaces/default/things", 404, "NotFound", NO_RESOURCE),
        ("POST", "/api/v1/namespaces/default/configmaps/c", 405, "MethodNotAllowed", NO_METHOD),
        ("POST", "/api/v1/configmaps", 405, "MethodNotAllowed", NO_METHOD),
    ],
)
async def test_paths_and_methods_that_are_not_served(
    api: Api, method: str, path: str, code: int, reason: str, message: str
) -> None:
    refused = await api.refused(method, path, config_map() if method == "POST" else None)
    assert (refused.code, refused.reason, refused.message) == (code, reason, message)
    assert refused.details == {}


async def test_a_group_that_is_not_served_has_no_status(api: Api) -> None:
    answer = await api.call("GET", "/apis/nope.test/v1/things")
    assert (answer.code, answer.body) == (404, "404 page not found\n")


async def test_an_answer_that_nobody_can_give_is_not_acceptable(api: Api) -> None:
    refused = await api.refused("GET", api.path(CONFIGMAPS), accept="text/html")
    assert (refused.code, refused.reason, refused.details) == (406, "NotAcceptable", {})


async def test_a_body_of_an_unknown_format_is_refused(api: Api) -> None:
    refused = await api.refused("POST", api.path(CONFIGMAPS), b"x", content_type="text/plain")
    assert (refused.code, refused.reason) == (415, "UnsupportedMediaType")
    await api.create(CONFIGMAPS, config_map())
    refused = await api.refused("PATCH", api.path(CONFIGMAPS, "c"), {}, content_type="application/json")
    assert (refused.code, refused.message) == (415, "415: Unsupported Media Type")


@pytest.mark.parametrize("body", [b"", b"{not json", b"[]"])
async def test_a_body_that_cannot_be_read_is_a_bad_request(api: Api, body: bytes) -> None:
    refused = await api.refused("POST", api.path(CONFIGMAPS), body)
    assert (refused.code, refused.reason) == (400, "BadRequest")
    quotes_the_kind = "must be of type ConfigMap" in refused.message
    differs(api.server, "unreadable-body-words", quotes_the_kind, real=True, embedded=False)


async def test_a_body_of_another_kind_is_a_bad_request(api: Api) -> None:
    refused = await api.refused("POST", api.path(CONFIGMAPS), {**config_map(), "kind": "Secret"})
    assert (refused.code, refused.reason) == (400, "BadRequest")


@pytest.mark.parametrize(
    ("body", "code", "message"),
    [
        (
            config_map("Not_A"),
            422,
            (
                'ConfigMap "Not_A" is invalid: metadata.name: Invalid value: "Not_A": a lowercase RFC 1123 subdomain must '
                "consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric "
                "character (e.g. 'example.com', regex used for validation is "
                "'[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
            ),
        ),
        (
            {"metadata": {}},
            422,
            'ConfigMap "" is invalid: metadata.name: Required value: name or generateName is required',
        ),
        (
            config_map(metadata={"namespace": "elsewhere"}),
            400,
            "the namespace of the provided object does not match the namespace sent on the request",
        ),
        (
            config_map(metadata={"labels": {"a b": "c"}}),
            422,
            (
                'ConfigMap "c" is invalid: metadata.labels: Invalid value: "a b": name part must consist of '
                "alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. "
                "'MyName',  or 'my.name',  or '123-abc', regex used for validation is "
                "'([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
            ),
        ),
        (
            config_map(
                metadata={"ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "", "uid": "u"}]}
            ),
            422,
            'ConfigMap "c" is invalid: metadata.ownerReferences.name: Invalid value: "": must not be empty',
        ),
    ],
)
async def test_metadata_that_is_wrong_is_named(api: Api, body: Object, code: int, message: str) -> None:
    refused = await api.refused("POST", api.path(CONFIGMAPS), body)
    assert (refused.code, refused.message) == (code, message)


async def test_a_namespace_that_is_not_there_is_not_found(api: Api) -> None:
    refused = await api.refused("POST", "/api/v1/namespaces/nowhere/configmaps", config_map())
    assert (refused.code, refused.message) == (404, 'namespaces "nowhere" not found')
    assert refused.details == {"name": "nowhere", "kind": "namespaces"}


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ({"dryRun": "Some"}, 'dryRun: Unsupported value: ["Some"]: supported values: "All"'),
        (
            {"fieldValidation": "Some"},
            'fieldValidation: Unsupported value: "Some": supported values: "", "Ignore", "Strict", "Warn"',
        ),
        ({"fieldManager": "x" * 200}, "fieldManager: Too long: may not be more than 128 bytes"),
    ],
)
async def test_options_that_make_no_sense_are_invalid(api: Api, query: dict[str, str], message: str) -> None:
    refused = await api.refused("POST", api.path(CONFIGMAPS), config_map(), query=query)
    assert (refused.code, refused.reason) == (422, "Invalid")
    assert refused.message == f'CreateOptions.meta.k8s.io "" is invalid: {message}'


async def test_a_replace_is_judged_by_its_version_and_uid(api: Api) -> None:
    made = await api.create(CONFIGMAPS, config_map(k="1"))
    path = api.path(CONFIGMAPS, "c")
    await api.ok("PUT", path, {**made, "data": {"k": "2"}})
    refused = await api.refused("PUT", path, {**made, "data": {"k": "3"}})
    assert (refused.code, refused.reason) == (409, "Conflict")
    refused = await api.refused("PUT", path, config_map(metadata={"uid": "another"}))
    assert (refused.code, refused.reason) == (409, "Conflict")
    assert refused.message == (
        f'Operation cannot be fulfilled on configmaps "c": StorageError: invalid object, Code: 4, Key: '
        f"/registry/configmaps/{api.namespace}/c, ResourceVersion: 0, AdditionalErrorMsg: Precondition failed: UID in "
        f"precondition: another, UID in object meta: {made['metadata']['uid']}"
    )
    refused = await api.refused("PUT", path, config_map("other"))
    assert refused.message == "the name of the object (other) does not match the name on the URL (c)"
    assert (await api.refused("PUT", api.path(CONFIGMAPS, "none"), config_map("none"))).code == 404
    assert (await api.get(CONFIGMAPS, "c"))["data"] == {"k": "2"}


async def test_a_read_of_a_version_to_come_is_a_timeout(api: Api) -> None:
    await api.create(CONFIGMAPS, config_map())
    await api.ok("GET", api.path(CONFIGMAPS, "c"), query={"resourceVersion": "0"})
    refused = await api.refused("GET", api.path(CONFIGMAPS, "c"), query={"resourceVersion": "999999999"})
    assert (refused.code, refused.reason) == (504, "Timeout")


async def test_a_secrets_texts_are_encoded_and_must_be(api: Api) -> None:
    made = await api.ok("POST", api.path(SECRETS), {"metadata": {"name": "s"}, "stringData": {"a": "b"}})
    assert (made["data"], made["type"], "stringData" in made) == ({"a": "Yg=="}, "Opaque", False)
    refused = await api.refused("POST", api.path(SECRETS), {"metadata": {"name": "t"}, "data": {"a": "!"}})
    assert (refused.code, refused.reason) == (400, "BadRequest")
    assert refused.message.startswith(
        'Secret in version "v1" cannot be handled as a Secret: illegal base64 data'
    )


async def test_a_field_that_is_there_twice(api: Api) -> None:
    body = b'{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"twice"},"data":{"a":"1"},"data":{"b":"1"}}'
    answer = await api.call("POST", api.path(CONFIGMAPS), body, query={"fieldValidation": "Strict"})
    differs(api.server, "duplicate-fields", answer.code, real=400, embedded=201)


async def test_a_pod_has_what_its_kubelet_needs(api: Api) -> None:
    body = {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "a", "image": "b"}]}}
    made = await api.ok("POST", api.path(PODS), body)
    assert (made["spec"]["restartPolicy"], made["spec"]["terminationGracePeriodSeconds"]) == ("Always", 30)
    assert (made["status"]["phase"], made["status"]["qosClass"]) == ("Pending", "BestEffort")
    volumes = [one["name"].rpartition("-")[0] for one in made["spec"].get("volumes", [])]
    differs(api.server, "service-account-volume", volumes, real=["kube-api-access"], embedded=[])


@pytest.mark.parametrize(
    ("spec", "field", "message"),
    [
        (
            {"selector": {"matchLabels": {"app": "other"}}},
            "spec.template.metadata.labels",
            'Invalid value: {"app":"d"}: `selector` does not match template `labels`',
        ),
        ({"replicas": -1}, "spec.replicas", "Invalid value: -1: must be greater than or equal to 0"),
    ],
)
async def test_a_deployment_that_cannot_be_is_invalid(
    api: Api, spec: Object, field: str, message: str
) -> None:
    refused = await api.refused("POST", api.path(DEPLOYMENTS), deployment(**spec))
    assert (refused.code, refused.reason) == (422, "Invalid")
    assert ("FieldValueInvalid", field, message) in refused.causes


async def test_a_selector_may_not_change(api: Api) -> None:
    await api.create(DEPLOYMENTS, deployment(replicas=0))
    refused = await api.refused(
        "PATCH",
        api.path(DEPLOYMENTS, "d"),
        {"spec": {"selector": {"matchLabels": {"more": "x"}}}},
        content_type=MERGE,
    )
    assert refused.causes[-1][1:] == (
        "spec.selector",
        'Invalid value: {"matchLabels":{"app":"d","more":"x"}}: field is immutable',
    )
