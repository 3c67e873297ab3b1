"""The controllers of the embedded cluster: Deployments, ReplicaSets, Jobs, EndpointSlices, placement, claims, garbage, ports.

They talk to the API server through `noctaya.kube` as real controllers do, and are level-based: each looks at its stores and
makes one step. Decisions are pure modules (`rollout`, `progress`, `ranking`, `job_plan`, `placement`, `ownership`); the rest
is dull. They must never keep state that a restart would lose.

Left out: adoption of stray pods, proportional scaling during a rollout, indexed Jobs, affinity and taints, ClusterIPs,
protection of claims in use.
"""

from noctaya.local.controllers.run import run_all
from noctaya.local.controllers.settings import ControllerSettings

__all__ = ["ControllerSettings", "run_all"]
