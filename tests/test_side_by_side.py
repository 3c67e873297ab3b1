"""No test is run twice, and none is left out."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from tests import __main__ as everywhere
from tests.cluster import side_by_side as on_a_cluster
from tests.side_by_side import TESTS, Session


@pytest.mark.parametrize(
    "sessions", [everywhere.SESSIONS, on_a_cluster.SESSIONS], ids=["make test", "make test-cluster"]
)
def test_every_file_is_collected_by_exactly_one_session(sessions: Sequence[Session]) -> None:
    files = list(TESTS.rglob("test_*.py"))
    assert {Path(__file__).relative_to(Path.cwd()), on_a_cluster.FAILURES / "test_upgrade.py"} < set(files)
    found = {file: [session.name for session in sessions if session.collects(file)] for file in files}
    assert {file: names for file, names in found.items() if len(names) != 1} == {}
