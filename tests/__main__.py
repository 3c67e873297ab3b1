"""`python -m tests [PYTEST'S ARGUMENTS]`: every test that needs no root and no other toolchain, as `make test` runs them."""

import sys

from rich.console import Console

from tests.side_by_side import TESTS, Session, run_sessions

MARKED = ("-m", "not cluster and not containers")
FLEETS = tuple(TESTS / folder for folder in ("e2e", "chaos", "leader", "workers"))
"""Workers, and what they lead: much of it with real processes."""

SESSIONS = (Session("fleets", FLEETS), Session("the rest", (TESTS,), FLEETS))
"""About half of the time each, measured; together they collect everything that is marked."""

if __name__ == "__main__":
    sys.exit(0 if run_sessions(Console(soft_wrap=True), SESSIONS, (*MARKED, *sys.argv[1:]), {}) else 1)
