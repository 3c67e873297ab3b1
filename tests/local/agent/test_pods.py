"""Pods as real processes: start, end, restart, and what kubectl is told about it."""

import socket

import pytest

from noctaya.kube.resources import PODS, SECRETS
from tests.local.agent.cluster import (
    LocalCluster,
    container,
    first_container,
    is_ready,
    phase_is,
    until,
    waiting_reason,
)

FOREVER = "import signal; signal.sigwait({15})"


async def test_a_pod_runs_and_is_removed_when_deleted(cluster: LocalCluster) -> None:
    await cluster.pod("one", [container(f"print('hello', flush=True); {FOREVER}")])

    pod = await cluster.until(PODS, "one", is_ready)

    status = pod["status"]
    assert status["phase"] == "Running"
    assert status["podIP"].startswith("127.")
    assert status["podIP"] != "127.0.0.1"
    assert status["hostIP"] == "127.0.0.1"
    assert status["qosClass"] == "BestEffort"
    assert status["startTime"]
    assert first_container(pod)["state"]["running"]["startedAt"]
    assert {c["type"]: c["status"] for c in status["conditions"]} == {
        "PodReadyToStartContainers": "True",
        "PodScheduled": "True",
        "Initialized": "True",
        "ContainersReady": "True",
        "Ready": "True",
    }
    for reason in ("Scheduled", "Pulled", "Created", "Started"):
        await cluster.until_event("one", reason)

    await cluster.client.delete(PODS, "default", "one")
    await cluster.until_gone(PODS, "one")
    await cluster.until_event("one", "Killing", "Stopping container main")
    assert not list((cluster.work_dir / "node" / "pods").iterdir())
    assert not list((cluster.work_dir / "node" / "logs").iterdir())


