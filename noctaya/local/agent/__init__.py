"""The node agent of the embedded cluster: a kubelet for one machine whose containers are plain processes.

`lifecycle.py` decides (pure), `containers.py` and `processes.py` do. It must never leave a process behind, whatever ends
it, and never write a Secret's value anywhere but into the process it is for.

What differs from a kubelet, besides the lack of isolation: programs stand for images (`images.py`), paths are translated
instead of mounted (`translation.py`), first probes are prompter (`probing.py`), resource limits, security contexts, service
account tokens, sidecar init containers, postStart hooks and pod-level activeDeadlineSeconds are not there.
"""

from noctaya.local.agent.agent import NodeAgent
from noctaya.local.agent.images import ImageTable, LocalImage, default_images
from noctaya.local.agent.settings import AgentSettings

__all__ = ["AgentSettings", "ImageTable", "LocalImage", "NodeAgent", "default_images"]
