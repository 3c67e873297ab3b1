"""One real node: containerd, kubelet and kube-proxy, inside the cluster's own namespaces (`isolation`).

Paths are the usual ones, since `/run` and `/var/lib` are the cluster's. Settings that are not usual are there because a
test machine may lack a right (CAP_SYS_RESOURCE), may have the old control groups, and should start a pod quickly.
"""

import json
from pathlib import Path
from typing import Any

from tests.cluster.binaries import Binaries
from tests.cluster.control_plane import ControlPlane
from tests.cluster.errors import ClusterError, CommandFailed
from tests.cluster.images import PAUSE
from tests.cluster.isolation import NODE_ADDRESS
from tests.cluster.kubectl import Kubectl
from tests.cluster.parts import Part, Parts
from tests.cluster.processes import run
from tests.cluster.requirements import network_plugins

NAME = "node1"
POD_RANGE = "10.88.0.0/16"
DNS_ADDRESS = "10.96.0.10"
SOCKET = Path("/run/containerd/containerd.sock")
CTR = ("ctr", "--namespace", "k8s.io")
START_SECONDS = 90.0
IMPORT_SECONDS = 300.0


def start_containerd(folder: Path, parts: Parts) -> None:
    """Start containerd, with the cluster's network for its pods."""
    plugins = network_plugins()
    if plugins is None:
        raise ClusterError("the container network plugins have gone since the check; install them again")
    (folder / "cni").mkdir()
    (folder / "cni" / "10-bridge.conflist").write_text(json.dumps(_pod_network()))
    settings = folder / "containerd.toml"
    settings.write_text(_containerd_settings(plugins, folder / "cni"))
    parts.start(Part("containerd", ["containerd", f"--config={settings}"]))


def import_images(archives: list[Path], parts: Parts) -> None:
    """Make image archives known to the node."""
    parts.until("containerd", _containerd_answers, START_SECONDS)
    for archive in archives:
        run([*CTR, "images", "import", archive], timeout_seconds=IMPORT_SECONDS)


def start(plane: ControlPlane, binaries: Binaries, parts: Parts, kubectl: Kubectl, branch: str) -> None:
    """Start kubelet and kube-proxy; returns when the node is Ready. Pods go into `branch` of the control groups."""
    folder = plane.directory.configuration
    kubelet_client = plane.client("kubelet", f"system:node:{NAME}", "system:nodes")
    proxy_client = plane.client("kube-proxy", "system:kube-proxy")
    resolver = folder / "resolv.conf"
    resolver.write_text("")  # the machine's name servers and search domains are not the cluster's
    kubelet = _kubelet_settings(plane.authority.pair.certificate, resolver, branch)
    (folder / "kubelet.json").write_text(json.dumps(kubelet, indent=1))
    (folder / "kube-proxy.json").write_text(json.dumps(_proxy_settings(proxy_client), indent=1))
    parts.start(
        Part(
            "kubelet",
            [
                binaries.program("kubelet"),
                f"--config={folder / 'kubelet.json'}",
                f"--kubeconfig={kubelet_client}",
                f"--hostname-override={NAME}",
                f"--node-ip={NODE_ADDRESS}",
            ],
        )
    )
    parts.start(
        Part("kube-proxy", [binaries.program("kube-proxy"), f"--config={folder / 'kube-proxy.json'}"])
    )
    parts.until("the node's registration", lambda: _is_registered(kubectl), START_SECONDS)
    kubectl.wait(f"node/{NAME}", "condition=Ready", timeout_seconds=START_SECONDS)


def _is_registered(kubectl: Kubectl) -> bool:
    return bool(kubectl("get", "node", NAME, "--ignore-not-found", "-o", "name").strip())


def _containerd_answers() -> bool:
    try:
        run([*CTR, "version"], timeout_seconds=5)
    except CommandFailed:
        return False
    return True


def _containerd_settings(plugins: Path, networks: Path) -> str:
    return f"""\
version = 2
[grpc]
  address = "{SOCKET}"
[plugins."io.containerd.internal.v1.opt"]
  path = "/var/lib/containerd-opt"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "{PAUSE}"
  restrict_oom_score_adj = true  # for machines without CAP_SYS_RESOURCE
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "{plugins}"
    conf_dir = "{networks}"
  [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
    runtime_type = "io.containerd.runc.v2"
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
      SystemdCgroup = false
"""


def _pod_network() -> dict[str, Any]:
    addresses = {"type": "host-local", "ranges": [[{"subnet": POD_RANGE}]], "routes": [{"dst": "0.0.0.0/0"}]}
    bridge = {
        "type": "bridge",
        "bridge": "pods0",
        "isGateway": True,
        "ipMasq": True,
        "hairpinMode": True,
        "ipam": addresses,
    }
    ports = {"type": "portmap", "capabilities": {"portMappings": True}}
    return {"cniVersion": "0.4.0", "name": "noctaya-test", "plugins": [bridge, ports]}


def _kubelet_settings(authority: Path, resolver: Path, branch: str) -> dict[str, Any]:
    return {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "containerRuntimeEndpoint": f"unix://{SOCKET}",
        "address": NODE_ADDRESS,
        "authentication": {
            "anonymous": {"enabled": False},
            "webhook": {"enabled": True},
            "x509": {"clientCAFile": str(authority)},
        },
        "authorization": {"mode": "Webhook"},
        "clusterDNS": [DNS_ADDRESS],
        "clusterDomain": "cluster.local",
        "resolvConf": str(resolver),
        "cgroupDriver": "cgroupfs",
        "cgroupRoot": f"/{branch}",
        "failCgroupV1": False,
        "failSwapOn": False,
        # Forgives refused writes of oom_score_adj and sysctls.
        "featureGates": {"KubeletInUserNamespace": True},
        "enforceNodeAllocatable": [],
        "evictionHard": {"memory.available": "100Mi", "nodefs.available": "1%", "imagefs.available": "1%"},
        "imageGCHighThresholdPercent": 100,  # an image that is gone could not be pulled again
        "imageGCLowThresholdPercent": 99,
        "maxPods": 100,
        "nodeStatusUpdateFrequency": "2s",
        "syncFrequency": "5s",  # also how soon a Secret that appears late is in a pod
        "volumePluginDir": "/var/lib/kubelet/plugins-of-others",
    }


def _proxy_settings(client: Path) -> dict[str, Any]:
    return {
        "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
        "kind": "KubeProxyConfiguration",
        "mode": "iptables",
        "clientConnection": {"kubeconfig": str(client)},
        "clusterCIDR": POD_RANGE,
        "hostnameOverride": NAME,
        "conntrack": {"maxPerCore": 0, "min": 0},  # a machine-wide limit is not ours to set
        "iptables": {"minSyncPeriod": "0s", "syncPeriod": "30s"},
    }