async def test_every_pod_has_its_own_address_so_ports_stay_as_written(cluster: LocalCluster) -> None:
    script = (
        "import os, socket, signal; s = socket.create_server((os.environ['MY_IP'], 8000)); "
        "signal.pthread_sigmask(signal.SIG_BLOCK, {15}); signal.sigwait({15})"
    )
    env = [{"name": "MY_IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}]
    probe = {"tcpSocket": {"port": "http"}, "periodSeconds": 1}
    ports = [{"name": "http", "containerPort": 8000}]
    for name in ("one", "two"):
        await cluster.pod(name, [container(script, env=env, readinessProbe=probe, ports=ports)])

    pods = [await cluster.until(PODS, name, is_ready) for name in ("one", "two")]

    addresses = {pod["status"]["podIP"] for pod in pods}
    assert len(addresses) == 2
    for address in addresses:
        socket.create_connection((address, 8000), timeout=1).close()


async def test_a_container_that_keeps_crashing_backs_off(cluster: LocalCluster) -> None:
    await cluster.pod("crash", [container("import sys; print('bye', flush=True); sys.exit(3)")])

    pod = await cluster.until(PODS, "crash", lambda p: waiting_reason(p) == "CrashLoopBackOff")

    status = first_container(pod)
    assert pod["status"]["phase"] == "Running"
    assert status["lastState"]["terminated"]["exitCode"] == 3
    assert status["lastState"]["terminated"]["reason"] == "Error"
    assert "restarting failed container=main" in status["state"]["waiting"]["message"]
    assert status["restartCount"] >= 1
    assert not status["ready"]
    await cluster.until(PODS, "crash", lambda p: first_container(p)["restartCount"] >= 2)
    await cluster.until_event("crash", "BackOff", "Back-off restarting failed container main")
    assert cluster.log_text("crash", previous=True) == "bye\n"


async def test_an_unknown_image_fails_as_a_pull_fails(cluster: LocalCluster) -> None:
    await cluster.pod("nope", [container("", image="registry.example/nope:v1")])

    await cluster.until(PODS, "nope", lambda p: waiting_reason(p) == "ErrImagePull")
    pod = await cluster.until(PODS, "nope", lambda p: waiting_reason(p) == "ImagePullBackOff")

    assert pod["status"]["phase"] == "Pending"
    assert "registry.example/nope:v1" in first_container(pod)["state"]["waiting"]["message"]
    await cluster.until_event("nope", "Failed", "Error: ErrImagePull")
    await cluster.until_event("nope", "BackOff", 'Back-off pulling image "registry.example/nope:v1"')


async def test_a_missing_secret_keeps_a_container_waiting_until_it_is_there(cluster: LocalCluster) -> None:
    env = [{"name": "TOKEN", "valueFrom": {"secretKeyRef": {"name": "keys", "key": "token"}}}]
    await cluster.pod(
        "waits", [container(f"import os; print(os.environ['TOKEN'], flush=True); {FOREVER}", env=env)]
    )

    pod = await cluster.until(PODS, "waits", lambda p: waiting_reason(p) == "CreateContainerConfigError")
    assert first_container(pod)["state"]["waiting"]["message"] == 'secret "keys" not found'
    await cluster.create(SECRETS, {"metadata": {"name": "keys"}, "stringData": {"token": "s3cret"}})

    await cluster.until(PODS, "waits", is_ready)
    await cluster.until_logged("waits", "s3cret\n")
    assert all("s3cret" not in message for _, message in await cluster.events("waits"))


@pytest.mark.parametrize(("code", "phase"), [(0, "Succeeded"), (7, "Failed")])
async def test_a_pod_that_may_not_restart_ends_in_its_phase(
    cluster: LocalCluster, code: int, phase: str
) -> None:
    script = f"import sys; sys.exit({code})"
    await cluster.pod("once", [container(script)], restartPolicy="Never")

    pod = await cluster.until(PODS, "once", phase_is(phase))

    ended = first_container(pod)["state"]["terminated"]
    assert ended["exitCode"] == code
    assert ended["reason"] == ("Completed" if code == 0 else "Error")
    assert first_container(pod)["restartCount"] == 0


async def test_init_containers_run_one_after_the_other_before_the_rest(cluster: LocalCluster) -> None:
    mounts = [{"name": "work", "mountPath": "/work"}]

    def step(text: str) -> str:
        return f"import sys; open(sys.argv[1], 'a').write({text!r})"

    init = [
        {"name": name, "image": "python", "args": [step(name), "/work/steps"], "volumeMounts": mounts}
        for name in ("first", "second")
    ]
    main = {
        "name": "main",
        "image": "python",
        "args": [f"import sys; print(open(sys.argv[1]).read(), flush=True); {FOREVER}", "/work/steps"],
        "volumeMounts": mounts,
    }
    await cluster.pod("steps", [main], initContainers=init, volumes=[{"name": "work", "emptyDir": {}}])

    pod = await cluster.until(PODS, "steps", is_ready)

    await cluster.until_logged("steps", "firstsecond\n")
    assert [s["state"]["terminated"]["reason"] for s in pod["status"]["initContainerStatuses"]] == [
        "Completed"
    ] * 2


async def test_a_failing_init_container_fails_a_pod_that_may_not_restart(cluster: LocalCluster) -> None:
    init = [container("import sys; sys.exit(1)", name="init")]
    await cluster.pod("stuck", [container(FOREVER)], initContainers=init, restartPolicy="Never")

    pod = await cluster.until(PODS, "stuck", phase_is("Failed"))

    assert waiting_reason(pod) == "PodInitializing"
    assert "Initialized" in {c["type"] for c in pod["status"]["conditions"] if c["status"] == "False"}


async def test_a_process_killed_by_a_signal_is_128_plus_its_number(cluster: LocalCluster) -> None:
    await cluster.pod("killed", [container("import os; os.kill(os.getpid(), 9)")], restartPolicy="Never")

    pod = await cluster.until(PODS, "killed", phase_is("Failed"))

    assert first_container(pod)["state"]["terminated"]["exitCode"] == 137


async def test_a_program_that_is_not_there_is_a_start_error(cluster: LocalCluster) -> None:
    await cluster.pod(
        "gone", [{"name": "main", "image": "sh", "command": ["/no/such"]}], restartPolicy="Never"
    )

    pod = await cluster.until(PODS, "gone", phase_is("Failed"))

    ended = first_container(pod)["state"]["terminated"]
    assert (ended["reason"], ended["exitCode"]) == ("StartError", 128)
    assert "/no/such" in ended["message"]


async def test_the_termination_message_is_what_the_program_wrote_or_the_end_of_its_log(
    cluster: LocalCluster,
) -> None:
    writes = container("import sys; open(sys.argv[1], 'w').write('done: 42')")
    writes["args"].append("/dev/termination-log")
    logs = container("import sys; print('it broke'); sys.exit(1)", name="logs")
    logs["terminationMessagePolicy"] = "FallbackToLogsOnError"
    await cluster.pod("words", [writes, logs], restartPolicy="Never")

    pod = await cluster.until(PODS, "words", phase_is("Failed"))

    messages = {s["name"]: s["state"]["terminated"]["message"] for s in pod["status"]["containerStatuses"]}
    assert messages == {"main": "done: 42", "logs": "it broke"}


async def test_a_pod_deleted_while_its_image_is_missing_goes_at_once(cluster: LocalCluster) -> None:
    await cluster.pod("nope", [container("", image="nope")])
    await cluster.until(PODS, "nope", lambda p: waiting_reason(p) != "")

    await cluster.client.delete(PODS, "default", "nope")

    await cluster.until_gone(PODS, "nope")


async def test_a_namesake_gets_a_fresh_start(cluster: LocalCluster) -> None:
    await cluster.pod("same", [container(FOREVER)])
    old = await cluster.until(PODS, "same", is_ready)
    await cluster.client.delete(PODS, "default", "same", grace_period_seconds=0)
    await cluster.until_gone(PODS, "same")

    await cluster.pod("same", [container(FOREVER)])
    new = await cluster.until(PODS, "same", is_ready)

    assert new["metadata"]["uid"] != old["metadata"]["uid"]
    assert new["status"]["podIP"] != old["status"]["podIP"]

    async def one_left() -> bool:
        return len(list((cluster.work_dir / "node" / "pods").iterdir())) == 1

    await until(one_left, 3, lambda: "the first pod's directory stays")
