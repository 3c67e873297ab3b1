"""The check that nothing outlives a test sees what it is for."""

import subprocess
import tempfile
from pathlib import Path

from tests.conftest import children, work_directories


def test_a_child_process_is_seen_until_it_is_reaped() -> None:
    process = subprocess.Popen(["sleep", "60"])
    assert process.pid in children()
    process.kill()
    assert process.pid in children()
    process.wait()
    assert process.pid not in children()


def test_a_work_directory_is_seen() -> None:
    with tempfile.TemporaryDirectory(prefix="noctaya-") as directory:
        assert str(Path(directory)) in work_directories()
    assert str(Path(directory)) not in work_directories()
