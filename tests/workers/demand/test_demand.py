"""Demand: what is known, what is not, and that not knowing is never told as zero."""

from __future__ import annotations

from noctaya.kube.objects import (
    ContainerState,
    ContainerStateRunning,
    ContainerStateTerminated,
    ContainerStatus,
    Metadata,
    Pod,
    PodStatus,
)
from noctaya.workers.demand import AtLeast, DemandBook, Fell, Known, Rose, Share, Unknown
from noctaya.workers.gateways import GatewayContainer, Phase, container_of

G0, G1 = ("sys", "g0"), ("sys", "g1")
KEY = "ai/qwen"
START = 100.0
EARLY = 20.0
"""Long enough before START that the grace period for an empty fleet is over."""


def running(instance: str = "a") -> GatewayContainer:
    return GatewayContainer(Phase.RUNNING, instance)


def book_with(*pods: tuple[str, str]) -> DemandBook:
    """A book in its tenure that sees `pods` running and has greeted each."""
    book = DemandBook()
    book.begin(START - EARLY)
    book.observe({pod: running() for pod in pods}, START - EARLY)
    for stream, pod in enumerate(pods):
        book.hello(pod, "b0", stream, START - EARLY)
    return book


def test_demand_is_known_once_every_running_gateway_has_reported() -> None:
    book = book_with(G0, G1)
    assert book.demand(KEY, START) == Unknown()
    book.report(G0, "b0", 1, {KEY: Share(2)}, START)
    assert book.demand(KEY, START) == Unknown(seen=2)
    book.report(G1, "b0", 1, {KEY: Share(1)}, START)
    assert book.demand(KEY, START) == Known(3)
    assert book.demand("ai/other", START) == Known(0)


def test_a_silent_gateway_makes_demand_unknown_and_never_smaller() -> None:
    book = book_with(G0, G1)
    book.report(G0, "b0", 1, {KEY: Share(2)}, START)
    book.report(G1, "b0", 1, {}, START)
    book.report(G1, "b0", 2, {}, START + 9)
    assert book.demand(KEY, START + 10) == Known(2)
    assert book.demand(KEY, START + 10.1) == AtLeast(2)
    book.report(G0, "b0", 2, {}, START + 11)
    book.report(G1, "b0", 3, {}, START + 11)
    assert book.demand(KEY, START + 11) == Known(0)


def test_while_unknown_a_falling_report_does_not_lower_what_was_known() -> None:
    book = book_with(G0, G1)
    book.report(G0, "b0", 1, {KEY: Share(2)}, START)
    book.report(G1, "b0", 1, {KEY: Share(3)}, START)
    book.report(G0, "b0", 2, {}, START + 20)
    assert book.demand(KEY, START + 20) == AtLeast(5)


def test_age_alone_never_removes_a_gateway() -> None:
    book = book_with(G0)
    book.report(G0, "b0", 1, {KEY: Share(1)}, START)
    book.closed(G0, "b0", 0, START + 1)
    book.sweep(START + 100_000)
    assert book.demand(KEY, START + 100_000) == AtLeast(1)


def test_a_gateway_whose_container_ended_leaves_the_sum() -> None:
    book = book_with(G0, G1)
    book.report(G0, "b0", 1, {KEY: Share(2)}, START)
    book.report(G1, "b0", 1, {}, START)
    book.closed(G0, "b0", 0, START + 1)
    assert book.observe({G0: GatewayContainer(Phase.ENDED, "a"), G1: running()}, START + 2) == [Fell(KEY)]
    assert book.demand(KEY, START + 2) == Known(0)


def test_a_gateway_that_still_talks_stays_although_its_pod_is_gone_from_the_api() -> None:
    book = book_with(G0)
    book.report(G0, "b0", 1, {KEY: Share(2)}, START)
    book.observe({}, START + 1)
    assert book.demand(KEY, START + 1) == Known(2)
    assert book.closed(G0, "b0", 0, START + 2) == [Fell(KEY)]


def test_a_gateway_says_bye_and_is_neither_counted_nor_waited_for() -> None:
    book = book_with(G0, G1)
    book.report(G0, "b0", 1, {KEY: Share(2)}, START)
    book.report(G1, "b0", 1, {}, START)
    assert book.bye(G0, "b0", START + 1) == [Fell(KEY)]
    assert book.demand(KEY, START + 1) == Known(0)
    book.observe({G0: running("restarted"), G1: running()}, START + 2)
    assert book.demand(KEY, START + 2) == AtLeast(0)


