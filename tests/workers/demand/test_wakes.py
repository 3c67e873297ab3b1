"""The log of wakes: the first push of an edge counts, and strangers cannot make it grow."""

from noctaya.workers.wakes import CAPACITY, WakeLog


def test_only_the_first_push_after_an_edge_counts() -> None:
    log = WakeLog()
    log.pushed("ai/qwen", 1.0)
    assert log.view() == {}
    log.rose("ai/qwen", 2.0)
    log.pushed("ai/qwen", 2.5)
    log.pushed("ai/qwen", 3.0)
    assert log.view() == {"ai/qwen": {"demandAt": 2.0, "pushAt": 2.5}}


def test_the_services_that_woke_last_are_kept() -> None:
    log = WakeLog()
    for number in range(CAPACITY + 10):
        log.rose(f"ai/{number}", float(number))
    assert len(log.view()) == CAPACITY
    assert "ai/9" not in log.view()
    assert f"ai/{CAPACITY + 9}" in log.view()
