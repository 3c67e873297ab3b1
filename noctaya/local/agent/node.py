"""What every pod runner of one agent shares."""

from dataclasses import dataclass
from pathlib import Path

from noctaya.kube.client import Client
from noctaya.kube.events import EventRecorder
from noctaya.local.agent.addresses import AddressPool
from noctaya.local.agent.images import ImageTable
from noctaya.local.agent.logs import PodLogs
from noctaya.local.agent.processes import ProcessTable
from noctaya.local.agent.settings import AgentSettings


@dataclass(frozen=True, slots=True)
class Node:
    """The means of one node."""

    client: Client
    images: ImageTable
    settings: AgentSettings
    processes: ProcessTable
    addresses: AddressPool
    logs: PodLogs
    recorder: EventRecorder
    pods_dir: Path
