"""Noctaya's roles as containers, as near to the manifests as a Docker engine without Kubernetes allows.

Read-only root, nobody, no capabilities, the service account's files where a kubelet puts them; the machine's network, with
ports of their own on loopback. How it fails: an assertion with the container's last words.
"""

import json
import time
import urllib.error
import urllib.request
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from testcontainers.core.container import DockerContainer

from deploy.image.contents import NOBODY
from tests.ports import free_ports

READY_SECONDS = 60.0
TICK_SECONDS = 0.05
SERVICE_ACCOUNT = "/var/run/secrets/kubernetes.io/serviceaccount"
IMAGE = "noctaya:0.1.0"


@dataclass(frozen=True, slots=True)
class Role:
    """A container of the product's image."""

    container: DockerContainer
    admin: str
    """URL of the admin port."""
    url: str = ""
    """URL of the public port, for a gateway."""
    control: str = ""
    """Address of the control port, for a worker."""

    def wait_ready(self) -> dict[str, Any]:
        """What `/readyz` says once it says yes."""
        deadline = time.monotonic() + READY_SECONDS
        while True:
            status, body = ask(f"{self.admin}/readyz")
            if status == 200:
                return dict(body)
            assert self.state()["Running"], f"the container has ended: {self.log()}"
            assert time.monotonic() < deadline, f"not ready ({status} {body}): {self.log()}"
            time.sleep(TICK_SECONDS)

    def shards(self) -> int:
        """How many shards a worker owns, by its own count."""
        with urllib.request.urlopen(f"{self.admin}/metrics", timeout=READY_SECONDS) as answer:
            for line in answer.read().decode().splitlines():
                if line.startswith("noctaya_worker_shards "):
                    return int(float(line.rpartition(" ")[2]))
        raise AssertionError("the worker does not say how many shards it owns")

    def state(self) -> dict[str, Any]:
        """The container's state, as the engine has it now."""
        found = self.container.get_wrapped_container()
        found.reload()
        return dict(found.attrs["State"])

    def log(self) -> str:
        """All that it said."""
        out, err = self.container.get_logs()
        return (out + err).decode(errors="replace")

    def run(self, program: str) -> str:
        """What a Python program prints that runs beside the role, in its container."""
        done = self.container.exec(["python3", "-c", program])
        assert done.exit_code == 0, done.output.decode()
        return str(done.output.decode())


def worker(account: Path, name: str = "worker") -> Role:
    """A worker against the API server that wrote `account` (`api_server`); not started."""
    role = _worker(name)
    host, _, port = (account / "url").read_text().removeprefix("https://").partition(":")
    role.container.with_envs(KUBERNETES_SERVICE_HOST=host, KUBERNETES_SERVICE_PORT=port)
    role.container.with_volume_mapping(str(account), SERVICE_ACCOUNT, "ro")
    return role


def worker_with_kubeconfig(kubeconfig: Path) -> Role:
    """A worker against the API server that a kubeconfig leads to; not started."""
    role = _worker("worker")
    role.container.with_env("NOCTAYA_KUBE__KUBECONFIG", "/etc/kubeconfig")
    role.container.with_volume_mapping(str(kubeconfig), "/etc/kubeconfig", "ro")
    return role


def gateway(workers: str, name: str = "gateway") -> Role:
    """A gateway whose first contact is `workers`; not started."""
    http, admin = free_ports(2)
    environment = {
        "NOCTAYA_HTTP__HOST": "127.0.0.1",
        "NOCTAYA_HTTP__PORT": str(http),
        "NOCTAYA_ADMIN__HOST": "127.0.0.1",
        "NOCTAYA_ADMIN__PORT": str(admin),
        "NOCTAYA_LINK__WORKERS": workers,
        "NOCTAYA_DRAIN__PROPAGATION_SECONDS": "0.2",
        "NOCTAYA_SNAPSHOT_DIR": "/var/lib/noctaya",
    }
    container = _container("gateway", name, environment)
    container.with_tmpfs_mount("/var/lib/noctaya", f"uid={NOBODY},size=64m")
    return Role(container, admin=f"http://127.0.0.1:{admin}", url=f"http://127.0.0.1:{http}")


def _worker(name: str) -> Role:
    scaler, control, admin = free_ports(3)
    environment = {
        "NOCTAYA_SCALER__HOST": "127.0.0.1",
        "NOCTAYA_SCALER__PORT": str(scaler),
        "NOCTAYA_SCALER__PROBE_ADDRESS": f"127.0.0.1:{scaler}",
        "NOCTAYA_SCALER__DRAIN_SPREAD_SECONDS": "0",
        "NOCTAYA_CONTROL__HOST": "127.0.0.1",
        "NOCTAYA_CONTROL__PORT": str(control),
        "NOCTAYA_CONTROL__ADVERTISE": f"127.0.0.1:{control}",
        "NOCTAYA_ADMIN__HOST": "127.0.0.1",
        "NOCTAYA_ADMIN__PORT": str(admin),
    }
    container = _container("worker", name, environment)
    return Role(container, admin=f"http://127.0.0.1:{admin}", control=f"127.0.0.1:{control}")


def _container(role: str, name: str, environment: dict[str, str]) -> DockerContainer:
    named = {
        "NOCTAYA_POD__NAME": name,
        "NOCTAYA_POD__NAMESPACE": "noctaya-system",
        "NOCTAYA_LOG__FORMAT": "json",
    }
    container = DockerContainer(IMAGE).with_command(role).with_envs(**named, **environment)
    return container.with_kwargs(
        network_mode="host", read_only=True, cap_drop=["ALL"], security_opt=["no-new-privileges"]
    )


def ask(url: str, body: object = None) -> tuple[int, Any]:
    """(status, decoded JSON) of a GET, or of a POST where there is a body; status 0 when nobody listens."""
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data, {"content-type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=READY_SECONDS) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as refusal:
        with refusal:
            return refusal.code, json.load(refusal)
    except (urllib.error.URLError, ConnectionError) as failure:
        return 0, str(failure)
