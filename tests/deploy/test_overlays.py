"""What each overlay holds, and what none of them may."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from noctaya import __version__
from tests.deploy.manifests import (
    KUSTOMIZE,
    NAMESPACE,
    OVERLAYS,
    ROOT,
    Object,
    containers,
    of_kind,
    overlay,
    pod_templates,
    with_components,
)

pytestmark = pytest.mark.kubectl

CLUSTER_WIDE = {
    "ClusterRole",
    "ClusterRoleBinding",
    "CustomResourceDefinition",
    "FlowSchema",
    "Namespace",
    "PriorityClass",
    "ValidatingAdmissionPolicy",
    "ValidatingAdmissionPolicyBinding",
}


def image_references() -> Iterator[str]:
    for name in OVERLAYS:
        for _, spec in pod_templates(overlay(name)):
            yield from (container["image"] for container in containers(spec))


@pytest.mark.parametrize("name", [name for name in OVERLAYS if name != "quickstart"])
def test_deleting_an_overlay_deletes_no_crd_and_so_no_model(name: str) -> None:
    kinds = {found["kind"] for found in overlay(name)}
    assert kinds.isdisjoint({"CustomResourceDefinition", "LLMService", "InferenceRuntime"})


def test_the_quickstart_is_the_crds_and_the_default_and_says_what_deleting_it_costs() -> None:
    objects, default = overlay("quickstart"), overlay("default")
    crds = of_kind(objects, "CustomResourceDefinition")
    assert set(crds) == {"llmservices.serving.noctaya.io", "inferenceruntimes.serving.noctaya.io"}
    assert [found for found in objects if found["kind"] != "CustomResourceDefinition"] == default
    comment, _, _ = (KUSTOMIZE / "overlays/quickstart/kustomization.yaml").read_text().partition("\napi")
    assert "Deleting this deletes every LLMService" in comment


@pytest.mark.parametrize("name", OVERLAYS)
def test_everything_is_in_the_fleets_namespace_or_cluster_wide_on_purpose(name: str) -> None:
    for found in overlay(name):
        where = found["metadata"].get("namespace")
        assert where == (None if found["kind"] in CLUSTER_WIDE else NAMESPACE), found["metadata"]["name"]


@pytest.mark.parametrize("name", OVERLAYS)
def test_everything_ours_is_called_noctaya_and_labelled_so(name: str) -> None:
    for found in overlay(name):
        if found["kind"] != "CustomResourceDefinition":
            assert found["metadata"]["name"].startswith("noctaya"), found["metadata"]["name"]
            assert found["metadata"]["labels"]["app.kubernetes.io/name"] == "noctaya", found["metadata"][
                "name"
            ]


def test_images_carry_this_versions_tag_and_never_latest() -> None:
    for reference in image_references():
        name, _, tag = reference.partition(":")
        assert re.fullmatch(r"[0-9]+\.[0-9]+\.[0-9]+(@sha256:[0-9a-f]{64})?", tag), reference
        assert (name, tag.partition("@")[0]) == ("noctaya", __version__), reference


def test_hardened_serves_no_model_without_keys_and_lets_in_only_labelled_namespaces() -> None:
    objects = overlay("hardened")
    assert open_namespaces(objects) == ""
    assert open_namespaces(overlay("default")) == "*"
    policies = of_kind(objects, "NetworkPolicy")
    assert set(policies) == {"noctaya-gateway", "noctaya-worker"}
    selectors = [
        peer for policy in policies.values() for rule in policy["spec"]["ingress"] for peer in rule["from"]
    ]
    assert selectors
    assert all(any(selector["matchLabels"] for selector in peer.values()) for peer in selectors)


def open_namespaces(objects: list[Object]) -> str:
    worker = of_kind(objects, "Deployment")["noctaya-worker"]["spec"]["template"]["spec"]["containers"][0]
    return str(next(e["value"] for e in worker["env"] if e["name"] == "NOCTAYA_GATEWAY__OPEN_NAMESPACES"))


def test_policies_open_exactly_the_ports_that_pods_have() -> None:
    objects = overlay("hardened")
    for name, policy in of_kind(objects, "NetworkPolicy").items():
        container = of_kind(objects, "Deployment")[name]["spec"]["template"]["spec"]["containers"][0]
        ports = {port["name"]: port["containerPort"] for port in container["ports"]}
        opened = {
            ports.get(port["port"], port["port"])
            for rule in policy["spec"]["ingress"]
            for port in rule["ports"]
        }
        assert opened - {9093} == set(ports.values()), name


def test_the_control_port_is_open_to_gateways_and_to_other_workers() -> None:
    """Workers hand shards over and ask each other for KEDA: shut off from each other, each takeover would be a crash."""
    policy = of_kind(overlay("hardened"), "NetworkPolicy")["noctaya-worker"]
    peers = [
        entry["podSelector"]["matchLabels"]["app.kubernetes.io/component"]
        for rule in policy["spec"]["ingress"]
        if {"port": 9443} in rule["ports"]
        for entry in rule["from"]
    ]
    assert sorted(peers) == ["gateway", "worker"]


def test_a_single_node_gets_one_of_each_with_less_memory() -> None:
    small, default = (of_kind(overlay(name), "Deployment") for name in ("single-node", "default"))
    for name in ("noctaya-worker", "noctaya-gateway"):
        assert small[name]["spec"]["replicas"] == 1
        assert (
            small[name]["spec"]["template"]["spec"]["containers"][0]["resources"]["limits"]
            != (default[name]["spec"]["template"]["spec"]["containers"][0]["resources"]["limits"])
        )


def test_the_hpa_component_owns_the_number_of_gateways(tmp_path: Path) -> None:
    objects = with_components(tmp_path, "gateway-hpa")
    target = of_kind(objects, "HorizontalPodAutoscaler")["noctaya-gateway"]["spec"]["scaleTargetRef"]
    deployment = of_kind(objects, "Deployment")[target["name"]]
    assert (target["kind"], target["apiVersion"]) == ("Deployment", deployment["apiVersion"])
    assert "replicas" not in deployment["spec"]


def test_every_component_joins_the_default_overlay(tmp_path: Path) -> None:
    names = sorted(path.parent.name for path in KUSTOMIZE.glob("components/*/kustomization.yaml"))
    assert names == ["cert-manager", "direct-secrets", "gateway-hpa", "network-policy", "prometheus"]
    assert len(with_components(tmp_path, *names)) > len(overlay("default"))


def test_every_file_is_part_of_something() -> None:
    """A manifest that no kustomization names is applied by nobody."""
    for kustomization in KUSTOMIZE.rglob("kustomization.yaml"):
        folder = kustomization.parent
        named = yaml.safe_load(kustomization.read_text()).get("resources", [])
        files = {path.name for path in folder.glob("*.yaml")} - {"kustomization.yaml"}
        assert files == {name for name in named if not name.startswith("..")}, folder.relative_to(ROOT)