def test_a_new_boot_id_replaces_the_former_process_of_the_pod() -> None:
    book = book_with(G0)
    book.report(G0, "b0", 7, {KEY: Share(4)}, START)
    assert book.hello(G0, "b1", 1, START + 1) == [Fell(KEY)]
    assert book.demand(KEY, START + 1) == AtLeast(4)
    assert book.report(G0, "b0", 8, {KEY: Share(9)}, START + 1) is None
    book.report(G0, "b1", 1, {KEY: Share(1)}, START + 2)
    assert book.demand(KEY, START + 2) == Known(1)
    assert book.hello(G0, "b0", 2, START + 3) == []
    assert book.demand(KEY, START + 3) == Known(1)


def test_a_report_from_before_a_container_restart_does_not_count_for_the_new_container() -> None:
    book = book_with(G0)
    book.report(G0, "b0", 1, {}, START)
    assert book.demand(KEY, START + 1) == Known(0)
    book.observe({G0: running("restarted")}, START + 1)
    assert book.demand(KEY, START + 1) == AtLeast(0)
    book.hello(G0, "b1", 1, START + 2)
    book.report(G0, "b1", 1, {KEY: Share(1)}, START + 2)
    assert book.demand(KEY, START + 2) == Known(1)


def test_a_pod_that_the_api_never_showed_lingers_after_its_stream_ended() -> None:
    book = book_with(G0)
    book.report(G0, "b0", 1, {}, START)
    book.hello(G1, "b9", 5, START)
    book.report(G1, "b9", 1, {KEY: Share(1)}, START)
    book.closed(G1, "b9", 5, START + 1)
    book.sweep(START + 5)
    assert book.seen(KEY, START + 5) == 1
    assert book.sweep(START + 11) == [Fell(KEY)]


def test_leases_of_many_gateways_make_one_and_end_on_our_clock() -> None:
    book = book_with(G0, G1)
    book.report(G0, "b0", 1, {KEY: Share(0, START + 3)}, START)
    book.report(G1, "b0", 1, {KEY: Share(0, START + 5)}, START)
    assert book.demand(KEY, START) == Known(1)
    assert book.demand(KEY, START + 4.9) == Known(1)
    assert book.demand(KEY, START + 5) == Known(0)


def test_a_wake_raises_and_never_lowers_and_an_old_sequence_is_ignored() -> None:
    book = book_with(G0)
    assert book.wake(G0, "b0", 1, KEY, Share(1, START + 5), START) == [Rose(KEY)]
    assert book.wake(G0, "b0", 1, KEY, Share(5), START) is None
    assert book.wake(G0, "b0", 2, KEY, Share(0), START) == []
    assert book.seen(KEY, START) == 1
    assert book.report(G0, "b0", 2, {}, START) is None
    assert book.report(G0, "b0", 3, {}, START) == [Fell(KEY)]


def test_a_new_tenure_does_not_inherit_what_the_last_one_knew() -> None:
    book = book_with(G0, G1)
    book.report(G0, "b0", 1, {KEY: Share(2)}, START)
    book.report(G1, "b0", 1, {}, START)
    book.begin(START + 20)
    book.report(G1, "b0", 2, {}, START + 20)
    assert book.demand(KEY, START + 20) == Unknown(seen=2)
    assert book.demand("ai/other", START + 20) == Unknown()


def test_before_the_gateways_are_listed_nothing_is_known() -> None:
    book = DemandBook()
    book.begin(START)
    assert book.demand(KEY, START + 1000) == Unknown()


def test_without_any_gateway_zero_is_known_only_after_some_time() -> None:
    book = DemandBook()
    book.begin(START)
    book.observe({}, START)
    assert book.demand(KEY, START + 9.9) == Unknown()
    assert book.demand(KEY, START + 10) == Known(0)


def test_a_gateway_that_cannot_reach_us_is_unknown_at_once_however_fresh_its_report() -> None:
    """Whatever it takes on from now on, we cannot hear of: a zero from before the cut is no zero."""
    book = book_with(G0, G1)
    book.report(G0, "b0", 1, {KEY: Share(2)}, START)
    book.report(G1, "b0", 1, {}, START)
    book.closed(G1, "b0", 1, START + 1)
    assert book.demand("ai/other", START + 1) == AtLeast(0)
    assert book.demand(KEY, START + 1) == AtLeast(2)
    book.hello(G1, "b0", 7, START + 2)
    assert book.demand("ai/other", START + 2) == Known(0)


