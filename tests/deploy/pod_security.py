"""The restricted Pod Security Standard as a list of what a pod spec breaks.

Source: the standard's own text, profiles Baseline and Restricted, Kubernetes 1.30 to 1.35. A pod without a finding is admitted
to a namespace with `pod-security.kubernetes.io/enforce: restricted`.
"""

from collections.abc import Iterator

from tests.deploy.manifests import Object, containers

VOLUMES = {
    "configMap",
    "csi",
    "downwardAPI",
    "emptyDir",
    "ephemeral",
    "persistentVolumeClaim",
    "projected",
    "secret",
}
SAFE_SYSCTLS = {
    "kernel.shm_rmid_forced",
    "net.ipv4.ip_local_port_range",
    "net.ipv4.ip_local_reserved_ports",
    "net.ipv4.ip_unprivileged_port_start",
    "net.ipv4.ping_group_range",
    "net.ipv4.tcp_fin_timeout",
    "net.ipv4.tcp_keepalive_intvl",
    "net.ipv4.tcp_keepalive_probes",
    "net.ipv4.tcp_keepalive_time",
    "net.ipv4.tcp_rmem",
    "net.ipv4.tcp_syncookies",
    "net.ipv4.tcp_wmem",
}
SELINUX_TYPES = {"", "container_t", "container_init_t", "container_kvm_t", "container_engine_t"}
PROFILES = {"RuntimeDefault", "Localhost"}


def violations(spec: Object) -> list[str]:
    """What of `spec` the standard forbids, one sentence each."""
    return [*_of_pod(spec), *_of_containers(spec)]


def _of_pod(spec: Object) -> Iterator[str]:
    for field in ("hostNetwork", "hostPID", "hostIPC"):
        if spec.get(field):
            yield f"{field} is set"
    for volume in spec.get("volumes", []):
        for kind in volume.keys() - {"name"} - VOLUMES:
            yield f"volume {volume['name']} is of the kind {kind}"
    security = spec.get("securityContext", {})
    for sysctl in security.get("sysctls", []):
        if sysctl["name"] not in SAFE_SYSCTLS:
            yield f"sysctl {sysctl['name']} is not a safe one"
    yield from _of_context("the pod", security)


def _of_containers(spec: Object) -> Iterator[str]:
    pod = spec.get("securityContext", {})
    for container in containers(spec):
        name, own = container["name"], container.get("securityContext", {})
        yield from _of_context(name, own)
        if any(port.get("hostPort") for port in container.get("ports", [])):
            yield f"{name} takes a port of the node"
        if own.get("privileged"):
            yield f"{name} is privileged"
        if own.get("allowPrivilegeEscalation") is not False:
            yield f"{name} may escalate its privileges"
        if own.get("procMount", "Default") != "Default":
            yield f"{name} has an unmasked /proc"
        capabilities = own.get("capabilities", {})
        if "ALL" not in capabilities.get("drop", []):
            yield f"{name} keeps capabilities"
        if set(capabilities.get("add", [])) - {"NET_BIND_SERVICE"}:
            yield f"{name} adds capabilities"
        if own.get("runAsNonRoot", pod.get("runAsNonRoot")) is not True:
            yield f"{name} may run as root"
        if own.get("seccompProfile", pod.get("seccompProfile", {})).get("type") not in PROFILES:
            yield f"{name} has no seccomp profile"


def _of_context(where: str, security: Object) -> Iterator[str]:
    """What holds for a pod's and a container's context alike."""
    if security.get("runAsUser") == 0:
        yield f"{where} runs as user 0"
    options = security.get("seLinuxOptions", {})
    if options.get("type", "") not in SELINUX_TYPES or options.get("user") or options.get("role"):
        yield f"{where} sets SELinux options"
    if security.get("appArmorProfile", {}).get("type", "RuntimeDefault") not in PROFILES:
        yield f"{where} is not confined by AppArmor"
    if security.get("windowsOptions", {}).get("hostProcess"):
        yield f"{where} is a process of the node"
