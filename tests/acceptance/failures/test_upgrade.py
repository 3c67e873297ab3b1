"""Another image of Noctaya, by the page's own commands, while answers stream: none is cut, and no request finds nobody.

The fleet is first brought to an earlier version in a hurry; the upgrade itself then ends with what the session has installed.
Both are the same content under two tags: what is tested is the way from one to the other.
"""

import asyncio
import os
import re
from functools import partial
from pathlib import Path

import pytest

from tests.acceptance.api import Api
from tests.acceptance.failures.scene import BUSY, NAPPERS, SETTLE_SECONDS, scene
from tests.acceptance.fleet import NAMESPACE, SIZE, Fleet, Role
from tests.acceptance.waiting import until
from tests.cluster.cluster import ROOT, Cluster
from tests.cluster.node import CTR
from tests.cluster.processes import run

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(900)]

IMAGE, SHIPPED, EARLIER = "docker.io/library/noctaya", "0.1.0", "0.0.9"
COMMANDS_SECONDS = 600.0
LONG_TOKENS = 100
"""At a tenth of a second each: longer than a gateway goes on accepting after its SIGTERM."""


@pytest.fixture
def earlier(installed: Cluster) -> None:
    """The fleet at an earlier version. The worker's 35 s are left out on this way only: nothing is claimed of it."""
    kubectl = installed.kubectl
    tag = [*installed.enter(everything=True), *CTR, "images", "tag", "--force"]
    run([*tag, f"{IMAGE}:{SHIPPED}", f"{IMAGE}:{EARLIER}"])
    for role in ("worker", "gateway"):
        kubectl(
            "set", "image", f"deployment/noctaya-{role}", f"{role}=noctaya:{EARLIER}", namespace=NAMESPACE
        )
    hurry = '[{"op": "replace", "path": "/spec/minReadySeconds", "value": 0}]'
    kubectl("patch", "deployment/noctaya-worker", "--type=json", "--patch", hurry, namespace=NAMESPACE)
    for role in ("worker", "gateway"):
        rollout = ("rollout", "status", f"deployment/noctaya-{role}", "--timeout=300s")
        kubectl(*rollout, namespace=NAMESPACE, timeout_seconds=310)


@pytest.mark.usefixtures("earlier")
async def test_an_upgrade_by_the_page_cuts_no_stream_and_refuses_no_request(
    cluster: Cluster, api: Api, fleet: Fleet, namespace: str
) -> None:
    assert await _tags(fleet) == {EARLIER}
    async with scene(cluster, api, fleet, namespace) as stage:
        (long,) = await stage.add("long", gentle=True, tokens=LONG_TOKENS, delay="100ms")
        (sleeper,) = await stage.add("sleeper", gentle=True)
        await stage.background(long, sleeper)
        for _ in range(3):
            stage.start(stage.traffic.keep_busy(long.model), "client with long answers")
        before = [pod.name for pod in await fleet.pods("gateway")]
        began = stage.mark("the page's commands")
        commands = asyncio.create_task(asyncio.to_thread(run_page, cluster, "Upgrade"))
        await until(partial(_is_ending, fleet), SETTLE_SECONDS, "the first old worker is told to end")
        asked = stage.ask(sleeper)
        await stage.until_answered(asked)
        assert len(await _tags(fleet, "worker")) == 2, (
            "every worker was replaced before the wake was answered"
        )
        stage.cost("Upgrade: a wake asked as the first worker ends is answered after", asked.waited())
        await commands
        rolled = stage.mark("the last command is done")
        await until(lambda: _is_replaced(fleet, before), SETTLE_SECONDS, "every old gateway has gone")
        await fleet.until_whole(SETTLE_SECONDS)
        stage.cost("Upgrade: until the commands return", rolled - began)
        stage.cost("Upgrade: until the last old pod has gone", stage.mark("done") - began)
        assert await _tags(fleet) == {SHIPPED}
        warm = [r for r in stage.account.requests if r.model.endswith(f"/{BUSY}") and r.began > began]
        slowest = max(r.waited() for r in warm if r.first_byte is not None)
        stage.cost("Upgrade: the slowest warm request's first byte", slowest)
        # Whoever is asked while workers are replaced wakes; `scene` has checked that none of these was lost.
        cold = [r for r in stage.account.requests if r.model.endswith(NAPPERS) and began < r.began < rolled]
        assert cold, "nobody woke a model during the upgrade"
        stage.cost(
            f"Upgrade: the slowest of {len(cold)} wakes", max(r.waited() for r in cold if r.first_byte)
        )


def run_page(cluster: Cluster, section: str) -> None:
    """The shell commands of a section of docs/install.md, word for word, from the project's root."""
    page = (ROOT / "docs" / "install.md").read_text()
    (text,) = re.findall(rf"^## {section}\n(.*?)(?=^## |\Z)", page, re.DOTALL | re.MULTILINE)
    commands = "\n".join(re.findall(r"```bash\n(.*?)```", text, re.DOTALL))
    assert commands, f"no commands below {section}"
    programs = cluster.kubectl.program.parent
    run(
        [*cluster.enter(), "bash", "-euc", f"cd {_quoted(ROOT)}\n{commands}"],
        environment={**cluster.kubectl.environment, "PATH": f"{programs}:{os.environ['PATH']}"},
        timeout_seconds=COMMANDS_SECONDS,
    )


def _quoted(path: Path) -> str:
    return f"'{path}'"


async def _is_ending(fleet: Fleet) -> bool:
    return any("deletionTimestamp" in pod["metadata"] for pod in await fleet.objects("worker"))


async def _tags(fleet: Fleet, *roles: Role) -> set[str]:
    pods = [pod for role in roles or SIZE for pod in await fleet.objects(role)]
    return {pod["spec"]["containers"][0]["image"].rpartition(":")[2] for pod in pods}


async def _is_replaced(fleet: Fleet, before: list[str]) -> bool:
    names = {pod["metadata"]["name"] for pod in await fleet.objects("gateway")}
    return len(names) == 2 and names.isdisjoint(before)
