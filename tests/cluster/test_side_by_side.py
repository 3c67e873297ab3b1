"""No test on the real cluster is run twice, and none is left out."""

from pathlib import Path

from tests.cluster.side_by_side import FAILURES, INSTALLING, SESSIONS, Session


def collects(session: Session, file: Path) -> bool:
    return file.is_relative_to(session.path) and not any(
        file.is_relative_to(path) for path in session.without
    )


def test_every_file_is_collected_by_exactly_one_session() -> None:
    files = list(Path("tests").rglob("test_*.py"))
    assert {FAILURES / "test_upgrade.py", *INSTALLING} < set(files)
    found = {file: [session.name for session in SESSIONS if collects(session, file)] for file in files}
    assert {file: names for file, names in found.items() if len(names) != 1} == {}
