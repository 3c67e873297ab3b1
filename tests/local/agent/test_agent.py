"""The agent as a whole: on uvloop, restarted over the same API, and with a pod that it cannot read."""

import asyncio
from pathlib import Path

import uvloop

from noctaya.kube.resources import PODS
from noctaya.local.agent import NodeAgent, default_images
from tests.local.agent.cluster import (
    IMAGES,
    QUICK,
    LocalCluster,
    container,
    first_container,
    is_ready,
    local_cluster,
)

WAIT = "import signal; print('up', flush=True); signal.sigwait({15})"


def test_the_agent_works_on_uvloop(tmp_path: Path) -> None:
    async def work() -> None:
        async with local_cluster(tmp_path) as cluster:
            await cluster.pod("one", [container(WAIT)])
            await cluster.until(PODS, "one", is_ready)
            await cluster.until_logged("one", "up\n")
            await cluster.client.delete(PODS, "default", "one")
            await cluster.until_gone(PODS, "one")

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(work())


async def test_a_new_agent_starts_the_pods_of_the_old_one_again(tmp_path: Path) -> None:
    async with local_cluster(tmp_path) as cluster:
        await cluster.pod("stays", [container(WAIT)])
        await cluster.until(PODS, "stays", is_ready)
        table = default_images().with_images(IMAGES)
        # As after a restart of the machine: a second agent, with the first one's processes gone.
        second = NodeAgent(cluster.client, table, tmp_path / "second", QUICK)
        task = asyncio.create_task(second.run())
        try:
            pod = await cluster.until(
                PODS, "stays", lambda p: first_container(p).get("restartCount") == 1 and is_ready(p)
            )
            assert pod["status"]["phase"] == "Running"
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


async def test_a_pod_that_cannot_be_read_leaves_the_others_alone(cluster: LocalCluster) -> None:
    broken = {"livenessProbe": {"sleep": {"seconds": 1}}}
    body = {
        "metadata": {"name": "broken"},
        "spec": {"containers": [{"name": "main", "image": "python", **broken}]},
    }
    await cluster.create(PODS, body)
    await cluster.pod("fine", [container(WAIT)])

    await cluster.until(PODS, "fine", is_ready)
