"""What KEDA's release installs: its own kustomization, rendered once when the programs are built.

Both ways of running KEDA start from these objects: as pods with little changed (`keda_pods`), or outside the cluster with
only those that describe no workload (`keda`).
"""

import json
from pathlib import Path

import yaml

from tests.cluster.kubectl import Object
from tests.cluster.processes import run

NAMESPACE = "keda"
ADAPTER = "keda-metrics-apiserver"
METRICS_API = "v1beta1.external.metrics.k8s.io"
RENDER_SECONDS = 120.0


def render(kubectl: Path, kustomization: Path, target: Path) -> None:
    """Write the objects of a kustomization as a JSON list."""
    rendered = run([kubectl, "kustomize", kustomization], timeout_seconds=RENDER_SECONDS)
    target.write_text(json.dumps([entry for entry in yaml.safe_load_all(rendered) if entry]))


def read(path: Path) -> list[Object]:
    """The objects that `render` wrote, in the order in which they are to be applied."""
    objects: list[Object] = json.loads(path.read_text())
    return objects
