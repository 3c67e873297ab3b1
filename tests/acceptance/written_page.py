"""A page of the documentation as somebody follows it: its commands, in its order, in a shell of their own.

Each ```bash block is typed into a new bash that stops at the first command that fails, in a folder that looks like the project's
root (a copy: a page may write there). A block that forwards a port is "one terminal": it stays open while the section lasts.
How it fails: `StepFailed` with the block and what the shell printed.
"""

import asyncio
import logging
import os
import re
import shutil
import signal
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.cluster.cluster import ROOT, Cluster

log = logging.getLogger(__name__)

HEADING = re.compile(r"^##+ +(.+)$")
FORWARD = re.compile(r"\bkubectl\b.*\bport-forward\b")
STEP_SECONDS = 660.0
"""A gateway may drain for ten minutes; every other command is much quicker, and has a --timeout of its own where it waits."""
FORWARDED_SECONDS = 30.0
END_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class Block:
    """One ```bash block, and the heading of the section that it stands in."""

    section: str
    text: str

    @property
    def is_forward(self) -> bool:
        """It stays open."""
        return bool(FORWARD.search(self.text))


class StepFailed(Exception):
    """A command of the page did not do what the page says."""

    def __init__(self, block: Block, printed: str) -> None:
        super().__init__(f"“{block.section}”:\n{block.text}\nprinted\n{printed}")


def blocks_of(page: str) -> list[Block]:
    """Every command block of a page below `docs/`, from its top to its end."""
    found: list[Block] = []
    section = ""
    inside: list[str] | None = None
    for line in (ROOT / "docs" / page).read_text().splitlines():
        if inside is not None:
            if line == "```":
                found.append(Block(section, "\n".join(inside)))
                inside = None
            else:
                inside.append(line)
        elif line == "```bash":
            inside = []
        elif heading := HEADING.match(line):
            section = heading.group(1)
    return found


class Reader:
    """Somebody at a shell with kubectl, the cluster's kubeconfig, and the project's folder."""

    def __init__(self, cluster: Cluster, folder: Path) -> None:
        """`folder` gets the copy. The caller is in the cluster's network, and its shells are too."""
        self.folder = folder / "noctaya"
        shutil.copytree(ROOT / "deploy", self.folder / "deploy")
        kubectl = cluster.kubectl
        clean = {name: text for name, text in os.environ.items() if not name.lower().endswith("_proxy")}
        self._environment = {
            **clean,
            **kubectl.environment,
            "HOME": str(folder),
            "PATH": f"{kubectl.program.parent}:{clean.get('PATH', os.defpath)}",
        }

    async def run(self, block: Block) -> str:
        """Type it in; gives what it prints (warnings and meters apart)."""
        began = time.monotonic()
        process = await self._start(block, errors=asyncio.subprocess.PIPE)
        try:
            async with asyncio.timeout(STEP_SECONDS):
                printed, complained = (text.decode(errors="replace") for text in await process.communicate())
        finally:
            await _end(process)
        if process.returncode != 0:
            raise StepFailed(block, printed + complained)
        log.info("“%s” took %.1f s: %s", block.section, time.monotonic() - began, block.text.splitlines()[0])
        return printed

    @asynccontextmanager
    async def terminal(self, block: Block) -> AsyncIterator[None]:
        """Keep it open in a terminal of its own, once it says that it forwards."""
        process = await self._start(block, errors=asyncio.subprocess.STDOUT)
        assert process.stdout is not None
        try:
            printed = ""
            async with asyncio.timeout(FORWARDED_SECONDS):
                while "Forwarding from" not in printed:
                    line = await process.stdout.readline()
                    if not line:
                        raise StepFailed(block, printed)
                    printed += line.decode(errors="replace")
            yield
        finally:
            await _end(process)

    async def _start(self, block: Block, *, errors: int) -> asyncio.subprocess.Process:
        return await asyncio.create_subprocess_exec(
            "bash", "-e", "-u", "-o", "pipefail", "-c", block.text,
            cwd=self.folder,
            env=self._environment,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=errors,
            start_new_session=True,
        )  # fmt: skip


async def _end(process: asyncio.subprocess.Process) -> None:
    """End the shell and what it started."""
    if process.returncode is None:
        os.killpg(process.pid, signal.SIGTERM)
        try:
            async with asyncio.timeout(END_SECONDS):
                await process.communicate()
        except TimeoutError:
            os.killpg(process.pid, signal.SIGKILL)
            await process.communicate()
