"""The smaller pure decisions: queues, ranking, placement, endpoints, jobs, ownership, selectors."""

from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from noctaya.kube.metadata import Metadata, OwnerReference
from noctaya.kube.resources import DEPLOYMENTS, PODS, REPLICASETS
from noctaya.local.controllers.endpointslice import slices_of
from noctaya.local.controllers.expectations import Expectations
from noctaya.local.controllers.job_plan import PodState, plan
from noctaya.local.controllers.keyqueue import KeyQueue
from noctaya.local.controllers.ownership import Node, OwnerGraph
from noctaya.local.controllers.placement import NodeState, misfit
from noctaya.local.controllers.ranking import DELETION_COST, expendable_first
from noctaya.local.controllers.records import Record, matches, short_hash

AT = "2026-01-01T00:00:00Z"


def pod(name: str, *, ready: bool = True, phase: str = "Running", **more: Any) -> Record:
    annotations = {DELETION_COST: str(more.pop("cost"))} if "cost" in more else {}
    deleting = more.pop("deleting", False)
    labels = more.pop("labels", {})
    metadata = Metadata(
        name=name, namespace="ns", uid=name, annotations=annotations, creation_timestamp=more.pop("created", AT),
        labels=labels, deletion_timestamp=AT if deleting else None,
    )  # fmt: skip
    conditions = [{"type": "Ready", "status": str(ready), "lastTransitionTime": more.pop("since", AT)}]
    status = {"phase": phase, "conditions": conditions, "podIP": more.pop("ip", "127.64.0.1")}
    return Record(metadata=metadata, spec={"nodeName": "local", **more}, status=status)


def test_the_least_useful_pod_goes_first() -> None:
    pods = [
        pod("ready-old"),
        pod("ready-dear", cost=100),
        pod("ready-cheap", cost=-1),
        pod("not-ready", ready=False),
        pod("pending", ready=False, phase="Pending"),
        Record(metadata=Metadata(name="unbound", namespace="ns", uid="u"), status={"phase": "Pending"}),
        pod("ready-recent", since="2026-01-01T01:00:00Z"),
    ]
    order = [item.name for item in expendable_first(pods)]
    assert order == [
        "unbound",
        "pending",
        "not-ready",
        "ready-cheap",
        "ready-recent",
        "ready-old",
        "ready-dear",
    ]


def test_a_key_changed_while_in_work_comes_again_and_never_twice_at_a_time() -> None:
    queue: KeyQueue[str] = KeyQueue()
    queue.add("a")
    queue.add("a")
    assert queue.take(0.0) == "a"
    queue.add("a")
    assert queue.take(0.0) is None
    queue.done("a", 0.0)
    assert queue.take(0.0) == "a"
    queue.done("a", 0.0)
    assert queue.take(0.0) is None


def test_failures_come_back_later_and_later_until_one_succeeds() -> None:
    queue: KeyQueue[str] = KeyQueue()
    pauses, now = [], 0.0
    queue.add("a")
    for _ in range(4):
        assert queue.take(now) == "a"
        queue.done("a", now, failed=True)
        due = queue.next_at()
        assert due is not None
        pauses.append(round(due - now, 3))
        now = due
    assert pauses == [0.1, 0.2, 0.4, 0.8]
    queue.take(now)
    queue.done("a", now)
    assert queue.next_at() is None


@given(
    st.lists(
        st.tuples(st.sampled_from(["add", "later", "take", "done", "fail"]), st.integers(0, 3)), max_size=80
    )
)
def test_no_key_is_ever_lost(story: list[tuple[str, int]]) -> None:
    queue: KeyQueue[int] = KeyQueue()
    wanted: set[int] = set()
    working: set[int] = set()
    now = 0.0
    for what, key in story:
        now += 0.01
        if what == "add":
            queue.add(key)
            wanted.add(key)
        elif what == "later":
            queue.add_at(key, now + 1)
            wanted.add(key)
        elif what == "take" and (taken := queue.take(now)) is not None:
            assert taken not in working
            working.add(taken)
            wanted.discard(taken)
        elif what in {"done", "fail"} and key in working:
            working.discard(key)
            queue.done(key, now, failed=what == "fail")
            wanted |= {key} if what == "fail" else set()
    for key in working:
        queue.done(key, now)
    seen = set()
    while (taken := queue.take(now + 100)) is not None:
        seen.add(taken)
        queue.done(taken, now)
    assert wanted <= seen


def test_expectations_hold_a_controller_back_until_its_store_shows_them() -> None:
    open_ones = Expectations(lapse_seconds=5)
    open_ones.created("rs", "pod1", now=0.0)
    open_ones.deleted("rs", "pod2", now=0.0)
    assert not open_ones.are_met("rs", lambda u: False, lambda u: u == "pod2", 1.0)
    assert not open_ones.are_met("rs", lambda u: u == "pod1", lambda u: u == "pod2", 1.0)
    assert open_ones.are_met("rs", lambda u: True, lambda u: False, 1.0)
    open_ones.created("rs", "pod3", now=2.0)
    assert open_ones.are_met("rs", lambda u: False, lambda u: False, 8.0), "a lost one lapses"


