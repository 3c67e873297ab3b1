"""How containers are ended: preStop, SIGTERM, grace period, SIGKILL of the whole group."""

import asyncio
import os
import time
from pathlib import Path

from noctaya.kube.resources import PODS
from tests.local.agent.cluster import LocalCluster, container, is_ready, local_cluster, until

IGNORES_TERM = "import signal, time; signal.signal(15, signal.SIG_IGN); print('up', flush=True)\nwhile True: time.sleep(9)"


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


async def pid_in_log(cluster: LocalCluster, pod: str) -> int:
    async def written() -> bool:
        return cluster.log_text(pod).strip().isdigit()

    await until(written, 5, lambda: f"log of {pod}: {cluster.log_text(pod)!r}")
    return int(cluster.log_text(pod))


async def test_a_process_that_ignores_sigterm_is_killed_after_the_grace_period(cluster: LocalCluster) -> None:
    await cluster.pod("deaf", [container(IGNORES_TERM)], terminationGracePeriodSeconds=1)
    await cluster.until(PODS, "deaf", is_ready)

    await cluster.until_logged("deaf", "up\n")
    started = time.monotonic()
    await cluster.client.delete(PODS, "default", "deaf")
    await cluster.until_gone(PODS, "deaf")

    assert 0.9 <= time.monotonic() - started < 3


async def test_force_deletion_waits_for_nothing(cluster: LocalCluster) -> None:
    await cluster.pod("deaf", [container(IGNORES_TERM)], terminationGracePeriodSeconds=600)
    await cluster.until(PODS, "deaf", is_ready)

    await cluster.client.delete(PODS, "default", "deaf")  # would take ten minutes
    await cluster.client.delete(PODS, "default", "deaf", grace_period_seconds=0)

    await cluster.until_gone(PODS, "deaf")

    async def is_cleaned() -> bool:
        return not list((cluster.work_dir / "node" / "pods").iterdir())

    await until(is_cleaned, 3, lambda: "its directory stays")


async def test_prestop_runs_before_sigterm(cluster: LocalCluster, tmp_path: Path) -> None:
    story = tmp_path / "story"
    program = (
        "import signal, sys\n"
        "def end(*_):\n"
        f"    open({str(story)!r}, 'a').write('term '); sys.exit(0)\n"
        "signal.signal(15, end); print('up', flush=True)\n"
        "while True: signal.pause()"
    )
    hook = {"exec": {"command": ["/bin/sh", "-c", f"printf 'stop ' >> {story}; sleep 0.2"]}}
    await cluster.pod("polite", [container(program, lifecycle={"preStop": hook})])
    await cluster.until(PODS, "polite", is_ready)

    await cluster.until_logged("polite", "up\n")
    await cluster.client.delete(PODS, "default", "polite")
    await cluster.until_gone(PODS, "polite")

    assert story.read_text() == "stop term "


async def test_a_prestop_that_takes_too_long_is_cut_by_the_grace_period(cluster: LocalCluster) -> None:
    hook = {"sleep": {"seconds": 60}}
    wait = "import signal; signal.sigwait({15})"
    await cluster.pod("slow", [container(wait, lifecycle={"preStop": hook})], terminationGracePeriodSeconds=1)
    await cluster.until(PODS, "slow", is_ready)

    started = time.monotonic()
    await cluster.client.delete(PODS, "default", "slow")
    await cluster.until_gone(PODS, "slow")

    assert time.monotonic() - started < 3


async def test_children_of_a_container_die_with_it(cluster: LocalCluster) -> None:
    script = "sleep 1000 & echo $!; wait"
    await cluster.pod("parent", [container(script, image="sh")])
    await cluster.until(PODS, "parent", is_ready)
    child = await pid_in_log(cluster, "parent")
    assert is_alive(child)

    await cluster.client.delete(PODS, "default", "parent")
    await cluster.until_gone(PODS, "parent")

    async def is_dead() -> bool:
        return not is_alive(child)

    await until(is_dead, 3, lambda: f"process {child} is still there")


async def test_an_agent_that_ends_takes_its_processes_along(tmp_path: Path) -> None:
    async with local_cluster(tmp_path) as cluster:
        await cluster.pod(
            "deaf", [container("sleep 1000 & echo $$$$; trap '' TERM; wait; sleep 1000", image="sh")]
        )
        await cluster.until(PODS, "deaf", is_ready)
        pid = await pid_in_log(cluster, "deaf")
        started = asyncio.get_running_loop().time()

    assert asyncio.get_running_loop().time() - started < 6
    assert not is_alive(pid)
