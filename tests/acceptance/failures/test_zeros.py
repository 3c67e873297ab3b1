"""A zero is seen once, for its model, at the time at which it was made."""

from pathlib import Path

from tests.acceptance.api import Object
from tests.acceptance.failures.outcomes import Zero
from tests.acceptance.failures.zeros import Zeros

WALL, NOW = 1_796_083_205.5, 100.0
"""2026-12-01T00:00:05.5Z and the same instant on the requests' clock."""


def deployment(replicas: int, *, scaled: str | None = None) -> Object:
    noted: Object = {
        "manager": "keda",
        "subresource": "scale",
        "time": scaled,
        "fieldsV1": {"f:spec": {"f:replicas": {}}},
    }
    other = {"manager": "noctaya", "time": "2026-12-01T00:00:04Z", "fieldsV1": {"f:spec": {"f:template": {}}}}
    fields = [other, *([noted] if scaled else [])]
    return {"metadata": {"name": "m", "managedFields": fields}, "spec": {"replicas": replicas}}


def test_a_fall_to_none_is_told_once_with_the_second_in_which_it_was_written() -> None:
    told: list[Zero] = []
    zeros = Zeros(Path("unused"), "ns", told.append)
    zeros.take(deployment(1), WALL, NOW)
    zeros.take(deployment(0, scaled="2026-12-01T00:00:02Z"), WALL, NOW)
    zeros.take(deployment(0, scaled="2026-12-01T00:00:02Z"), WALL, NOW)
    assert told == [Zero("ns/m", earliest=96.5, latest=97.5)]
    assert zeros.replicas == {"ns/m": 0}


def test_a_zero_that_nobody_dated_is_as_old_as_its_sight() -> None:
    told: list[Zero] = []
    zeros = Zeros(Path("unused"), "ns", told.append)
    zeros.take(deployment(2), WALL, NOW)
    zeros.take(deployment(0), WALL, NOW + 1)
    assert told == [Zero("ns/m", earliest=101.0, latest=101.0)]


def test_a_model_that_was_never_awake_has_no_zero() -> None:
    told: list[Zero] = []
    Zeros(Path("unused"), "ns", told.append).take(deployment(0), WALL, NOW)
    assert told == []
