"""One run of kubectl to its end, within a deadline; whoever gives up on it leaves no process."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Finished:
    """How it ended and what it said."""

    code: int
    out: str
    err: str


async def run_kubectl(
    program: str, *words: str, environment: Mapping[str, str], given: str = "", seconds: float
) -> Finished:
    """Run it with `given` as its input. Raises TimeoutError after `seconds`, and has killed it then."""
    process = await asyncio.create_subprocess_exec(
        program,
        *words,
        env=environment,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        async with asyncio.timeout(seconds):
            out, err = await process.communicate(given.encode())
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    return Finished(process.returncode or 0, out.decode(), err.decode())
