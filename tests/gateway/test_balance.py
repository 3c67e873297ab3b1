"""Which endpoint is next: proven ones only, the less busy of two, never a terminating one."""

import random

from hypothesis import given, settings
from hypothesis import strategies as st

from noctaya.gateway.balance import Balance
from noctaya.gateway.service import Endpoint

KEY = "ai/tiny"


def pod(number: int, *, ready: bool = True, terminating: bool = False) -> Endpoint:
    return Endpoint(f"10.0.0.{number}", 8000, f"pod-{number}", f"uid-{number}", ready, terminating)


def balance() -> Balance:
    return Balance(recently_good_seconds=30.0, eject_seconds=2.0, dice=random.Random(7))


def test_requests_spread_evenly_over_replicas() -> None:
    core = balance()
    core.update(KEY, [pod(number) for number in range(4)], 0.0)
    for _ in range(100):
        chosen = core.pick(KEY, 1.0)
        assert chosen is not None
        core.started(chosen)
    counts = [backend.in_flight for backend in core.backends(KEY)]
    assert max(counts) - min(counts) <= 4


def test_a_terminating_pod_gets_nothing_new_and_keeps_its_count() -> None:
    core = balance()
    core.update(KEY, [pod(1)], 0.0)
    chosen = core.pick(KEY, 0.0)
    assert chosen is not None
    core.started(chosen)
    core.update(KEY, [pod(1, terminating=True)], 1.0)
    assert core.pick(KEY, 1.0) is None
    assert core.to_probe(KEY, 1.0) == []
    core.ended(chosen)
    assert chosen.in_flight == 0


def test_an_endpoint_that_failed_is_used_again_after_a_good_probe_only() -> None:
    core = balance()
    core.update(KEY, [pod(1), pod(2)], 0.0)
    bad = core.pick(KEY, 0.0)
    assert bad is not None
    core.failed(bad, 0.0)
    assert all(core.pick(KEY, 0.1) is not bad for _ in range(20))
    assert core.to_probe(KEY, 0.1) == [bad]
    core.proved(bad, 0.2)
    assert any(core.pick(KEY, 0.2) is bad for _ in range(20))


def test_a_ready_endpoint_that_was_quiet_must_prove_itself() -> None:
    core = balance()
    core.update(KEY, [pod(1)], 0.0)
    assert core.pick(KEY, 30.0) is not None
    assert core.pick(KEY, 31.0) is None
    assert len(core.to_probe(KEY, 31.0)) == 1


def test_an_endpoint_from_a_file_must_prove_itself() -> None:
    core = balance()
    core.update(KEY, [pod(1)], 0.0, is_fresh=False)
    assert core.pick(KEY, 0.0) is None


def test_a_pod_that_is_no_longer_ready_is_not_used() -> None:
    core = balance()
    core.update(KEY, [pod(1)], 0.0)
    core.update(KEY, [pod(1, ready=False)], 1.0)
    assert core.pick(KEY, 1.0) is None
    core.update(KEY, [pod(1)], 2.0)
    assert core.pick(KEY, 2.0) is not None


def test_another_pod_at_the_same_address_begins_anew() -> None:
    core = balance()
    core.update(KEY, [pod(1)], 0.0)
    old = core.pick(KEY, 0.0)
    assert old is not None
    core.failed(old, 0.0)
    core.update(KEY, [Endpoint("10.0.0.1", 8000, "pod-9", "uid-9", True, False)], 0.1)
    new = core.pick(KEY, 0.1)
    assert new is not None
    assert new is not old
    assert not old.is_listed


steps = st.lists(
    st.tuples(st.sampled_from(["update", "pick", "end", "fail", "prove", "wait"]), st.integers(0, 7)),
    max_size=60,
)


@settings(max_examples=80, deadline=None)
@given(steps)
def test_only_endpoints_that_are_listed_and_stay_are_ever_chosen(story: list[tuple[str, int]]) -> None:
    core, now = balance(), 0.0
    flying = []
    listed: dict[str, Endpoint] = {}
    for step, number in story:
        if step == "update":
            listed = {
                one.id: one
                for bit in range(3)
                if number & (1 << bit)
                for one in [pod(bit, ready=number % 2 == 0, terminating=number == 7 and bit == 0)]
            }
            core.update(KEY, list(listed.values()), now)
        elif step == "pick" and (chosen := core.pick(KEY, now)) is not None:
            assert chosen.endpoint == listed[chosen.endpoint.id]
            assert not chosen.endpoint.terminating
            assert chosen.good_at is not None
            core.started(chosen)
            flying.append(chosen)
        elif step == "end" and flying:
            core.ended(flying.pop(number % len(flying)))
        elif step in {"fail", "prove"} and (known := core.backends(KEY)):
            (core.failed if step == "fail" else core.proved)(known[number % len(known)], now)
        else:
            now += number
        assert all(backend.in_flight >= 0 for backend in core.backends(KEY))
    for backend in flying:
        core.ended(backend)
    assert all(backend.in_flight == 0 for backend in core.backends(KEY))