def test_while_the_apis_view_of_the_gateways_is_not_followed_nothing_is_known() -> None:
    """A gateway that started meanwhile may hold requests, and nobody shows it."""
    book = book_with(G0)
    book.report(G0, "b0", 1, {KEY: Share(2)}, START)
    book.follow(False, START + 1)
    assert book.demand(KEY, START + 1) == AtLeast(2)
    assert book.demand("ai/other", START + 1) == AtLeast(0)
    assert book.silent_gateways(START + 1) is None
    book.follow(True, START + 2)
    assert book.demand("ai/other", START + 2) == Known(0)


def test_a_lease_that_ran_out_is_told_as_the_end_of_demand() -> None:
    book = book_with(G0)
    assert book.report(G0, "b0", 1, {KEY: Share(0, START + 2)}, START) == [Rose(KEY)]
    assert book.sweep(START + 1) == []
    assert book.report(G0, "b0", 2, {}, START + 2) == []
    assert book.sweep(START + 2.5) == [Fell(KEY)]
    assert book.sweep(START + 3) == []
    assert book.report(G0, "b0", 3, {KEY: Share(1)}, START + 4) == [Rose(KEY)]
    assert book.sweep(START + 5) == []


def pod(state: ContainerState, *, last: ContainerState | None = None, phase: str = "Running") -> Pod:
    status = ContainerStatus(
        name="gateway", state=state, last_state=last or ContainerState(), container_id="c1"
    )
    return Pod(
        metadata=Metadata(name="g0", namespace="sys", uid="u"),
        status=PodStatus(phase=phase, container_statuses=[status]),
    )


def test_a_gateway_container_is_told_from_what_the_kubelet_reports() -> None:
    ended = ContainerState(terminated=ContainerStateTerminated(exit_code=1))
    assert container_of(pod(ContainerState(running=ContainerStateRunning()))).phase is Phase.RUNNING
    assert container_of(pod(ended)).phase is Phase.ENDED
    assert container_of(pod(ContainerState())).phase is Phase.STARTING
    assert container_of(pod(ContainerState(), last=ended)).phase is Phase.ENDED
    assert (
        container_of(pod(ContainerState(running=ContainerStateRunning()), phase="Failed")).phase
        is Phase.ENDED
    )
    assert container_of(Pod(metadata=Metadata(name="g0", uid="u"))).phase is Phase.STARTING


def shadowed_book() -> DemandBook:
    """Two processes call themselves G0: b0 reported first, b1 came later, and both are alive."""
    book = book_with(G0)
    book.report(G0, "b0", 1, {KEY: Share(2)}, START)
    book.hello(G0, "b1", 7, START + 1)
    book.report(G0, "b1", 1, {}, START + 1)
    return book


def test_the_last_words_of_a_process_that_was_replaced_are_no_second_process() -> None:
    book = shadowed_book()
    assert book.report(G0, "b0", 2, {KEY: Share(2)}, START + 2) is None
    assert book.shadowed(START + 2) == []
    assert book.demand(KEY, START + 2) == Known(0)


def test_two_gateways_of_one_name_are_named_and_make_demand_unknown() -> None:
    book = shadowed_book()
    book.report(G0, "b1", 2, {}, START + 5)
    assert book.report(G0, "b0", 3, {KEY: Share(2)}, START + 5) is None
    assert book.shadowed(START + 5) == ["sys/g0"]
    assert book.demand(KEY, START + 5) == AtLeast(0)
    assert book.silent_gateways(START + 5) == ["sys/g0"]


def test_a_gateway_whose_name_was_taken_still_wakes_a_model() -> None:
    book = shadowed_book()
    assert book.wake(G0, "b0", 3, KEY, Share(1, START + 20), START + 6) == [Rose(KEY)]
    assert book.seen(KEY, START + 6) == 1


def test_once_only_one_of_them_is_left_demand_is_known_again() -> None:
    book = shadowed_book()
    book.hello(G0, "b0", 8, START + 6)
    assert book.shadowed(START + 6) == ["sys/g0"]
    book.report(G0, "b1", 3, {KEY: Share(1)}, START + 6 + book.stale_after)
    assert book.shadowed(START + 6 + book.stale_after) == []
    assert book.demand(KEY, START + 6 + book.stale_after) == Known(1)
