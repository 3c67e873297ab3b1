"""How one condition replaces another, and that the words of a status fit the CRD."""

from __future__ import annotations

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from noctaya.api import Condition, ConditionType, Phase, Reason, find_condition, set_condition
from noctaya.api.conditions import MAX_MESSAGE, Status
from tests.api.admission import admit, schema_of
from tests.api.samples import llmservice

EARLIER, NOW = "2026-01-01T00:00:00Z", "2026-01-01T00:05:00Z"
STATUSES = st.sampled_from(["True", "False", "Unknown"])


def condition(type_: str, status: Status, at: str, reason: str = "Available", message: str = "") -> Condition:
    return Condition(type=type_, status=status, reason=reason, message=message, last_transition_time=at)


def test_the_time_stays_while_the_status_stays() -> None:
    old = condition(ConditionType.READY, "False", EARLIER, Reason.STARTING)
    (new,) = set_condition([old], condition(ConditionType.READY, "False", NOW, Reason.MODEL_LOADING, "pod a"))
    assert (new.last_transition_time, new.reason, new.message) == (EARLIER, "ModelLoading", "pod a")


def test_the_time_moves_when_the_status_does() -> None:
    old = condition(ConditionType.READY, "False", EARLIER)
    (new,) = set_condition([old], condition(ConditionType.READY, "True", NOW))
    assert (new.status, new.last_transition_time) == ("True", NOW)


def test_a_new_type_goes_to_the_end_and_others_stay() -> None:
    others = (condition("A", "True", EARLIER), condition("B", "True", EARLIER))
    assert set_condition(others, condition("C", "True", NOW)) == (*others, condition("C", "True", NOW))
    assert set_condition(others, condition("A", "False", NOW))[1] is others[1]


@given(STATUSES, STATUSES)
def test_setting_twice_is_setting_once(first: Status, second: Status) -> None:
    before = (condition("Ready", first, EARLIER),)
    once = set_condition(before, condition("Ready", second, NOW))
    assert set_condition(once, condition("Ready", second, "2026-01-01T01:00:00Z")) == once
    assert find_condition(once, "Ready") == once[0]
    assert find_condition(once, "Degraded") is None


def test_a_message_that_the_api_server_would_refuse_is_cut() -> None:
    (cut,) = set_condition((), condition("Ready", "True", NOW, message="x" * (MAX_MESSAGE + 1)))
    assert len(cut.message) == MAX_MESSAGE
    assert cut.message.endswith("…")


def test_a_condition_is_read_from_and_written_to_a_live_object() -> None:
    live = {
        "type": "Ready",
        "status": "True",
        "reason": "Available",
        "message": "",
        "lastTransitionTime": NOW,
        "observedGeneration": 3,
    }
    read = msgspec.convert(live, Condition)
    assert read.observed_generation == 3
    assert msgspec.to_builtins(read) == live


def test_every_word_fits_the_schema() -> None:
    conditions = [
        msgspec.to_builtins(condition(type_, "True", NOW, reason))
        for type_, reason in zip(ConditionType, Reason, strict=False)
    ] + [
        msgspec.to_builtins(condition(f"T{index}", "False", NOW, reason))
        for index, reason in enumerate(Reason)
    ][:28]
    for phase in Phase:
        status = {
            "phase": phase.value,
            "conditions": conditions,
            "shardEpoch": 7,
            "lastActivation": NOW,
            "replicas": 0,
        }
        assert admit({**llmservice(), "status": status})[1] == []


def test_the_schema_knows_exactly_the_fields_and_phases_of_the_code() -> None:
    status = schema_of("LLMService")["properties"]["status"]["properties"]
    fields = {field.encode_name for field in msgspec.structs.fields(Condition)}
    assert set(status["conditions"]["items"]["properties"]) == fields
    assert set(status["phase"]["enum"]) == {phase.value for phase in Phase}
