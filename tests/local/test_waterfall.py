"""The waterfall's sums: what is the model's, what is ours."""

import pytest

from noctaya.local.waterfall import Waterfall, missing

MOMENTS = {"arrival": 100.0, "push": 100.01, "forwarded": 101.0, "first byte": 101.2}


def test_the_control_planes_share_is_the_total_less_load_and_first_token() -> None:
    waterfall = Waterfall.of(MOMENTS, model_seconds=0.8)
    assert waterfall.total_seconds == pytest.approx(1.2)
    assert waterfall.beyond_load_seconds == pytest.approx(0.4)
    assert waterfall.first_token_seconds == pytest.approx(0.2)
    assert waterfall.control_plane_seconds == pytest.approx(0.2)
    assert "control plane 0.20 s" in waterfall.lines()[-1]


def test_what_nobody_saw_is_missing_and_no_sum_is_invented() -> None:
    waterfall = Waterfall.of({"arrival": 1.0, "first byte": 2.0}, model_seconds=None)
    assert waterfall.control_plane_seconds is None
    assert waterfall.as_json()["controlPlaneSeconds"] is None
    assert "replicas" in missing(waterfall)
    assert not any("control plane" in line and "total" in line for line in waterfall.lines())


def test_without_the_gateways_times_the_total_still_adds_up_and_says_why() -> None:
    waterfall = Waterfall.of({"arrival": 1.0, "first byte": 9.0}, model_seconds=6.5)
    assert "total 8.00 s = the model's load 6.50 s + 1.50 s" in waterfall.lines()[-1]
    assert "heartbeat" in waterfall.lines()[-1]
