"""The sessions of `make test-cluster`, each with a cluster of its own. What they leave on the machine is counted once, around all."""

from rich.console import Console

from tests.cluster import sysctls
from tests.cluster.footprint import Footprint
from tests.cluster.requirements import missing_for_node
from tests.side_by_side import TESTS, Session, run_sessions

COUNTED_OUTSIDE = "NOCTAYA_TEST_FOOTPRINT_IS_COUNTED_OUTSIDE"
MARKED = ("-m", "cluster or containers")
SLOWEST = ("--durations=12", "--durations-min=10")
ACCEPTANCE = TESTS / "acceptance"
FAILURES = ACCEPTANCE / "failures"
INSTALLING = (ACCEPTANCE / "test_bad_environment.py", ACCEPTANCE / "test_install_document.py")
"""Those that install the product, or something wrong, themselves."""
INSTALLED = tuple(path for path in sorted(ACCEPTANCE.glob("test_*.py")) if path not in INSTALLING)
CONTENTS = TESTS / "containers" / "test_contents.py"
ENDING = TESTS / "cluster" / "test_ending.py"
"""These two need minutes, and nothing of the session that they are in."""

SESSIONS = (
    Session("failures", (FAILURES, CONTENTS)),
    Session("acceptance", (ACCEPTANCE, ENDING), (FAILURES, *INSTALLING)),
    Session("the rest", (TESTS,), (FAILURES, *INSTALLED, CONTENTS, ENDING)),
)
"""About a third of the time each, measured; together they collect everything that is marked."""


def run_tests(screen: Console, further: list[str]) -> int:
    """Run all sessions; 0 when all passed and nothing stays on the machine. `further`: arguments for pytest."""
    before = Footprint.now() if not missing_for_node() else None
    settings = sysctls.current()
    have_passed = run_sessions(screen, SESSIONS, (*MARKED, *SLOWEST, *further), {COUNTED_OUTSIDE: "1"})
    # Each cluster restores what it has found; those that began later have found the first one's.
    sysctls.restore(settings)
    left = Footprint.now().beyond(before) if before is not None else {}
    if left:
        screen.print(f"left on the machine: {left}", markup=False)
    return 0 if have_passed and not left else 1
