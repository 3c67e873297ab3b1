"""Store, API server, controllers and scheduler: a Kubernetes control plane as plain processes.

Order matters: the controller manager is refused (and ends) until the API server has made its built-in roles, so it waits
for `/readyz`. Certificates and ports are made anew for each cluster. Controllers are told to hurry, so that tests wait
less; what the API server does is untouched.
"""

from dataclasses import dataclass
from pathlib import Path

from tests.cluster import kubeconfig
from tests.cluster.binaries import Binaries
from tests.cluster.certificates import Authority, Pair, signing_key
from tests.cluster.isolation import SERVICE_RANGE
from tests.cluster.parts import Part, Parts
from tests.cluster.readiness import answers, trusting
from tests.cluster.state import Directory
from tests.ports import LOOPBACK, free_ports

API_SERVICE_ADDRESS = "10.96.0.1"
START_SECONDS = 120.0
"""Generous: on a machine that is busy with other things the API server alone may need half a minute."""
SERVER_NAMES = (
    "localhost",
    "kubernetes",
    "kubernetes.default",
    "kubernetes.default.svc",
    "kubernetes.default.svc.cluster.local",
    LOOPBACK,
    API_SERVICE_ADDRESS,
)


@dataclass(frozen=True, slots=True)
class ControlPlane:
    """How the other parts reach a control plane that runs."""

    server: str
    authority: Authority
    directory: Directory

    def client(self, name: str, user: str, *groups: str) -> Path:
        """A kubeconfig of a user that the API server knows by certificate."""
        identity = self.authority.leaf(name, user, groups=groups)
        path = self.directory.configuration / f"{name}.kubeconfig"
        return kubeconfig.write(path, self.server, self.authority.pair.certificate, identity=identity)


def start(
    directory: Directory, binaries: Binaries, parts: Parts, *, node_address: str | None
) -> ControlPlane:
    """Start everything and return when controllers work (the default service account is there).

    With a node address the API server listens there too and says so to pods; without one it is on loopback only.
    """
    folder = directory.certificates
    names = [*SERVER_NAMES, *([node_address] if node_address else [])]
    authority = Authority(folder, "authority", "noctaya-test")
    front = Authority(folder, "front-proxy-authority", "noctaya-test-front-proxy")
    store, peer, api, controllers, scheduler = free_ports(5)
    server = f"https://{node_address or LOOPBACK}:{api}"
    plane = ControlPlane(server, authority, directory)
    admin = authority.leaf("admin", "admin", groups=["system:masters"])
    kubeconfig.write(directory.kubeconfig, server, authority.pair.certificate, identity=admin)

    parts.start(_store(directory, binaries, store, peer))
    parts.start(
        Part(
            "kube-apiserver",
            [
                binaries.program("kube-apiserver"),
                f"--etcd-servers=http://{LOOPBACK}:{store}",
                f"--secure-port={api}",
                *_addresses(node_address),
                f"--service-cluster-ip-range={SERVICE_RANGE}",
                "--allow-privileged=true",
                "--authorization-mode=Node,RBAC",
                "--enable-admission-plugins=NodeRestriction",
                *_api_certificates(authority, front, folder, names),
            ],
        )
    )
    context = trusting(authority.pair.certificate, admin)
    parts.until("kube-apiserver", lambda: answers(f"{server}/readyz", context), START_SECONDS)
    parts.start(_controllers(plane, binaries, controllers, folder))
    parts.start(_scheduler(plane, binaries, scheduler))
    account = f"{server}/api/v1/namespaces/default/serviceaccounts/default"
    parts.until("the default service account", lambda: answers(account, context), START_SECONDS)
    return plane


