"""Settings of the embedded cluster's controllers; tests shorten the clocks."""

from pathlib import Path

from pydantic import Field

from noctaya.settings import SettingsGroup


class ControllerSettings(SettingsGroup):
    """Timing and the node's size."""

    node_name: str = "local"
    """The only node."""
    volumes_dir: Path
    """Claims become directories below it; only directories below it are ever removed."""
    node_resources: dict[str, int] = Field(default_factory=dict)
    """Extended resources of the node, e.g. `{"nvidia.com/gpu": 8}`. A pod that asks for others stays Pending."""
    node_labels: dict[str, str] = Field(default_factory=dict)
    """Further labels of the node, for nodeSelectors."""
    counts_cpu_and_memory: bool = False
    """Whether the cpu and memory requests of pods must fit the machine. Off: a laptop runs what a GPU node was sized for."""
    heartbeat_seconds: float = 30.0
    """How often the node says that it is alive."""
    job_base_seconds: float = 10.0
    """First pause before a failed Job pod is replaced; doubles up to 6 min (a cluster's values)."""
    event_age_seconds: float = 3600.0
    """Events older than this are removed (a cluster's value)."""
    sweep_seconds: float = 60.0
    """How often old events are looked for."""
    discovery_seconds: float = 5.0
    """How often the garbage collector looks for new kinds (CRDs)."""
    unbound_retry_seconds: float = 5.0
    """Pause before a claim that could not be provisioned is tried again."""
