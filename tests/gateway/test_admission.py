"""Admission gives back exactly what it took, and never more places or bytes than there are."""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, invariant, multiple, rule

from noctaya.gateway.admission import Admission, Ticket
from noctaya.gateway.openai_errors import Refusal

MAX, MAX_PER_SERVICE, QUEUE = 100, 60, 3


def test_a_full_queue_is_429_with_retry_after_and_a_freed_place_is_there_at_once() -> None:
    admission = Admission(MAX, MAX_PER_SERVICE)
    tickets = [admission.admit("ai/a", 2, 0) for _ in range(2)]
    refused = admission.admit("ai/a", 2, 0)
    assert isinstance(refused, Refusal)
    assert (refused.status, refused.headers["retry-after"]) == (429, "5")
    assert isinstance(tickets[0], Ticket)
    admission.release(tickets[0])
    assert isinstance(admission.admit("ai/a", 2, 0), Ticket)


def test_places_grow_with_ready_replicas() -> None:
    admission = Admission(MAX, MAX_PER_SERVICE)
    admitted = [admission.admit("ai/a", 2, 3) for _ in range(7)]
    assert [isinstance(one, Ticket) for one in admitted] == [True] * 6 + [False]


def test_one_service_that_fills_its_memory_is_busy_and_a_full_process_is_unavailable() -> None:
    admission = Admission(MAX, MAX_PER_SERVICE)
    assert isinstance(admission.admit("ai/a", 9, 0, 60), Ticket)
    own, other = admission.admit("ai/a", 9, 0, 1), admission.admit("ai/b", 9, 0, 41)
    assert isinstance(own, Refusal)
    assert isinstance(other, Refusal)
    assert (own.status, other.status, other.headers["retry-after"]) == (429, 503, "10")


class AdmissionMachine(RuleBasedStateMachine):
    """Random traffic; a mirror of open tickets tells what must be taken."""

    tickets = Bundle("tickets")

    def __init__(self) -> None:
        super().__init__()
        self.admission = Admission(MAX, MAX_PER_SERVICE)
        self.open: dict[Ticket, int] = {}
        self.reserved = 0

    @rule(target=tickets, key=st.sampled_from(["ai/a", "ai/b"]), size=st.integers(0, 70))
    def admit(self, key: str, size: int) -> object:
        admitted = self.admission.admit(key, QUEUE, 0, size)
        if isinstance(admitted, Refusal):
            return multiple()
        self.open[admitted] = size
        return admitted

    @rule(ticket=tickets, size=st.integers(1, 30))
    def grow(self, ticket: Ticket, size: int) -> None:
        if ticket.is_open and self.admission.grow(ticket, size) is None:
            self.open[ticket] += size

    @rule(ticket=tickets)
    def drop_body(self, ticket: Ticket) -> None:
        if ticket.is_open:
            self.admission.drop_body(ticket)
            self.open[ticket] = 0

    @rule(ticket=consumes(tickets), times=st.integers(1, 2))
    def release(self, ticket: Ticket, times: int) -> None:
        for _ in range(times):
            self.admission.release(ticket)
        self.open.pop(ticket, None)

    @rule(size=st.integers(0, 50))
    def reserve(self, size: int) -> None:
        if self.admission.reserve(size) is None:
            self.reserved += size

    @rule()
    def unreserve(self) -> None:
        self.admission.unreserve(self.reserved)
        self.reserved = 0

    @invariant()
    def what_is_taken_is_what_is_open(self) -> None:
        assert self.admission.size == sum(self.open.values()) + self.reserved <= MAX
        for key in ("ai/a", "ai/b"):
            mine = [size for ticket, size in self.open.items() if ticket.key == key]
            assert self.admission.places_taken(key) == len(mine) <= QUEUE
            assert sum(mine) <= MAX_PER_SERVICE


AdmissionMachine.TestCase.settings = settings(max_examples=40, deadline=None)
TestAdmission = AdmissionMachine.TestCase
