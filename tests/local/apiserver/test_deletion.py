"""Deletion: preconditions, finalizers, propagation, grace, namespaces, and definitions with their resources."""

from __future__ import annotations

from typing import Any

import pytest

from noctaya.local.apiserver import ApiError, Deleted, DeleteOptions
from noctaya.local.apiserver.cluster import EVENT_LIMIT
from tests.local.apiserver.conftest import World
from tests.local.apiserver.manifests import Object, config_map, pod, widget


def delete(world: World, body: Object, **options: Any) -> Deleted:
    metadata = body["metadata"]
    return world.cluster.delete(
        world.kind_of(body), metadata.get("namespace", ""), metadata["name"], DeleteOptions(**options)
    )


def is_gone(world: World, body: Object) -> bool:
    try:
        world.get(body)
    except ApiError as problem:
        return problem.code == 404
    return False


def without_finalizers(found: Object) -> Object:
    return {**found, "metadata": {k: v for k, v in found["metadata"].items() if k != "finalizers"}}


def job() -> Object:
    template = {"spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": "app:1"}]}}
    metadata = {"name": "j", "namespace": "default"}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": {"template": template}}


def test_a_plain_object_goes_at_once(world: World) -> None:
    world.create(config_map())
    assert delete(world, config_map()).gone
    assert is_gone(world, config_map())


@pytest.mark.parametrize("wrong", [{"uid": "another"}, {"resource_version": "1"}])
def test_a_failed_precondition_deletes_nothing(world: World, wrong: dict[str, str]) -> None:
    world.create(config_map())
    with pytest.raises(ApiError, match="in the precondition") as refused:
        delete(world, config_map(), **wrong)
    assert refused.value.code == 409
    assert not is_gone(world, config_map())


def test_a_finalizer_holds_a_deleted_object_until_it_is_taken_away(world: World) -> None:
    body = config_map()
    body["metadata"]["finalizers"] = ["example.test/hold"]
    world.create(body)
    assert not delete(world, body).gone
    marked = world.get(body)
    assert marked["metadata"]["deletionTimestamp"]
    again = delete(world, body)
    assert again.object["metadata"]["resourceVersion"] == marked["metadata"]["resourceVersion"]
    world.patch(body, without_finalizers)
    assert is_gone(world, body)


def test_a_dying_object_takes_no_new_finalizer(world: World) -> None:
    body = config_map()
    body["metadata"]["finalizers"] = ["example.test/hold"]
    world.create(body)
    delete(world, body)
    with pytest.raises(ApiError, match="no new finalizers can be added"):
        world.patch(
            body, lambda o: {**o, "metadata": {**o["metadata"], "finalizers": ["example.test/hold", "more"]}}
        )


@pytest.mark.parametrize(
    ("policy", "finalizer"), [("Foreground", "foregroundDeletion"), ("Orphan", "orphan")]
)
def test_a_propagation_policy_is_recorded_for_the_garbage_collector(
    world: World, policy: str, finalizer: str
) -> None:
    world.create(config_map())
    assert not delete(world, config_map(), propagation=policy).gone
    assert world.get(config_map())["metadata"]["finalizers"] == [finalizer]


def test_a_job_deleted_without_a_policy_leaves_its_pods_as_the_real_one_does(world: World) -> None:
    world.create(job())
    assert not delete(world, job()).gone
    assert world.get(job())["metadata"]["finalizers"] == ["orphan"]
    assert delete(world, job(), propagation="Background").gone


def test_a_running_pod_stays_for_its_grace_until_the_agent_deletes_it_with_none(world: World) -> None:
    world.create(pod(node="n"))
    assert not delete(world, pod()).gone
    marked = world.get(pod())["metadata"]
    assert marked["deletionGracePeriodSeconds"] == 30
    assert not delete(world, pod(), grace_seconds=5).gone
    shorter = world.get(pod())["metadata"]
    assert (
        shorter["deletionGracePeriodSeconds"],
        shorter["deletionTimestamp"] < marked["deletionTimestamp"],
    ) == (5, True)
    assert not delete(world, pod(), grace_seconds=60).gone
    assert world.get(pod())["metadata"] == shorter
    assert delete(world, pod(), grace_seconds=0).gone
    assert is_gone(world, pod())


def test_a_pod_that_no_node_has_goes_at_once(world: World) -> None:
    world.create(pod())
    assert delete(world, pod()).gone


def test_a_finished_pod_goes_at_once(world: World) -> None:
    world.create(pod(node="n"))
    world.patch(pod(), lambda found: {**found, "status": {"phase": "Succeeded"}}, sub="status")
    assert delete(world, pod()).gone


def test_a_dry_run_deletes_nothing(world: World) -> None:
    world.create(config_map())
    assert delete(world, config_map(), dry_run=True).gone
    assert not is_gone(world, config_map())


NAMESPACE: Object = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team"}}


def test_a_dying_namespace_takes_nothing_new_and_goes_when_it_is_finalized(world: World) -> None:
    world.create(NAMESPACE)
    assert not delete(world, NAMESPACE).gone
    assert world.get(NAMESPACE)["status"]["phase"] == "Terminating"
    body = config_map()
    body["metadata"]["namespace"] = "team"
    with pytest.raises(ApiError, match="because it is being terminated") as refused:
        world.create(body)
    assert refused.value.code == 403
    assert refused.value.details is not None
    assert refused.value.details["causes"][0]["reason"] == "NamespaceTerminating"
    world.replace({**world.get(NAMESPACE), "spec": {"finalizers": []}}, sub="finalize")
    assert is_gone(world, NAMESPACE)


def test_a_create_in_a_namespace_that_is_not_there_is_not_found(world: World) -> None:
    body = config_map()
    body["metadata"]["namespace"] = "nowhere"
    with pytest.raises(ApiError, match='namespaces "nowhere" not found'):
        world.create(body)


def test_the_default_namespace_stays(world: World) -> None:
    with pytest.raises(ApiError, match="may not be deleted"):
        delete(world, {**NAMESPACE, "metadata": {"name": "default"}})


def test_events_do_not_pile_up_for_ever(world: World) -> None:
    for number in range(EVENT_LIMIT + 1):
        event = {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": f"e{number}", "namespace": "default"},
        }
        world.create({**event, "involvedObject": {"kind": "Pod", "name": "p"}})
    assert world.storage.count("/events") < EVENT_LIMIT
    assert world.storage.get("/events", "default", f"e{EVENT_LIMIT}") is not None
    assert world.storage.get("/events", "default", "e0") is None


def definition() -> Object:
    metadata = {"name": "widgets.example.test"}
    return {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": metadata}


def test_a_definition_takes_its_resources_along(widgets: World) -> None:
    widgets.create(widget())
    assert delete(widgets, definition()).gone
    assert widgets.storage.count("example.test/widgets") == 0
    with pytest.raises(KeyError, match="not served"):
        widgets.cluster.kind("Widget", "example.test/v1")


def test_a_definition_waits_for_a_resource_that_is_held(widgets: World) -> None:
    held = widget()
    held["metadata"]["finalizers"] = ["example.test/hold"]
    widgets.create(held)
    assert not delete(widgets, definition()).gone
    widgets.patch(held, without_finalizers)
    assert is_gone(widgets, definition())
    with pytest.raises(KeyError, match="not served"):
        widgets.cluster.kind("Widget", "example.test/v1")