def _store(directory: Directory, binaries: Binaries, port: int, peer: int) -> Part:
    client, other = f"http://{LOOPBACK}:{port}", f"http://{LOOPBACK}:{peer}"
    return Part(
        "etcd",
        [
            binaries.program("etcd"),
            f"--data-dir={directory.path / 'etcd'}",
            f"--listen-client-urls={client}",
            f"--advertise-client-urls={client}",
            f"--listen-peer-urls={other}",
            f"--initial-advertise-peer-urls={other}",
            f"--initial-cluster=default={other}",
            "--unsafe-no-fsync",  # its data never outlives a power failure that matters
        ],
    )


def _addresses(node_address: str | None) -> list[str]:
    if node_address is None:
        return [f"--bind-address={LOOPBACK}", "--endpoint-reconciler-type=none"]
    return ["--bind-address=0.0.0.0", f"--advertise-address={node_address}"]


def _api_certificates(authority: Authority, front: Authority, folder: Path, names: list[str]) -> list[str]:
    serving = authority.leaf("kube-apiserver", "kube-apiserver", server_names=names)
    kubelet = authority.leaf("kubelet-client", "kube-apiserver-kubelet-client", groups=["system:masters"])
    proxy = front.leaf("front-proxy", "front-proxy")
    accounts = signing_key(folder)
    return [
        f"--client-ca-file={authority.pair.certificate}",
        f"--tls-cert-file={serving.certificate}",
        f"--tls-private-key-file={serving.key}",
        f"--kubelet-client-certificate={kubelet.certificate}",
        f"--kubelet-client-key={kubelet.key}",
        "--kubelet-preferred-address-types=InternalIP,Hostname",
        "--service-account-issuer=https://kubernetes.default.svc.cluster.local",
        f"--service-account-key-file={accounts.certificate}",
        f"--service-account-signing-key-file={accounts.key}",
        f"--requestheader-client-ca-file={front.pair.certificate}",
        "--requestheader-allowed-names=front-proxy",
        "--requestheader-extra-headers-prefix=X-Remote-Extra-",
        "--requestheader-group-headers=X-Remote-Group",
        "--requestheader-username-headers=X-Remote-User",
        f"--proxy-client-cert-file={proxy.certificate}",
        f"--proxy-client-key-file={proxy.key}",
    ]


def _controllers(plane: ControlPlane, binaries: Binaries, port: int, folder: Path) -> Part:
    client = plane.client("kube-controller-manager", "system:kube-controller-manager")
    ca: Pair = plane.authority.pair
    return Part(
        "kube-controller-manager",
        [
            binaries.program("kube-controller-manager"),
            *_component(client, port),
            "--use-service-account-credentials=true",
            f"--service-account-private-key-file={folder / 'service-accounts.key'}",
            f"--root-ca-file={ca.certificate}",
            f"--cluster-signing-cert-file={ca.certificate}",
            f"--cluster-signing-key-file={ca.key}",
            "--controllers=*,-nodeipam,-cloud-node-lifecycle,-service-lb-controller,-node-route-controller",
            # The default of 20 requests/s makes the first namespace wait 10 s for its service account.
            "--kube-api-qps=500",
            "--kube-api-burst=1000",
            "--horizontal-pod-autoscaler-sync-period=2s",
            "--horizontal-pod-autoscaler-downscale-stabilization=5s",
            "--horizontal-pod-autoscaler-initial-readiness-delay=0s",
            "--horizontal-pod-autoscaler-cpu-initialization-period=0s",
        ],
    )


def _scheduler(plane: ControlPlane, binaries: Binaries, port: int) -> Part:
    client = plane.client("kube-scheduler", "system:kube-scheduler")
    return Part("kube-scheduler", [binaries.program("kube-scheduler"), *_component(client, port)])


def _component(client: Path, port: int) -> list[str]:
    """Flags of a component that is alone (no election) and seen from this machine only."""
    return [
        f"--kubeconfig={client}",
        f"--authentication-kubeconfig={client}",
        f"--authorization-kubeconfig={client}",
        f"--bind-address={LOOPBACK}",
        f"--secure-port={port}",
        "--leader-elect=false",
    ]
