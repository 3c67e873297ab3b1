"""The shell of `Certificates`: the leader reads the three Secrets, asks the core, and writes by compare-and-swap.

Before each write it asks `may_write`, since a worker that has lost the leadership must not go on with a step that it has planned.
Without the leadership it reads nothing. A write that is refused because somebody was there first is no problem: it looks again.
Keys pass through here on their way into one Secret and stand in no log line and no message.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from typing import Any, Final

import msgspec

from noctaya.kube import Client
from noctaya.kube.clock import boottime
from noctaya.kube.errors import AlreadyExists, Conflict, KubeError, NotFound
from noctaya.kube.objects import Metadata, Secret
from noctaya.kube.resources import SECRETS
from noctaya.leader.certificate_making import Pair, make_authority, make_leaf
from noctaya.leader.certificate_reading import (
    AUTHORITY_SECRET,
    KEPT_BY_LEADER,
    LABEL_KEPT_BY,
    LEAF_SECRETS,
    NEXT_CERTIFICATE,
    NEXT_KEY,
    Authorities,
    read,
)
from noctaya.leader.certificate_views import Action, MakeAuthority, MakeNext, Promote, WriteLeaf
from noctaya.leader.certificates import Certificates, CertificateTiming
from noctaya.telemetry import context
from noctaya.wire.identity import Role
from noctaya.wire.material import AUTHORITIES, CERTIFICATE, KEY

log = logging.getLogger(__name__)

REQUEST_SECONDS: Final = 3.0
RETRY_SECONDS: Final = 2.0
STANDBY_SECONDS: Final = 1.0
WRITES_IN_A_ROW: Final = 4
"""No step needs more looks that write, one after the other; beyond it somebody undoes what we write."""
TLS_TYPE: Final = "kubernetes.io/tls"


class CertificateKeeping:
    """Keeps the certificates of the fleet in `namespace` while `may_write()` says that this worker leads."""

    def __init__(
        self,
        client: Client,
        namespace: str,
        *,
        may_write: Callable[[], bool],
        timing: CertificateTiming | None = None,
        clock: Callable[[], float] = boottime,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self.problems: tuple[str, ...] = ()
        """Sentences for /readyz, each with what to do; empty when all is well, or while another worker leads."""
        self.written = 0
        """Secrets written so far."""
        self._client = client
        self._namespace = namespace
        self._may_write = may_write
        self._core = Certificates(timing or CertificateTiming())
        self._clock = clock
        self._wall = wall
        self._authority: Secret | None = None
        self._leaves: dict[Role, Secret | None] = {}
        self._known = Authorities(())
        self._in_a_row = 0

    async def run(self) -> None:
        """Look and write until cancelled."""
        while True:
            if not self._may_write():
                self._core.forget()
                self.problems = ()
                wait = STANDBY_SECONDS
            else:
                wait = await self.look()
            await asyncio.sleep(wait)

    async def look(self) -> float:
        """One look and what follows from it; seconds until the next one."""
        try:
            await self._read()
            seen, self._known = read(self._authority, self._leaves, self._namespace)
            plan = self._core.look(seen, self._wall(), self._clock())
            for action in plan.actions:
                if not self._may_write():
                    return 0.0
                await self._write(action)
        except (Conflict, AlreadyExists):
            return RETRY_SECONDS  # somebody was there first: what they wrote decides
        except (KubeError, TimeoutError) as error:
            self._complain(
                (f"the control link's certificates cannot be kept: {str(error) or 'no answer in time'}",)
            )
            return RETRY_SECONDS
        self._in_a_row = self._in_a_row + 1 if plan.actions else 0
        problems = [f"control link: {problem}" for problem in plan.problems]
        wait = max(plan.next_at - self._clock(), 0.0)
        if self._in_a_row > WRITES_IN_A_ROW:
            problems.append(
                "control link: somebody undoes what is written into the certificate Secrets. Find out who."
            )
        elif plan.actions:
            wait = 0.0
        self._complain(tuple(problems))
        return wait

    def _complain(self, problems: tuple[str, ...]) -> None:
        for problem in problems:
            if problem not in self.problems:
                log.warning("certificates", extra=context(problem=problem))
        self.problems = problems

    # -- reading -------------------------------------------------------------------------------------------------------

    async def _read(self) -> None:
        self._authority = await self._get(AUTHORITY_SECRET)
        self._leaves = {role: await self._get(name) for role, name in LEAF_SECRETS.items()}

    async def _get(self, name: str) -> Secret | None:
        try:
            async with asyncio.timeout(REQUEST_SECONDS):
                return await self._client.get(SECRETS, self._namespace, name, into=Secret)
        except NotFound:
            return None

    # -- writing -------------------------------------------------------------------------------------------------------

    async def _write(self, action: Action) -> None:
        name, found, data = self._content(action)
        # `data` is written whole: an entry that it leaves out is gone, a CA's old key first of all.
        if found is None:
            metadata = Metadata(
                name=name,
                namespace=self._namespace,
                labels={"app.kubernetes.io/name": "noctaya", LABEL_KEPT_BY: KEPT_BY_LEADER},
            )
            body = _body(Secret(metadata=metadata, type=TLS_TYPE, data=data))
            async with asyncio.timeout(REQUEST_SECONDS):
                await self._client.create(SECRETS, self._namespace, body)
        else:
            body = _body(msgspec.structs.replace(found, data=data))
            async with asyncio.timeout(REQUEST_SECONDS):
                await self._client.replace(SECRETS, self._namespace, name, body)
        self.written += 1
        log.info("certificates written", extra=context(secret=name, **_story(action)))

    def _content(self, action: Action) -> tuple[str, Secret | None, dict[str, bytes]]:
        """(name, the Secret as it was read, its new content)."""
        match action:
            case WriteLeaf():
                return LEAF_SECRETS[action.role], self._leaves[action.role], self._leaf(action)
            case MakeAuthority():
                made = make_authority(begins=action.begins, ends=action.ends)
                data = {CERTIFICATE: made.certificate, KEY: made.key}
            case MakeNext():
                made = make_authority(begins=action.begins, ends=action.ends)
                present = self._current()
                data = {
                    CERTIFICATE: present.certificate,
                    KEY: present.key,
                    NEXT_CERTIFICATE: made.certificate,
                    NEXT_KEY: made.key,
                }
            case Promote():
                assert self._authority is not None
                before = self._authority.data
                data = {CERTIFICATE: before[NEXT_CERTIFICATE], KEY: before[NEXT_KEY]}
        return AUTHORITY_SECRET, self._authority, data

    def _leaf(self, action: WriteLeaf) -> dict[str, bytes]:
        bundle = self._known.pem_of(action.bundle)
        if action.ends is None:
            found = self._leaves[action.role]
            assert found is not None
            return {**found.data, AUTHORITIES: bundle}
        made = make_leaf(
            action.role, self._namespace, self._current(), begins=action.begins, ends=action.ends
        )
        return {CERTIFICATE: made.certificate, KEY: made.key, AUTHORITIES: bundle}

    def _current(self) -> Pair:
        assert self._authority is not None
        return Pair(self._authority.data[CERTIFICATE], self._authority.data[KEY])


def _body(secret: Secret) -> dict[str, Any]:
    body: dict[str, Any] = msgspec.to_builtins(secret)  # bytes become base64
    return body


def _story(action: Action) -> dict[str, object]:
    """What was done, in words without any key."""
    match action:
        case MakeAuthority():
            return {"what": "a new CA"}
        case MakeNext():
            return {"what": "a second CA, to follow the first"}
        case Promote():
            return {"what": "the second CA signs from now on"}
        case WriteLeaf():
            what = "trusted CAs" if action.ends is None else "a new certificate"
            return {"what": what, "role": action.role.value, "cas": len(action.bundle)}