GPU = {"limits": {"nvidia.com/gpu": "2"}}
NODE = NodeState({"disk": "ssd"}, {"nvidia.com/gpu": Decimal(3), "cpu": Decimal(2)})


def asking(resources: dict[str, Any], **more: Any) -> Record:
    return Record(
        metadata=Metadata(name="p"), spec={"containers": [{"name": "c", "resources": resources}], **more}
    )


@pytest.mark.parametrize(
    ("wanted", "others", "problem"),
    [
        (asking(GPU), [], None),
        (asking(GPU), [asking(GPU)], "0/1 nodes are available: 1 Insufficient nvidia.com/gpu."),
        (asking({"limits": {"x.io/none": 1}}), [], "0/1 nodes are available: 1 Insufficient x.io/none."),
        (asking({"requests": {"cpu": "64"}}), [], None),
        (asking({}, nodeSelector={"disk": "ssd"}), [], None),
        (
            asking({}, nodeSelector={"disk": "tape"}),
            [],
            "0/1 nodes are available: 1 node(s) didn't match Pod's node affinity/selector.",
        ),
    ],
)
def test_a_pod_is_placed_only_where_its_devices_are(
    wanted: Record, others: list[Record], problem: str | None
) -> None:
    assert misfit(wanted, others, NODE, counts_cpu_and_memory=False) == problem


def test_cpu_counts_when_asked_to() -> None:
    wanted = asking({"requests": {"cpu": "1500m"}})
    assert (
        misfit(wanted, [wanted], NODE, counts_cpu_and_memory=True)
        == "0/1 nodes are available: 1 Insufficient cpu."
    )


def service(**spec: Any) -> Record:
    ports = [{"name": "http", "port": 80, "targetPort": "web"}]
    return Record(
        metadata=Metadata(name="svc", namespace="ns", uid="s1"),
        spec={"selector": {"app": "a"}, "ports": ports, **spec},
    )


def serving(name: str, port: int = 8000, **more: Any) -> Record:
    containers = [{"name": "c", "ports": [{"name": "web", "containerPort": port}]}]
    return pod(name, labels={"app": "a"}, containers=containers, **more)


def test_endpoints_tell_ready_serving_and_terminating_apart() -> None:
    pods = [
        serving("a"),
        serving("b", ready=False),
        serving("c", deleting=True),
        serving("d", phase="Failed"),
        pod("e"),
    ]
    (found,) = slices_of(service(), pods).values()
    conditions = {
        item["targetRef"]["name"]: tuple(item["conditions"].values()) for item in found["endpoints"]
    }
    assert conditions == {"a": (True, True, False), "b": (False, False, False), "c": (False, True, True)}
    assert found["ports"] == [{"name": "http", "port": 8000, "protocol": "TCP"}]


def test_not_ready_addresses_are_published_on_demand() -> None:
    (found,) = slices_of(service(publishNotReadyAddresses=True), [serving("b", ready=False)]).values()
    assert found["endpoints"][0]["conditions"]["ready"]


def test_a_port_name_that_means_two_numbers_makes_two_slices() -> None:
    slices = slices_of(service(clusterIP="None"), [serving("a"), serving("b", port=9000)])
    assert sorted(item["ports"][0]["port"] for item in slices.values()) == [8000, 9000]
    assert all("service.kubernetes.io/headless" in item["metadata"]["labels"] for item in slices.values())


def test_a_service_without_selector_or_of_external_name_has_no_slices() -> None:
    assert slices_of(service(selector=None), [serving("a")]) == {}
    assert slices_of(service(type="ExternalName"), [serving("a")]) == {}


def failed(number: int, at: float = 0.0) -> PodState:
    return PodState(f"p{number}", "Failed", finished=at)


NEVER = {"template": {"spec": {"restartPolicy": "Never"}}}
ON_FAILURE = {"template": {"spec": {"restartPolicy": "OnFailure"}}}


def test_a_job_makes_one_pod_and_is_complete_when_it_succeeded() -> None:
    assert plan(NEVER, 0.0, [], 1.0, 10).create == 1
    assert plan(NEVER, 0.0, [PodState("p", "Running")], 1.0, 10).create == 0
    assert plan(NEVER, 0.0, [PodState("p", "Succeeded")], 1.0, 10).verdict == "Complete"


def test_a_failed_pod_is_replaced_after_a_growing_pause() -> None:
    assert plan(NEVER, 0.0, [failed(1, 100.0)], 105.0, 10).look_again == 110.0
    assert plan(NEVER, 0.0, [failed(1, 100.0)], 110.0, 10).create == 1
    assert plan(NEVER, 0.0, [failed(1), failed(2, 100.0)], 115.0, 10).look_again == 120.0


