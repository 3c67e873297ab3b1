"""Overlays applied to the embedded API server: everything is accepted, and a second time nothing changes.

Kinds that it does not serve are left out, each with a skipped test that says so; a real API server gets them all.
"""

import pytest
import yaml

from noctaya.local.apiserver import ApiServer
from tests.deploy.conftest import Kubectl
from tests.deploy.manifests import KUSTOMIZE, OVERLAYS, Object, built, overlay

pytestmark = pytest.mark.kubectl

NOT_SERVED = {"FlowSchema", "ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"}


def is_served(server: ApiServer, found: Object) -> bool:
    try:
        server.cluster.kind(found["kind"], found["apiVersion"])
    except KeyError:
        return False
    return True


def served(server: ApiServer, objects: list[Object]) -> list[Object]:
    """Those of a kind that the server has."""
    return [found for found in objects if is_served(server, found)]


def versions(server: ApiServer, objects: list[Object]) -> dict[tuple[str, str], str]:
    return {
        (found["kind"], found["metadata"]["name"]): server.cluster.get(
            server.cluster.kind(found["kind"], found["apiVersion"]),
            found["metadata"].get("namespace", ""),
            found["metadata"]["name"],
        )["metadata"]["resourceVersion"]
        for found in objects
    }


@pytest.mark.parametrize("kind", sorted({"Deployment", "Service", "ClusterRole", *NOT_SERVED}))
async def test_a_kind_is_applied_here(server: ApiServer, kind: str) -> None:
    found = next(found for found in overlay("default") if found["kind"] == kind)
    if kind in NOT_SERVED and not is_served(server, found):
        pytest.skip(
            f"{found['apiVersion']} {kind} is not served by the embedded API server: its objects are left out"
        )
    assert is_served(server, found)
    assert kind not in NOT_SERVED, "it is served by now: take it out of the list"


@pytest.mark.parametrize("name", OVERLAYS)
async def test_applying_twice_changes_nothing(server: ApiServer, kubectl: Kubectl, name: str) -> None:
    objects = served(server, overlay(name))
    assert {found["kind"] for found in overlay(name) if found not in objects} == NOT_SERVED
    text = yaml.safe_dump_all(objects)
    first = await kubectl("apply", "-f", "-", given=text)
    assert first.count(" created") == len(objects)
    before = versions(server, objects)
    second = await kubectl("apply", "-f", "-", given=text)
    assert second.count(" created") == 0
    assert versions(server, objects) == before


async def test_server_side_apply_under_strict_validation_has_no_warning_and_changes_nothing_the_second_time(
    server: ApiServer, kubectl: Kubectl
) -> None:
    objects = served(server, overlay("hardened"))
    text = yaml.safe_dump_all(objects)
    command = ("apply", "--server-side", "--validate=strict", "-f", "-")
    await kubectl(*command, given=text)
    before = versions(server, objects)
    await kubectl(*command, given=text)
    assert versions(server, objects) == before


async def test_deleting_the_default_overlay_leaves_models_alone(server: ApiServer, kubectl: Kubectl) -> None:
    objects = served(server, overlay("default"))
    await kubectl("apply", "-f", "-", given=yaml.safe_dump_all(built(KUSTOMIZE / "crd")))
    await kubectl(
        "wait", "--for=condition=Established", "crd/llmservices.serving.noctaya.io", "--timeout=10s"
    )
    model = {
        "apiVersion": "serving.noctaya.io/v1alpha1",
        "kind": "LLMService",
        "metadata": {"name": "m", "namespace": "ai"},
        "spec": {
            "model": {"source": {"uri": "pvc://weights"}},
            "runtime": {"name": "r"},
            "scaling": {"min": 0},
        },
    }
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "ai"}}
    await kubectl("apply", "-f", "-", given=yaml.safe_dump_all([namespace, model, *objects]))
    before = versions(server, [model])
    await kubectl("delete", "--wait=false", "-f", "-", given=yaml.safe_dump_all(objects))
    assert versions(server, [model]) == before
    assert "noctaya-worker" not in await kubectl("get", "deployments", "-A", "-o", "name")
