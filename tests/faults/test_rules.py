"""What becomes of a request is decided by seed, name and order alone."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tests.faults.past import read_as_of
from tests.faults.rules import EVERYWHERE, Fault, Faults, Plan, Request, Where

GET = Request("GET", "/api/v1/namespaces/a/pods/p?x=1")
LIST = Request("GET", "/apis/apps/v1/deployments?labelSelector=a%3Db")
WATCH = Request("GET", "/api/v1/pods?watch=true&resourceVersion=5")
PUT = Request("PUT", "/apis/coordination.k8s.io/v1/namespaces/a/leases/l")


def plans(seed: str, faults: list[Fault], requests: list[Request]) -> list[Plan]:
    made = Faults(seed, own=list(faults))
    return [made.plan(request) for request in requests]


@given(st.text(), st.lists(st.sampled_from([GET, LIST, WATCH, PUT]), max_size=30))
def test_one_seed_gives_one_history(seed: str, requests: list[Request]) -> None:
    faults = [Fault("reset", probability=0.5), Fault("latency", seconds=1, jitter=0.5)]
    assert plans(seed, faults, requests) == plans(seed, faults, requests)


@given(st.text(), st.integers(1, 30))
def test_a_further_fault_changes_nothing_about_the_luck_of_the_others(seed: str, count: int) -> None:
    reset = Fault("reset", probability=0.5)
    more = [reset, Fault("lose_response", probability=0.5), Fault("black_hole", Where(path="never"))]
    alone, together = plans(seed, [reset], [GET] * count), plans(seed, more, [GET] * count)
    assert [plan.is_reset for plan in alone] == [plan.is_reset for plan in together]


def test_probability_is_how_often_a_fault_happens() -> None:
    made = plans("seed", [Fault("reset", probability=0.3)], [GET] * 2000)
    assert 500 < sum(plan.is_reset for plan in made) < 700
    assert not any(plan.is_reset for plan in plans("seed", [Fault("reset", probability=0.0)], [GET] * 99))


@given(st.text(), st.floats(0, 5), st.floats(0, 5))
def test_latency_stays_within_its_jitter_and_is_never_negative(
    seed: str, seconds: float, jitter: float
) -> None:
    (plan,) = plans(seed, [Fault("latency", seconds=seconds, jitter=jitter)], [GET])
    assert max(seconds - jitter, 0) - 1e-9 <= plan.delay_seconds <= seconds + jitter + 1e-9


def test_a_fault_is_for_the_requests_that_it_means() -> None:
    assert Where(path="/leases/").means(PUT)
    assert not Where(path="/leases/").means(GET)
    assert Where(methods=frozenset({"PUT"})).means(PUT)
    assert not Where(methods=frozenset({"PUT"})).means(GET)
    assert Where(watches=True).means(WATCH)
    assert not Where(watches=True).means(LIST)
    assert not Where(watches=False).means(WATCH)
    assert EVERYWHERE.means(WATCH)


def test_of_two_of_a_kind_the_last_one_counts() -> None:
    made = plans("seed", [Fault("status", code=500), Fault("status", code=429)], [GET])
    assert made[0].status == 429


def test_the_past_of_an_object_is_asked_for_as_a_list_of_its_name() -> None:
    past = read_as_of("5", GET, "application/json")
    assert past is not None
    assert past.target.startswith("/api/v1/namespaces/a/pods?")
    assert "fieldSelector=metadata.name%3Dp" in past.target
    assert "resourceVersionMatch=Exact" in past.target
    found = b'{"kind":"PodList","apiVersion":"v1","items":[{"metadata":{"name":"p"}}]}'
    code, content = past.answer(200, found)
    assert (code, b'"kind": "Pod"' in content) == (200, True)
    code, content = past.answer(200, b'{"kind":"PodList","apiVersion":"v1","items":[]}')
    assert (code, b'pods \\"p\\" not found' in content) == (404, True)


def test_what_has_no_past_is_read_as_it_is() -> None:
    assert read_as_of("5", WATCH, "") is None
    assert read_as_of("5", PUT, "") is None
    assert read_as_of("5", Request("GET", "/apis"), "") is None
    assert read_as_of("5", Request("GET", "/api/v1/namespaces/a/pods/p/log"), "") is None
    assert read_as_of("5", GET, "application/json;as=Table;v=v1;g=meta.k8s.io") is None
    whole = read_as_of("5", LIST, "application/json")
    assert whole is not None
    assert (whole.name, "labelSelector=a%3Db" in whole.target) == ("", True)
    one = read_as_of("5", Request("GET", "/api/v1/namespaces/a"), "")
    assert one is not None
    assert (one.name, one.plural) == ("a", "namespaces")
