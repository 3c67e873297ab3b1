"""Finding the cluster: kubeconfigs as kubectl reads them, the service account, and refusals that name what is wrong."""

from __future__ import annotations

import base64
import json
import os
import stat
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from noctaya.kube.client import Client
from noctaya.kube.config import ClusterConfig, Pem, PluginToken, StaticToken, TokenFile, in_cluster
from noctaya.kube.credentials import FileCredentials
from noctaya.kube.errors import ConfigError, Unauthorized
from tests.kube.fake_server import FakeServer, status

PEM = b"-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n"


@pytest.fixture(autouse=True)
def no_cluster_of_its_own(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("KUBECONFIG", "KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))


def write(path: Path, cluster: dict[str, Any], user: dict[str, Any], **context: Any) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    content = {
        "current-context": "here",
        "contexts": [{"name": "here", "context": {"cluster": "c", "user": "u", **context}}],
        "clusters": [{"name": "c", "cluster": {"server": "https://api:6443/", **cluster}}],
        "users": [{"name": "u", "user": user}],
    }
    path.write_text(yaml.safe_dump(content))
    return str(path)


def test_data_wins_over_files_and_paths_are_relative_to_the_file(tmp_path: Path) -> None:
    user = {
        "client-certificate": "pki/me.crt",
        "client-key": "/abs/me.key",
        "tokenFile": "token",
        "token": "inline",
    }
    cluster = {
        "certificate-authority": "ca.crt",
        "certificate-authority-data": base64.b64encode(PEM).decode(),
        "tls-server-name": "kubernetes.default",
        "proxy-url": "http://proxy:3128",
        "insecure-skip-tls-verify": True,
    }
    config = ClusterConfig.load(write(tmp_path / "a" / "config", cluster, user, namespace="models"))
    assert config.server == "https://api:6443"
    assert config.ca == Pem(data=PEM)
    assert config.client_certificate is not None
    assert config.client_certificate.certificate.path == tmp_path / "a" / "pki" / "me.crt"
    assert config.client_certificate.key.path == Path("/abs/me.key")
    assert config.token == TokenFile(tmp_path / "a" / "token")
    assert (config.namespace, config.insecure, config.tls_server_name) == (
        "models",
        True,
        "kubernetes.default",
    )
    assert config.proxy_url == "http://proxy:3128"


def test_a_token_is_never_printed(tmp_path: Path) -> None:
    config = ClusterConfig.load(write(tmp_path / "config", {}, {"token": "s3cret"}))
    assert config.token == StaticToken("s3cret")
    assert "s3cret" not in repr(config)


def test_the_first_of_several_files_wins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = write(tmp_path / "1", {}, {"token": "one"})
    second = tmp_path / "2"
    content = yaml.safe_load((tmp_path / "1").read_text())
    content["users"].append({"name": "other", "user": {"token": "two"}})
    content["users"][0]["user"]["token"] = "shadowed"
    content["contexts"].append({"name": "there", "context": {"cluster": "c", "user": "other"}})
    content["current-context"] = "there"
    second.write_text(yaml.safe_dump(content))
    monkeypatch.setenv("KUBECONFIG", os.pathsep.join([str(tmp_path / "missing"), first, str(second)]))
    assert ClusterConfig.load().token == StaticToken("one")
    assert ClusterConfig.load(context="there").token == StaticToken("two")


def test_home_is_looked_at_after_the_environment(tmp_path: Path) -> None:
    write(tmp_path / "home" / ".kube" / "config", {}, {"token": "home"})
    assert ClusterConfig.load().token == StaticToken("home")


def test_nothing_at_all_says_what_was_tried() -> None:
    with pytest.raises(ConfigError, match=r"no kubeconfig was given, \$KUBECONFIG is not set"):
        ClusterConfig.load()


def test_a_named_file_that_is_missing_is_not_replaced_by_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path / "home" / ".kube" / "config", {}, {"token": "home"})
    with pytest.raises(ConfigError, match="nowhere does not exist"):
        ClusterConfig.load("/nowhere")
    monkeypatch.setenv("KUBECONFIG", "/nowhere")
    with pytest.raises(ConfigError, match="nowhere does not exist"):
        ClusterConfig.load()


@pytest.mark.parametrize(
    ("cluster", "user", "message"),
    [
        ({}, {"username": "u", "password": "p"}, "passwords are not supported"),
        ({}, {"token": "t", "as": "root"}, "impersonation"),
        ({}, {"client-certificate": "a.crt"}, "only work together"),
        ({}, {"auth-provider": {"name": "azure"}}, "'azure' is not supported"),
        ({"certificate-authority-data": "%%%"}, {}, "certificate-authority-data is not base64"),
        ({"server": ""}, {}, "no server"),
        ({"server": "api:6443"}, {}, "not an http"),
        ({"server": "http://api:8080"}, {"token": "t"}, "in the clear"),
        ({"proxy-url": "socks5://p:1"}, {}, "proxy-url must be http"),
    ],
)
def test_what_cannot_work_is_refused_by_name(
    tmp_path: Path, cluster: dict[str, Any], user: dict[str, Any], message: str
) -> None:
    path = write(tmp_path / "config", cluster, user)
    with pytest.raises(ConfigError, match=message):
        ClusterConfig.load(path)


def test_an_unknown_context_lists_the_known_ones(tmp_path: Path) -> None:
    path = write(tmp_path / "config", {}, {})
    with pytest.raises(ConfigError, match="no context 'nope'; there are: here"):
        ClusterConfig.load(path, context="nope")


def test_a_file_that_is_not_yaml_is_named(tmp_path: Path) -> None:
    path = tmp_path / "config"
    path.write_text("a: [")
    with pytest.raises(ConfigError, match="cannot read kubeconfig"):
        ClusterConfig.load(str(path))


@pytest.fixture
def service_account(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "sa"
    folder.mkdir()
    (folder / "token").write_text("first\n")
    (folder / "ca.crt").write_bytes(PEM)
    (folder / "namespace").write_text("noctaya-system")
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "fd00::1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "6443")
    return folder


def test_a_pod_uses_its_service_account(service_account: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("noctaya.kube.config.SERVICE_ACCOUNT", service_account)
    config = in_cluster(service_account)
    assert config.server == "https://[fd00::1]:6443"
    assert config.ca == Pem(path=service_account / "ca.crt")
    assert config.token == TokenFile(service_account / "token")
    assert config.namespace == "noctaya-system"
    with pytest.raises(ConfigError, match="no contexts"):
        ClusterConfig.load(context="x")
    (service_account / "token").unlink()
    with pytest.raises(ConfigError, match="automountServiceAccountToken"):
        in_cluster(service_account)


async def test_a_token_file_is_read_again_once_a_minute(service_account: Path) -> None:
    now = 1000.0
    credentials = FileCredentials(TokenFile(service_account / "token"), lambda: now)
    assert await credentials.authorization() == "Bearer first"
    (service_account / "token").write_text("second")
    now += 59
    assert await credentials.authorization() == "Bearer first"
    now += 1
    assert await credentials.authorization() == "Bearer second"
    (service_account / "token").unlink()
    now += 60
    assert await credentials.authorization() == "Bearer second", (
        "a file that is gone for a moment stops nothing"
    )


def write_plugin(tmp_path: Path, *, expires: str | None = None) -> tuple[str, Path]:
    """An exec plugin that counts its runs and gives `token-<run>`."""
    runs = tmp_path / "runs"
    runs.write_text("0")
    plugin = tmp_path / "plugin.py"
    answer: dict[str, Any] = {"token": "token-%d"}
    if expires:
        answer["expirationTimestamp"] = expires
    plugin.write_text(
        f"#!{sys.executable}\n"
        "from pathlib import Path\n"
        f"runs = Path({str(runs)!r}); n = int(runs.read_text()) + 1; runs.write_text(str(n))\n"
        "api = 'client.authentication.k8s.io/v1'\n"
        f"answer = {json.dumps(answer)!r}.replace('%d', str(n))\n"
        'print(\'{"apiVersion": "%s", "kind": "ExecCredential", "status": %s}\' % (api, answer))\n'
    )
    plugin.chmod(plugin.stat().st_mode | stat.S_IXUSR)
    command = {"apiVersion": "client.authentication.k8s.io/v1", "command": str(plugin)}
    return str(plugin), write_kubeconfig_for(tmp_path, command)


def write_kubeconfig_for(tmp_path: Path, command: dict[str, Any]) -> Path:
    path = tmp_path / "config"
    write(path, {"server": "http://127.0.0.1:1"}, {"exec": command})
    return path


async def test_an_exec_plugin_is_run_once_and_again_after_a_401(server: FakeServer, tmp_path: Path) -> None:
    plugin, path = write_plugin(tmp_path, expires="2100-01-01T00:00:00Z")
    before = path.read_text()
    config = ClusterConfig.load(str(path))
    assert isinstance(config.token, PluginToken)
    assert config.token.described == f"exec {plugin}"

    async def refused(_: Any) -> Any:
        return status(401, "Unauthorized", "Unauthorized")

    async with Client(server.config(token=config.token)) as client:
        await client.version()
        await client.version()
        server.next(refused)
        await client.version()
    tokens = [one.headers["Authorization"] for one in server.seen]
    assert tokens == ["Bearer token-1", "Bearer token-1", "Bearer token-1", "Bearer token-2"]
    assert path.read_text() == before, "the user's file is never written"


async def test_a_plugin_that_fails_is_named(server: FakeServer, tmp_path: Path) -> None:
    path = write_kubeconfig_for(
        tmp_path, {"apiVersion": "client.authentication.k8s.io/v1", "command": "/bin/false"}
    )
    config = ClusterConfig.load(str(path))
    async with Client(server.config(token=config.token)) as client:
        with pytest.raises(Unauthorized, match="exec /bin/false gave no credentials"):
            await client.version()
