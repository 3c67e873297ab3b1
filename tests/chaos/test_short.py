"""A few stories of chaos with real worker processes, at two fifths of the protocol's durations; `make chaos` has all of them."""

from __future__ import annotations

import logging
import random
from pathlib import Path

import pytest

from noctaya.workers.audit import Sent, Started, Told, Wrote
from tests.chaos.history import Heard
from tests.chaos.judging import read, report
from tests.chaos.playing import play
from tests.chaos.stories import stories
from tests.chaos.worker_process import QUICK

SHORT = ("stop-12", "kill-leader", "sigterm", "hole-worker", "gateway-silent")
WORKERS = 3


@pytest.mark.timeout(400)
async def test_no_invariant_is_violated_whatever_happens_to_real_workers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logging.getLogger("noctaya"), "disabled", True)
    table = {story.name: story for story in stories()}
    seed = random.randrange(100_000)
    said: list[str] = [f"seed {seed}"]
    played = await play(
        [table[name] for name in SHORT], tmp_path, workers=WORKERS, seed=seed, tenure=QUICK, say=said.append
    )
    evidence = read(tmp_path)
    violations = evidence.violations(stale_after=QUICK.stale_after)
    whole = "\n".join([*said, *report(evidence, violations)])
    if violations or any(one.trouble for one in played):
        pytest.fail(whole, pytrace=False)
    assert [one.story.name for one in played] == list(SHORT), whole
    for kind in (Started, Wrote, Sent, Told):
        assert sum(isinstance(line, kind) for line in evidence.lines) > 100, f"{kind.__name__}\n{whole}"
    heard = [event for event in evidence.events if isinstance(event, Heard) and event.value is not None]
    assert {event.value for event in heard} > {0, 1}, whole
