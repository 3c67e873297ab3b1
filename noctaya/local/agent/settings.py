"""The node agent's own settings; tests shorten its clocks with them, a laptop leaves them alone."""

from noctaya.settings import SettingsGroup


class AgentSettings(SettingsGroup):
    """Timing and bounds of the node agent."""

    node_name: str = "local"
    """The only node's name; pods bound to another node are ignored."""
    restart_base_seconds: float = 10.0
    """First back-off of a container that ends again and again; doubles (a kubelet's value)."""
    restart_maximum_seconds: float = 300.0
    """Longest back-off; a container that ran twice as long starts with a clean slate (a kubelet's values)."""
    pull_base_seconds: float = 10.0
    """First back-off between two looks for an unknown image; doubles up to `restart_maximum_seconds`."""
    config_retry_seconds: float = 5.0
    """Pause between two tries of a container whose Secret or ConfigMap is missing."""
    volume_base_seconds: float = 0.5
    """First pause between two tries to make a pod's volumes; doubles up to 10 s."""
    prompt_probe_seconds: float = 0.1
    """Until their first success, startup and readiness are also looked at this often, between the counted probes."""
    minimum_grace_seconds: float = 2.0
    """Between SIGTERM and SIGKILL a process gets at least this, whatever its preStop hook used up (a kubelet's value)."""
    shutdown_seconds: float = 3.0
    """When the agent ends, every process gets SIGTERM and, after this, SIGKILL."""
    log_bytes: int = 10 * 1024 * 1024
    """A container's log file is turned over at this size; one older file is kept."""
    refresh_seconds: float = 10.0
    """How often Secret and ConfigMap volumes of running pods are compared with their objects (a kubelet: about 60 s)."""
    drain_log_seconds: float = 1.0
    """After a container's end: how long its output pipe may still be read (a stray child may hold it open)."""
    pod_range: str = "127.64.0.0/12"
    """Loopback addresses for pods, each pod its own, so that every containerPort is free."""
