"""An embedded cluster as a process of its own, as a user starts it, and the handles that a test needs.

`noctaya local` runs in a child process; tests reach it with kubectl-like calls (our own client), the real `openai` client
and signals. Its children are the roles' processes: a test finds one by what it runs and may kill it.
"""

import base64
import os
import signal
import ssl
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx2
import openai
import yaml

START_SECONDS = 60.0
STOP_SECONDS = 30.0
PATHS = {
    "deployments": "/apis/apps/v1",
    "llmservices": "/apis/serving.noctaya.io/v1alpha1",
    "pods": "/api/v1",
    "scaledobjects": "/apis/keda.sh/v1alpha1",
    "services": "/api/v1",
}
"""Where a kind's objects are."""


def api_client(kubeconfig: Path) -> httpx2.Client:
    """A bare HTTP client of the API server that `kubeconfig` names."""
    config = yaml.safe_load(kubeconfig.read_text())
    cluster, user = config["clusters"][0]["cluster"], config["users"][0]["user"]
    authority = base64.b64decode(cluster["certificate-authority-data"]).decode()
    return httpx2.Client(
        base_url=cluster["server"],
        headers={"authorization": f"Bearer {user['token']}"},
        verify=ssl.create_default_context(cadata=authority),
        timeout=30,
    )


@dataclass(slots=True)
class EmbeddedCluster:
    """A running `noctaya local` and how to reach it."""

    process: subprocess.Popen[bytes]
    kubeconfig: Path
    port: int
    log: Path
    api: httpx2.Client = field(default_factory=httpx2.Client)
    """Connected to the API server once the cluster runs."""

    @classmethod
    def start(cls, directory: Path, port: int, *arguments: str) -> "EmbeddedCluster":
        """Start it and wait until it says that it is ready."""
        kubeconfig, log = directory / "kubeconfig", directory / "cluster.log"
        with log.open("wb") as output:
            process = subprocess.Popen(
                [
                    sys.executable,
                    "-m",
                    "noctaya",
                    "local",
                    "--port",
                    str(port),
                    "--kubeconfig",
                    str(kubeconfig),
                    *arguments,
                ],
                stdout=output,
                stderr=subprocess.STDOUT,
                stdin=subprocess.DEVNULL,
                start_new_session=True,
            )
        cluster = cls(process, kubeconfig, port, log)
        cluster.wait(lambda: b"Ctrl-C ends everything" in log.read_bytes(), START_SECONDS)
        cluster.api.close()
        cluster.api = api_client(kubeconfig)
        return cluster

    def stop(self, number: signal.Signals = signal.SIGINT) -> int:
        """End it as Ctrl-C would; returns its exit code. A cluster that does not end in time is killed and fails the test."""
        self.api.close()
        if self.process.poll() is None:
            self.process.send_signal(number)
        try:
            return self.process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
            raise AssertionError(f"the cluster did not end within {STOP_SECONDS} s:\n{self.tail()}") from None

    def kill(self) -> None:
        """End it as a power cut would."""
        self.api.close()
        self.process.kill()
        self.process.wait()

    @staticmethod
    def wait_gone(pids: set[int], seconds: float) -> None:
        """Wait until none of these processes is left."""
        deadline = time.monotonic() + seconds
        while left := {pid for pid in pids if Path(f"/proc/{pid}").exists()}:
            assert time.monotonic() < deadline, f"processes outlived the cluster: {left}"
            time.sleep(0.05)

    def wait(self, claim: Callable[[], bool], seconds: float) -> None:
        """Return when `claim()` holds; fail with the cluster's log when it never does."""
        deadline = time.monotonic() + seconds
        while not claim():
            assert self.process.poll() is None, (
                f"the cluster ended with {self.process.returncode}:\n{self.tail()}"
            )
            assert time.monotonic() < deadline, f"not within {seconds} s:\n{self.tail()}"
            time.sleep(0.05)

    def tail(self) -> str:
        """The end of what the cluster printed."""
        return self.log.read_text(errors="replace")[-4000:]

    def kubectl(
        self, *arguments: str, stdin: str | None = None, check: bool = True
    ) -> subprocess.CompletedProcess[str]:
        """Run kubectl against the cluster."""
        home = self.kubeconfig.parent
        done = subprocess.run(
            ["kubectl", *arguments],
            input=stdin,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
            env={**os.environ, "KUBECONFIG": str(self.kubeconfig), "HOME": str(home)},
        )
        assert not check or done.returncode == 0, f"kubectl {' '.join(arguments)}: {done.stderr}{done.stdout}"
        return done

    def get(self, kind: str, name: str, namespace: str = "ai") -> dict[str, Any]:
        """One object, straight from the API server: a test that polls with kubectl would mostly wait for kubectl."""
        return self._read(f"{PATHS[kind]}/namespaces/{namespace}/{kind}/{name}")

    def items(self, kind: str, namespace: str, selector: str) -> list[dict[str, Any]]:
        """Objects by label."""
        found = self._read(f"{PATHS[kind]}/namespaces/{namespace}/{kind}?labelSelector={selector}")
        items: list[dict[str, Any]] = found["items"]
        return items

    def _read(self, path: str) -> dict[str, Any]:
        answer = self.api.get(path)
        assert answer.status_code == 200, f"GET {path}: {answer.text}"
        found: dict[str, Any] = answer.json()
        return found

    def phase(self, name: str, namespace: str = "ai") -> str:
        """The phase of an LLMService; empty while it has none."""
        phase: str = self.get("llmservices", name, namespace).get("status", {}).get("phase", "")
        return phase

    def wait_asleep(self, name: str, namespace: str = "ai", seconds: float = 60.0) -> None:
        """Wait until the model sleeps and its pods are gone."""
        selector = f"serving.noctaya.io/llmservice={name}"
        self.wait(
            lambda: (
                self.phase(name, namespace) == "ScaledToZero" and not self.items("pods", namespace, selector)
            ),
            seconds,
        )

    def openai(self, base_url: str | None = None) -> openai.OpenAI:
        """The real client; it never retries, so that a lost request is seen."""
        return openai.OpenAI(
            base_url=base_url or f"http://127.0.0.1:{self.port}/v1",
            api_key="unused",
            max_retries=0,
            timeout=120,
        )

    def http(self, method: str, path: str, **arguments: Any) -> httpx2.Response:
        """One request to the gateways, bare."""
        return httpx2.request(method, f"http://127.0.0.1:{self.port}{path}", timeout=60, **arguments)

    def gateway_addresses(self) -> list[str]:
        """Pod addresses of the gateways that are ready."""
        pods = self.items("pods", "noctaya-system", "app.kubernetes.io/component=gateway")
        return [
            pod["status"]["podIP"]
            for pod in pods
            if any(
                c["type"] == "Ready" and c["status"] == "True" for c in pod["status"].get("conditions", ())
            )
        ]

    def role_processes(self, role: str) -> list[int]:
        """Process ids of a role (`worker`, `gateway`)."""
        return [
            pid for pid, words in self.descendants().items() if words[-1:] == [role] and "noctaya" in words
        ]

    def descendants(self) -> dict[int, list[str]]:
        """Every process below the cluster's own, with its words."""
        parents: dict[int, int] = {}
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit():
                try:
                    parents[int(entry.name)] = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
                except OSError:
                    continue
        found, below = {}, {self.process.pid}
        while more := {pid for pid, parent in parents.items() if parent in below and pid not in below}:
            below |= more
        for pid in below - {self.process.pid}:
            try:
                found[pid] = (
                    Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace").split("\0")[:-1]
                )
            except OSError:
                continue
        return found
