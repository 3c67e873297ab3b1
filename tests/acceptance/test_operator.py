"""Somebody who looks after the fleet (docs/operations.md): the program `noctaya`, a real `kubectl port-forward`, and the role
`noctaya-operator` with nothing beside it.
"""

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from noctaya.leader.lease_names import ANNOTATION_DRAIN, member_lease
from tests.acceptance.api import Api
from tests.acceptance.clients import ask
from tests.acceptance.conftest import Models
from tests.acceptance.fleet import NAMESPACE, SIZE, Fleet
from tests.acceptance.waiting import until, until_equal
from tests.acceptance.written_page import blocks_of
from tests.cluster.cluster import Cluster

PAGE = "operations.md"
BINDING = "Who may do it"
"""The section of the page that binds the role."""
COMMAND_SECONDS = 120.0
SOUND_SECONDS = 60.0
ACCOUNT = "night-shift"


@dataclass(frozen=True, slots=True)
class Ran:
    """A command that has ended."""

    code: int
    out: str
    err: str

    @property
    def told(self) -> Any:
        """Its answer with `--json`."""
        return json.loads(self.out)


Operator = Callable[..., Awaitable[Ran]]


@pytest.fixture
async def operator(cluster: Cluster, api: Api, network: str, tmp_path: Path) -> AsyncIterator[Operator]:
    """`await operator("status", …)`: `noctaya` as a ServiceAccount to which the page's command gave the role."""
    del network
    kubectl = cluster.kubectl
    await api.create("serviceaccounts", {"metadata": {"name": ACCOUNT}}, NAMESPACE)
    (binding,) = [block for block in blocks_of(PAGE) if block.section == BINDING]
    words = ["bash", "-euc", binding.text]
    environment = {
        **os.environ,
        **kubectl.environment,
        "PATH": f"{kubectl.program.parent}:{os.environ['PATH']}",
    }
    assert (await _run(words, environment)).code == 0
    token = kubectl("create", "token", ACCOUNT, namespace=NAMESPACE).strip()
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(json.dumps(_as_account(cluster, token)))
    environment |= {"KUBECONFIG": str(kubeconfig)}

    async def noctaya(*arguments: str) -> Ran:
        return await _run([sys.executable, "-m", "noctaya", *arguments], environment)

    yield noctaya
    await api.delete("rolebindings", ACCOUNT, NAMESPACE)
    await api.delete("serviceaccounts", ACCOUNT, NAMESPACE)


async def test_an_operator_with_that_role_alone_sees_the_fleet_and_empties_a_worker(
    operator: Operator, models: Models, fleet: Fleet, api: Api, namespace: str
) -> None:
    """status, verify, drain, uncordon, against the fleet as it runs; a model of the drained worker wakes meanwhile."""
    status = await until_sound(operator)
    assert status["leader"]["pod"] == await fleet.leader()
    workers = {found["pod"]: found for found in status["members"]}
    assert sorted(workers) == [pod.name for pod in await fleet.pods("worker")]
    assert len(workers) == SIZE["worker"]

    victim = await fleet.leader()
    model = await models(await fleet.name_with(victim, namespace, "moved"))
    await model.until_asleep()
    owner = await operator("owner", model.model)
    assert (owner.code, victim in owner.out) == (0, True), owner

    drained = await operator("drain", victim)
    assert drained.code == 0, drained
    assert f"{victim}: owns nothing now" in drained.out
    others = set(workers) - {victim}
    await fleet.until_owned(by=others, seconds=0.0)
    lease = await api.get("leases", member_lease(victim), NAMESPACE)
    assert lease["metadata"]["annotations"][ANNOTATION_DRAIN] == "true"
    answer = await ask(fleet.url, model.model)
    assert answer.is_whole, answer
    assert await fleet.owner(model.model) in others

    opened = await operator("uncordon", victim)
    assert opened.code == 0, opened

    async def has_shards() -> bool:
        return victim in (await fleet.owners()).values()

    await until(has_shards, SOUND_SECONDS * 5, f"{victim} gets shards again")
    await until_sound(operator)


async def test_freezing_and_unfreezing_are_the_same_operators_to_say(operator: Operator) -> None:
    for command, frozen in (("freeze", True), ("unfreeze", False)):
        ran = await operator(command)
        assert ran.code == 0, ran

        async def is_frozen() -> bool:
            return bool((await said(operator))["map"]["is_frozen"])

        await until_equal(is_frozen, frozen, SOUND_SECONDS, f"the fleet knows of {command}")


async def test_an_account_without_the_role_is_told_which_right_it_lacks(
    operator: Operator, api: Api, fleet: Fleet
) -> None:
    (worker, *_) = await fleet.pods("worker")
    await api.delete("rolebindings", ACCOUNT, NAMESPACE)

    async def refusal() -> str:
        ran = await operator("drain", "--no-wait", worker.name)
        return ran.err if ran.code else ""

    told = await until(refusal, SOUND_SECONDS, "the wish is refused")
    assert "patch" in told
    assert member_lease(worker.name) in told
    assert "Traceback" not in told
    looked = await operator("status")
    assert looked.code == 1
    assert "pods" in looked.err


async def said(operator: Operator) -> Any:
    """What `noctaya status` says."""
    ran = await operator("status", "--json")
    assert ran.code == 0, ran
    return ran.told


async def until_sound(operator: Operator) -> Any:
    """Wait until `noctaya verify` finds nothing; gives what `noctaya status` says then."""

    async def claim() -> bool:
        ran = await operator("verify")
        seen[:] = [ran]
        return ran.code == 0

    seen: list[Ran] = []
    try:
        await until(claim, SOUND_SECONDS, "noctaya verify finds nothing")
    except AssertionError as never:
        raise AssertionError(f"{never}; it says {seen}") from None
    return await said(operator)


async def _run(words: list[str], environment: dict[str, str]) -> Ran:
    process = await asyncio.create_subprocess_exec(
        *words,
        env=environment,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        async with asyncio.timeout(COMMAND_SECONDS):
            out, err = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    return Ran(process.returncode or 0, out.decode(), err.decode())


def _as_account(cluster: Cluster, token: str) -> dict[str, Any]:
    """The cluster's kubeconfig with the account's token in the administrator's place."""
    whole: dict[str, Any] = json.loads(cluster.directory.kubeconfig.read_text())
    (user,) = whole["users"]
    user["user"] = {"token": token}
    return whole
