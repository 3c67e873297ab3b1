"""What a container is given: variables, files, directories."""

from pathlib import Path

from noctaya.kube.resources import CONFIGMAPS, PODS, PVCS, SECRETS
from tests.local.agent.cluster import LocalCluster, container, is_ready, phase_is, until

PRINT_AND_WAIT = "import os, sys, signal\n{}\nsys.stdout.flush(); signal.sigwait({{15}})"


def read(path: Path) -> str:
    return path.read_text()


def mode(path: Path) -> int:
    return path.stat().st_mode


def files_below(path: Path) -> list[str]:
    return [found.relative_to(path).as_posix() for found in path.rglob("*") if found.is_file()]


async def test_variables_come_from_the_pod_its_secrets_and_its_config_maps(cluster: LocalCluster) -> None:
    await cluster.create(SECRETS, {"metadata": {"name": "keys"}, "stringData": {"token": "t0k"}})
    await cluster.create(
        CONFIGMAPS, {"metadata": {"name": "conf"}, "data": {"LEVEL": "debug", "mode": "fast"}}
    )

    def field(name: str, path: str) -> dict[str, object]:
        return {"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}}

    env = [
        field("NAME", "metadata.name"),
        field("NAMESPACE", "metadata.namespace"),
        field("APP", "metadata.labels['app']"),
        field("NODE", "spec.nodeName"),
        field("IP", "status.podIP"),
        {"name": "TOKEN", "valueFrom": {"secretKeyRef": {"name": "keys", "key": "token"}}},
        {"name": "MODE", "valueFrom": {"configMapKeyRef": {"name": "conf", "key": "mode"}}},
        {"name": "MAYBE", "valueFrom": {"secretKeyRef": {"name": "none", "key": "x", "optional": True}}},
        {"name": "URL", "value": "http://$(IP):80/$(NAME)$$(NAME)$(UNKNOWN)"},
    ]
    wanted = ["NAME", "NAMESPACE", "APP", "NODE", "TOKEN", "MODE", "C_LEVEL", "URL"]
    script = PRINT_AND_WAIT.format(
        f"for name in {wanted!r}: print(os.environ[name])\nprint('MAYBE' in os.environ, sys.argv[1])"
    )
    main = container(script, env=env, envFrom=[{"prefix": "C_", "configMapRef": {"name": "conf"}}])
    main["args"].append("--node=$(NODE)")
    await cluster.pod("envy", [main])
    pod = await cluster.until(PODS, "envy", is_ready)

    async def is_printed() -> bool:
        return "--node" in cluster.log_text("envy")

    await until(is_printed, 5, lambda: cluster.log_text("envy"))
    ip = pod["status"]["podIP"]
    assert cluster.log_text("envy").split("\n")[:9] == [
        "envy", "default", "envy", "local", "t0k", "fast", "debug", f"http://{ip}:80/envy$(NAME)$(UNKNOWN)",
        "False --node=local",
    ]  # fmt: skip


async def test_nothing_else_of_the_agents_environment_reaches_a_container(cluster: LocalCluster) -> None:
    await cluster.pod(
        "bare", [container("import os; print(' '.join(sorted(os.environ)))")], restartPolicy="Never"
    )
    await cluster.until(PODS, "bare", phase_is("Succeeded"))

    names = set(cluster.log_text("bare").split())
    assert "PATH" in names
    assert not {name for name in names if name.startswith(("PYTEST", "NOCTAYA", "KUBE"))}


async def test_secret_files_follow_their_secret_and_config_map_items_are_renamed(
    cluster: LocalCluster,
) -> None:
    await cluster.create(
        SECRETS, {"metadata": {"name": "keys"}, "stringData": {"token": "old", "other": "x"}}
    )
    await cluster.create(CONFIGMAPS, {"metadata": {"name": "conf"}, "data": {"a": "1", "b": "2"}})
    script = PRINT_AND_WAIT.format("print(sys.argv[1:])")
    main = container(
        script,
        volumeMounts=[{"name": "keys", "mountPath": "/etc/keys"}, {"name": "conf", "mountPath": "/etc/conf"}],
    )
    main["args"] += ["/etc/keys/token", "--conf=/etc/conf"]
    volumes = [
        {"name": "keys", "secret": {"secretName": "keys"}},
        {"name": "conf", "configMap": {"name": "conf", "items": [{"key": "a", "path": "sub/renamed"}]}},
    ]
    pod = await cluster.pod("files", [main], volumes=volumes)
    await cluster.until(PODS, "files", is_ready)

    root: Path = cluster.work_dir / "node" / "pods" / pod["metadata"]["uid"] / "volumes"
    token: Path = root / "keys" / "token"
    assert read(token) == "old"
    assert mode(token) & 0o077 == 0
    assert files_below(root / "conf") == ["sub/renamed"]
    await cluster.client.patch(SECRETS, "default", "keys", {"stringData": {"token": "new"}})

    async def is_new() -> bool:
        return read(token) == "new"

    await until(is_new, 5, lambda: read(token))

    async def has_printed() -> bool:
        return str(token) in cluster.log_text("files")

    await until(has_printed, 20, lambda: cluster.log_text("files"))
    assert f"--conf={root / 'conf'}" in cluster.log_text("files")


async def test_a_missing_secret_volume_is_told_and_tried_again(cluster: LocalCluster) -> None:
    volumes = [{"name": "keys", "secret": {"secretName": "late"}}]
    await cluster.pod("late", [container("import signal; signal.sigwait({15})")], volumes=volumes)
    await cluster.until_event("late", "FailedMount", "late")

    await cluster.create(SECRETS, {"metadata": {"name": "late"}, "stringData": {"a": "b"}})

    await cluster.until(PODS, "late", is_ready)


async def test_a_claim_is_a_directory_that_outlives_pods_and_goes_with_the_claim(
    cluster: LocalCluster,
) -> None:
    claim = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    await cluster.create(PVCS, {"metadata": {"name": "data"}, "spec": claim})
    await cluster.until(PVCS, "data", phase_is("Bound"))
    volumes = [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]
    mounts = [{"name": "data", "mountPath": "/data"}]
    for name, script in (
        ("writer", "import sys; open(sys.argv[1], 'w').write('kept')"),
        ("reader", "import sys; print(open(sys.argv[1]).read())"),
    ):
        main = container(script, volumeMounts=mounts)
        main["args"].append("/data/file")
        await cluster.pod(name, [main], volumes=volumes, restartPolicy="Never")
        await cluster.until(PODS, name, phase_is("Succeeded"))

    assert cluster.log_text("reader") == "kept\n"
    directories = list((cluster.work_dir / "volumes").iterdir())
    assert [d.name.startswith("default_data_") for d in directories] == [True]

    await cluster.client.delete(PVCS, "default", "data")

    async def is_removed() -> bool:
        return not list((cluster.work_dir / "volumes").iterdir())

    await until(is_removed, 5, lambda: "the directory stays")