def test_a_job_fails_beyond_its_backoff_limit() -> None:
    spec = {**NEVER, "backoffLimit": 1}
    assert plan(spec, 0.0, [failed(1)], 1000.0, 10).verdict == ""
    assert plan(spec, 0.0, [failed(1), failed(2)], 1000.0, 10).reason == "BackoffLimitExceeded"


def test_restarts_inside_a_pod_count_where_pods_restart() -> None:
    spec = {**ON_FAILURE, "backoffLimit": 2}
    assert plan(spec, 0.0, [PodState("p", "Running", restarts=1)], 1.0, 10).verdict == ""
    over = plan(spec, 0.0, [PodState("p", "Running", restarts=2)], 1.0, 10)
    assert (over.reason, over.delete) == ("BackoffLimitExceeded", ("p",))


def test_a_job_that_takes_too_long_fails_and_its_pods_go() -> None:
    spec = {**NEVER, "activeDeadlineSeconds": 60}
    running = [PodState("p", "Running")]
    assert plan(spec, 0.0, running, 59.0, 10).look_again == 60.0
    over = plan(spec, 0.0, running, 60.0, 10)
    assert (over.verdict, over.reason, over.delete) == ("Failed", "DeadlineExceeded", ("p",))


def node(
    uid: str, *owners: str, blocks: bool = False, finalizers: tuple[str, ...] = (), deleting: bool = False
) -> Node:
    references = [
        OwnerReference(
            api_version="apps/v1", kind="Deployment", name=uid, uid=uid, block_owner_deletion=blocks
        )
        for uid in owners
    ]
    metadata = Metadata(
        name=uid, namespace="ns", uid=uid, owner_references=references, finalizers=list(finalizers),
        deletion_timestamp=AT if deleting else None,
    )  # fmt: skip
    return Node(REPLICASETS if owners else DEPLOYMENTS, metadata)


def test_a_child_goes_when_its_last_owner_is_gone() -> None:
    graph = OwnerGraph()
    for item in (node("a"), node("b"), node("child", "a", "b")):
        graph.put(item)
    graph.remove("a")
    assert not graph.decide("child").delete
    graph.remove("b")
    assert graph.decide("child").delete


def test_an_owner_never_seen_is_asked_for_before_anything_is_deleted() -> None:
    graph = OwnerGraph()
    graph.put(node("child", "unseen"))
    decision = graph.decide("child")
    assert [owner.uid for owner in decision.ask] == ["unseen"]
    assert not decision.delete
    graph.absent.add("unseen")
    assert graph.decide("child").delete


def test_foreground_deletion_waits_for_the_children_that_block() -> None:
    graph = OwnerGraph()
    graph.put(node("parent", finalizers=("foregroundDeletion",), deleting=True))
    graph.put(node("child", "parent", blocks=True))
    assert [item.metadata.uid for item in graph.decide("parent").dependents] == ["child"]
    assert graph.decide("child").delete
    graph.remove("child")
    assert graph.decide("parent").finish == "foregroundDeletion"


def test_orphans_are_let_go_first() -> None:
    graph = OwnerGraph()
    graph.put(node("parent", finalizers=("orphan",), deleting=True))
    graph.put(node("child", "parent"))
    assert [item.metadata.uid for item in graph.decide("parent").release] == ["child"]
    graph.put(node("child"))
    assert graph.decide("parent").finish == "orphan"


def test_an_object_without_owners_is_nobodys_garbage() -> None:
    graph = OwnerGraph()
    graph.put(Node(PODS, Metadata(name="p", uid="p")))
    assert not graph.decide("p").delete


@pytest.mark.parametrize(
    ("selector", "chooses"),
    [
        ({"matchLabels": {"a": "1"}}, True),
        ({"matchLabels": {"a": "2"}}, False),
        ({"matchExpressions": [{"key": "a", "operator": "In", "values": ["1", "2"]}]}, True),
        ({"matchExpressions": [{"key": "b", "operator": "Exists"}]}, False),
        ({"matchExpressions": [{"key": "b", "operator": "DoesNotExist"}]}, True),
        ({"matchExpressions": [{"key": "a", "operator": "NotIn", "values": ["1"]}]}, False),
        ({}, True),
        (None, False),
    ],
)
def test_selectors_choose_as_kubernetes_does(selector: dict[str, Any] | None, chooses: bool) -> None:
    assert matches(selector, {"a": "1"}) is chooses


def test_a_template_hash_depends_on_content_not_on_order() -> None:
    assert short_hash({"a": 1, "b": 2}) == short_hash({"b": 2, "a": 1})
    assert short_hash({"a": 1}) != short_hash({"a": 2})
    assert len(short_hash({})) == 10
