"""Chaos with real workers, and the judgement of it.

    python -m tests.chaos --minutes 40 [--seed 7] [--workers 4] [--output FILE]
    python -m tests.chaos --story kill-leader --story stop-12 [--quick]
    python -m tests.chaos --list
    python -m tests.chaos --judge FOLDER

Without `--story` all are played, as far as the minutes reach; what is left of them a random worker is killed now and then.
The exit code is 1 when something is violated.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import logging
import sys
import tempfile
import time
from pathlib import Path

import uvloop

from tests.chaos.judging import read, report
from tests.chaos.playing import Say, play
from tests.chaos.stage import Story
from tests.chaos.stories import duck, stories
from tests.chaos.worker_process import DEFAULT, QUICK

LEAST_DUCK_SECONDS = 60.0
END_SECONDS = 40.0
"""For the last recovery, the end of the processes and the judgement."""


def main() -> int:
    """Play and judge."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--minutes", type=float, help="how long; by default as long as the stories take")
    parser.add_argument("--seed", type=int, default=int(time.time()) % 100_000)
    parser.add_argument(
        "--story", action="append", default=[], metavar="NAME", help="only this one; may be repeated"
    )
    parser.add_argument("--list", action="store_true", help="the stories")
    parser.add_argument("--quick", action="store_true", help="the protocol at two fifths of its durations")
    parser.add_argument("--workers", type=int, default=3)
    parser.add_argument("--scale-to", type=int, default=10, help="workers of the story `scale`")
    parser.add_argument(
        "--folder", type=Path, help="where lines and logs are kept; by default for the run only"
    )
    parser.add_argument("--output", type=Path, help="a file for the table")
    parser.add_argument(
        "--judge", type=Path, metavar="FOLDER", help="judge a former run's folder, play nothing"
    )
    arguments = parser.parse_args()
    tenure = QUICK if arguments.quick else DEFAULT
    table = stories(arguments.scale_to)
    if arguments.list:
        for story in table:
            _say(f"{story.name:16} {story.what} (about {story.about_seconds:.0f} s)")
        return 0
    with contextlib.ExitStack() as stack:
        output = stack.enter_context(arguments.output.open("w")) if arguments.output else None

        def say(text: str) -> None:
            _say(text)
            if output is not None:
                output.write(text + "\n")
                output.flush()

        folder = arguments.judge or arguments.folder
        if folder is None:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="chaos-")))
        if not arguments.judge:
            folder.mkdir(parents=True, exist_ok=True)
            logging.basicConfig(filename=folder / "harness.log", level=logging.INFO)
            say(f"seed {arguments.seed}, {arguments.workers} workers, lines in {folder}")
            _play(arguments, _chosen(parser, table, arguments.story), folder, say)
        evidence = read(folder)
        violations = evidence.violations(stale_after=tenure.stale_after)
        for line in report(evidence, violations):
            say(line)
    return 1 if violations else 0


def _chosen(parser: argparse.ArgumentParser, table: tuple[Story, ...], names: list[str]) -> list[Story]:
    known = {story.name: story for story in table}
    if unknown := [name for name in names if name not in known]:
        parser.error(f"no story is called {', '.join(unknown)}; --list tells their names")
    return [known[name] for name in names] or list(table)


def _play(arguments: argparse.Namespace, chosen: list[Story], folder: Path, say: Say) -> None:
    until = time.monotonic() + 60 * arguments.minutes - END_SECONDS if arguments.minutes else float("inf")

    def last(seconds: float) -> Story | None:
        has_time = not arguments.story and LEAST_DUCK_SECONDS <= seconds < float("inf")
        return duck(seconds - LEAST_DUCK_SECONDS / 2) if has_time else None

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        played = runner.run(
            play(
                chosen, folder, workers=arguments.workers, seed=arguments.seed,
                tenure=QUICK if arguments.quick else DEFAULT, say=say, until=until, last=last,
            )
        )  # fmt: skip
    missing = {story.name for story in chosen} - {one.story.name for one in played}
    if missing:
        say(f"not played: {', '.join(sorted(missing))}")


def _say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
