"""Every pod of every overlay is admitted to a restricted namespace; and the check itself notices each thing it is for."""

import copy
from collections.abc import Callable

import pytest

from tests.deploy.manifests import NAMESPACE, OVERLAYS, Object, containers, of_kind, overlay, pod_templates
from tests.deploy.pod_security import violations

pytestmark = pytest.mark.kubectl


@pytest.mark.parametrize("name", OVERLAYS)
def test_every_pod_meets_the_restricted_standard(name: str) -> None:
    found = dict(pod_templates(overlay(name)))
    assert set(found) == {"Deployment noctaya-gateway", "Deployment noctaya-worker"}
    assert [f"{who}: {what}" for who, spec in found.items() for what in violations(spec)] == []


@pytest.mark.parametrize("name", OVERLAYS)
def test_the_namespace_enforces_that_standard(name: str) -> None:
    labels = of_kind(overlay(name), "Namespace")[NAMESPACE]["metadata"]["labels"]
    for mode in ("enforce", "audit", "warn"):
        assert labels[f"pod-security.kubernetes.io/{mode}"] == "restricted"


@pytest.mark.parametrize("name", OVERLAYS)
def test_pods_need_no_writable_root_and_no_root_user(name: str) -> None:
    for who, spec in pod_templates(overlay(name)):
        assert spec["securityContext"]["runAsUser"] == 65532, who
        assert all(c["securityContext"]["readOnlyRootFilesystem"] for c in containers(spec)), who


def test_gateways_hold_no_credentials() -> None:
    objects = overlay("default")
    account = of_kind(objects, "ServiceAccount")["noctaya-gateway"]
    spec = of_kind(objects, "Deployment")["noctaya-gateway"]["spec"]["template"]["spec"]
    assert account["automountServiceAccountToken"] is False
    assert spec["automountServiceAccountToken"] is False
    assert spec["serviceAccountName"] == "noctaya-gateway"
    assert not any("projected" in volume for volume in spec["volumes"])
    secrets = [volume["secret"]["secretName"] for volume in spec["volumes"] if "secret" in volume]
    assert secrets == ["noctaya-gateway-tls"], "its own certificate, and nothing of the API"
    bound = {
        subject["name"]
        for kind in ("RoleBinding", "ClusterRoleBinding")
        for binding in of_kind(objects, kind).values()
        for subject in binding["subjects"]
    }
    assert bound == {"noctaya-worker"}


def container(change: Callable[[Object], object]) -> Callable[[Object], object]:
    return lambda spec: change(spec["containers"][0])


BREAKS: dict[str, Callable[[Object], object]] = {
    "host network": lambda spec: spec.update(hostNetwork=True),
    "host processes": lambda spec: spec.update(hostPID=True),
    "host path": lambda spec: spec["volumes"].append({"name": "node", "hostPath": {"path": "/"}}),
    "unsafe sysctl": lambda spec: spec["securityContext"].update(sysctls=[{"name": "kernel.msgmax"}]),
    "no seccomp": lambda spec: spec["securityContext"].pop("seccompProfile"),
    "maybe root": lambda spec: spec["securityContext"].pop("runAsNonRoot"),
    "user 0": lambda spec: spec["securityContext"].update(runAsUser=0),
    "SELinux": lambda spec: spec["securityContext"].update(seLinuxOptions={"type": "spc_t"}),
    "AppArmor": lambda spec: spec["securityContext"].update(appArmorProfile={"type": "Unconfined"}),
    "privileged": container(lambda c: c["securityContext"].update(privileged=True)),
    "escalation": container(lambda c: c["securityContext"].pop("allowPrivilegeEscalation")),
    "capabilities": container(lambda c: c["securityContext"].pop("capabilities")),
    "more capabilities": container(lambda c: c["securityContext"]["capabilities"].update(add=["NET_ADMIN"])),
    "host port": container(lambda c: c["ports"][0].update(hostPort=80)),
    "container as root": container(lambda c: c["securityContext"].update(runAsNonRoot=False)),
    "container unconfined": container(
        lambda c: c["securityContext"].update(seccompProfile={"type": "Unconfined"})
    ),
    "/proc": container(lambda c: c["securityContext"].update(procMount="Unmasked")),
}


@pytest.mark.parametrize("broken", BREAKS)
def test_the_check_notices(broken: str) -> None:
    good = dict(pod_templates(overlay("default")))["Deployment noctaya-gateway"]
    spec = copy.deepcopy(good)
    BREAKS[broken](spec)
    assert len(violations(spec)) == 1
