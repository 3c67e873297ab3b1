"""What a person may choose when starting the embedded cluster. Built by the command line or a test, passed down."""

from pathlib import Path

from pydantic import BaseModel, ConfigDict


class LocalSettings(BaseModel):
    """One embedded cluster: where it keeps things, which ports it takes, how many of each role it runs."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    state_dir: Path | None = None
    """Objects, volumes and logs live here and survive a restart; None: a temporary directory, gone at the end."""
    gateway_port: int = 0
    """Port on 127.0.0.1 that forwards to the gateways, round robin; 0 picks a free one."""
    api_port: int = 0
    """Port of the API server on 127.0.0.1; 0 picks a free one."""
    gateways: int = 2
    """Gateway pods. Two show that one may die."""
    workers: int = 1
    """Worker pods."""
    kubeconfig: Path | None = None
    """Where the kubeconfig is written; None: inside the working directory."""
    system_environment: dict[str, str] = {}
    """Further `NOCTAYA_…` variables for workers and gateways that understand them, prefixed by `worker:` or `gateway:`."""
    ready_timeout_seconds: float = 60.0
    """How long the cluster, its workers and gateways may take to become ready."""
