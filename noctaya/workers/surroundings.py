"""What a worker finds around it: how old the API server is, and what this worker may do there.

Asked at the start, what is wrong every few seconds, everything soon after a refusal (`Client.refusals`) and every few minutes
anyway. Nothing depends on the answers but what people are told: an API server that does not answer the question, or does not
know it, leaves the last answer standing, and the refusal itself still shows where it happens.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Callable, Collection, Iterator
from typing import Any, Final

from noctaya.kube import Client
from noctaya.kube.clock import boottime
from noctaya.kube.errors import KubeError
from noctaya.kube.resources import SELFSUBJECTACCESSREVIEWS
from noctaya.telemetry import context
from noctaya.workers.problems import Problem
from noctaya.workers.rights import Right, missing_rights, rights

log = logging.getLogger(__name__)

OLDEST: Final = (1, 30)
"""ValidatingAdmissionPolicy and the preStop action `sleep` are in every cluster from here on."""
LOOK_SECONDS: Final = 2.0
"""Between two looks at what is wrong."""
CALM_SECONDS: Final = 120.0
"""Between two looks at everything while nothing is refused."""
UNEXPLAINED_SECONDS: Final = 60.0
"""After a look at everything that a refusal asked for and that found nothing new: a quota or a policy refuses too."""
ASKED_AT_ONCE: Final = 8


def version_of(answer: dict[str, Any]) -> tuple[int, int] | None:
    """(major, minor) of an answer of `/version`; providers write the minor as `30+`. None when it says neither."""
    numbers = [re.match(r"\d+", str(answer.get(part, ""))) for part in ("major", "minor")]
    if numbers[0] is None or numbers[1] is None:
        return None
    return int(numbers[0].group()), int(numbers[1].group())


class Surroundings:
    """See the module. `clients` are those whose refusals count; the first one asks. `run` belongs to the caller's TaskGroup."""

    def __init__(
        self,
        *clients: Client,
        own_namespace: str,
        look_seconds: float = LOOK_SECONDS,
        clock: Callable[[], float] = boottime,
    ) -> None:
        self._clients = clients
        self._rights = rights(own_namespace)
        self._look_seconds = look_seconds
        self._clock = clock
        self._too_old = ""
        self._missing: frozenset[Right] = frozenset()
        self._pause_seconds = 0.0
        self._looked_at = float("-inf")
        self._refusals = 0
        self._subscribers: list[Callable[[], None]] = []

    def problems(self) -> Iterator[Problem]:
        """What is wrong with the surroundings now."""
        if self._too_old:
            yield Problem(
                "KubernetesTooOld",
                f"the API server is Kubernetes {self._too_old}; Noctaya needs {OLDEST[0]}.{OLDEST[1]} or newer: an older one has "
                "no ValidatingAdmissionPolicy and cuts requests when a pod stops. Upgrade the cluster; this worker goes on.",
            )
        yield from missing_rights(sorted(self._missing, key=self._rights.index))

    def subscribe(self, callback: Callable[[], None]) -> None:
        """Call `callback` when a right was lost or came back."""
        self._subscribers.append(callback)

    async def run(self) -> None:
        """Look until cancelled."""
        while True:
            if self._is_everything_due():
                await self._look_at_everything()
            else:
                await self._ask(self._missing)
                if self._too_old:
                    await self._ask_version()
            await asyncio.sleep(self._look_seconds)

    def _is_everything_due(self) -> bool:
        since = self._clock() - self._looked_at
        return since >= CALM_SECONDS or (self._count() != self._refusals and since >= self._pause_seconds)

    async def _look_at_everything(self) -> None:
        before, self._refusals, self._looked_at = self._missing, self._count(), self._clock()
        await self._ask_version()
        await self._ask(self._rights)
        self._pause_seconds = UNEXPLAINED_SECONDS if self._missing == before else 0.0

    async def _ask_version(self) -> None:
        try:
            answer = await self._clients[0].version()
        except KubeError as error:
            log.debug("the API server's version is not known", extra=context(error=error))
            return
        found = version_of(answer)
        said = str(answer.get("gitVersion", "")) or "of an unknown version"
        self._too_old = said if found is not None and found < OLDEST else ""

    async def _ask(self, asked: Collection[Right]) -> None:
        slots = asyncio.Semaphore(ASKED_AT_ONCE)
        async with asyncio.TaskGroup() as group:
            tasks = {right: group.create_task(self._may(right, slots)) for right in asked}
        answers = {right: task.result() for right, task in tasks.items()}
        denied = {right for right, answer in answers.items() if answer is False}
        allowed = {right for right, answer in answers.items() if answer}
        missing = (self._missing | denied) - allowed
        if missing == self._missing:
            return
        self._missing = missing
        for problem in self.problems():
            log.warning("a right is missing", extra=context(problem=problem.name, why=problem.message))
        if not missing:
            log.info("every right is there again")
        for callback in self._subscribers:
            callback()

    async def _may(self, right: Right, slots: asyncio.Semaphore) -> bool | None:
        """Whether the API server would allow it; None when it does not say."""
        client = self._clients[0]
        async with slots:
            try:
                answer = await client.create(SELFSUBJECTACCESSREVIEWS, None, right.review())
            except KubeError as error:
                log.debug("a right is not known", extra=context(right=right, error=error))
                return None
        allowed = answer.get("status", {}).get("allowed")
        return allowed if isinstance(allowed, bool) else None

    def _count(self) -> int:
        return sum(client.refusals for client in self._clients)
