"""What `kubectl apply -k` does on a real API server (issue 4): the same again changes nothing, and nothing is warned about."""

import copy
import json
from pathlib import Path

import pytest

from tests.acceptance.fleet import NAMESPACE
from tests.acceptance.installation import MANIFESTS
from tests.cluster.cluster import Cluster
from tests.cluster.errors import CommandFailed
from tests.cluster.kubectl import Object

AVAILABLE_SECONDS = 180.0
APPLY_SECONDS = 120.0
SERVER_DRY_RUN = ("--dry-run=server", "--validate=strict", "--warnings-as-errors")
WARNED_ABOUT = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {"name": "careless", "namespace": NAMESPACE},
    "spec": {
        "selector": {"matchLabels": {"app": "careless"}},
        "template": {
            "metadata": {"labels": {"app": "careless"}},
            "spec": {"containers": [{"name": "careless", "image": "careless"}]},
        },
    },
}
"""Its pods would break the namespace's Pod Security standard: a warning, not an error."""


@pytest.fixture
def settled(installed: Cluster) -> Cluster:
    """The fleet is not only ready but available, so that no rollout writes statuses any more."""
    for deployment in ("noctaya-worker", "noctaya-gateway"):
        installed.kubectl.wait(
            f"deployment/{deployment}",
            "condition=Available",
            namespace=NAMESPACE,
            timeout_seconds=AVAILABLE_SECONDS,
        )
    return installed


@pytest.mark.parametrize("folder", ["crd", "overlays/default"])
def test_applying_the_same_again_changes_nothing(settled: Cluster, folder: str) -> None:
    """Every object keeps its resourceVersion; where a controller wrote a status meanwhile, nothing but that differs.

    kubectl calls budgets and admission policies `configured` each time: it sends a patch without looking whether it says
    anything new, and the API server writes nothing.
    """
    before = objects(settled, MANIFESTS / folder)
    said = settled.kubectl("apply", "-k", MANIFESTS / folder, timeout_seconds=APPLY_SECONDS).splitlines()
    after = objects(settled, MANIFESTS / folder)
    assert len(said) == len(before) > 0
    assert {line.rpartition(" ")[2] for line in said} <= {"unchanged", "configured"}
    assert before.keys() == after.keys()
    for name, found in before.items():
        assert without_status(after[name]) == without_status(found)
        if after[name].get("status") == found.get("status"):
            assert version(after[name]) == version(found), f"{name} was written"


@pytest.mark.parametrize("by", ["client", "server"])
@pytest.mark.parametrize(
    "folder",
    [
        "crd",
        "overlays/default",
        "overlays/hardened",
        "overlays/single-node",
        "overlays/quickstart",
        "components/network-policy/backends",
        "components/direct-secrets/namespace",
    ],
)
def test_the_api_server_warns_of_nothing(installed: Cluster, folder: str, by: str) -> None:
    """A dry run on the server under strict field validation, with client-side and with server-side apply."""
    way = ("--server-side", "--force-conflicts") if by == "server" else ()
    said = installed.kubectl(
        "apply", *way, *SERVER_DRY_RUN, "-k", MANIFESTS / folder, timeout_seconds=APPLY_SECONDS
    )
    assert said.count("(server dry run)") == len(said.splitlines()) > 0


def test_a_warning_would_be_noticed(installed: Cluster) -> None:
    """The test above would fail: this Deployment is only warned about."""
    with pytest.raises(CommandFailed, match="would violate PodSecurity"):
        installed.kubectl("apply", *SERVER_DRY_RUN, "-f", "-", stdin=json.dumps(WARNED_ABOUT))


def objects(cluster: Cluster, folder: Path) -> dict[str, Object]:
    """The live objects of a kustomization by kind and name, with who manages which field."""
    listed = cluster.kubectl.get("-k", str(folder), "--show-managed-fields")["items"]
    return {f"{found['kind']}/{found['metadata']['name']}": found for found in listed}


def version(found: Object) -> str:
    """Changes with every write."""
    return str(found["metadata"]["resourceVersion"])


def without_status(found: Object) -> Object:
    """An object but for what controllers say of it."""
    rest = copy.deepcopy(found)
    rest.pop("status", None)
    metadata = rest["metadata"]
    del metadata["resourceVersion"]
    metadata["managedFields"] = [
        entry for entry in metadata.get("managedFields", ()) if entry.get("subresource") != "status"
    ]
    return rest
