"""A cluster that is not as it should be: the worker starts, says what is wrong, and goes on by itself when it is mended.

"Says" means the body of `/readyz`, the metric that alerts look at, an event, and a condition where one service is concerned. On
a control plane without a node and without KEDA; the worker is a process with the rights of its ServiceAccount and no more.
"""

import asyncio
import base64
import json
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml

from noctaya.kube import ClusterConfig
from noctaya.leader.lease_names import LEADER_LEASE, member_lease, pod_of_incarnation, shard_lease
from noctaya.workers.rights import Right, rights
from tests.acceptance.api import Api, Object, Refused, open_client
from tests.acceptance.fleet import NAMESPACE
from tests.acceptance.models import runtime, service
from tests.acceptance.outside_worker import POD, OutsideWorker, outside_worker
from tests.acceptance.waiting import until
from tests.cluster import keda_release
from tests.cluster.binaries import Binaries
from tests.cluster.cluster import Cluster
from tests.cluster.fixtures import own_namespace, running
from tests.faults.proxy import FaultProxy

MANIFESTS = Path(__file__).parents[2] / "deploy" / "kustomize"
ACCOUNT = "noctaya-worker"
NOT_RUN = ("Deployment", "PodDisruptionBudget")
"""Of the overlay: what only pods need."""
MENDED_SECONDS = 60.0
NOTED_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class Scene:
    """The control plane, and the account under which workers come."""

    cluster: Cluster
    folder: Path
    token: str
    overlay: list[Object]

    @property
    def authority(self) -> str:
        """The API server's CA, as kubeconfigs carry it."""
        config = json.loads(self.cluster.directory.kubeconfig.read_text())
        return str(config["clusters"][0]["cluster"]["certificate-authority-data"])

    @asynccontextmanager
    async def worker(self) -> AsyncIterator[OutsideWorker]:
        """A worker that reaches the API server as it is."""
        async with outside_worker(self.folder, self.cluster.server, self.token, self.authority) as worker:
            yield worker

    def apply_roles(self) -> None:
        """Every right, as the overlay grants it."""
        self.cluster.kubectl.apply([entry for entry in self.overlay if "Role" in entry["kind"]])

    def grant_only(self, granted: list[Right]) -> None:
        """Exactly these rights and no other; whatever the account had is taken away."""
        at_home = [right for right in granted if right.namespace]
        everywhere = [right for right in granted if not right.namespace]
        roles = [_role("ClusterRole", "", everywhere), _role("Role", NAMESPACE, at_home)]
        self.cluster.kubectl.apply(roles)
        self.cluster.kubectl("delete", "clusterrolebinding", f"{ACCOUNT}-client-keys", "--ignore-not-found")


@pytest.fixture(scope="module")
def scene(programs: Binaries, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    """A control plane with our types and the overlay's rights, and without KEDA."""
    folder = tmp_path_factory.mktemp("environment")
    with running(Cluster(folder / "cluster", programs), "quick", with_keda=False) as cluster:
        rendered = cluster.kubectl("kustomize", MANIFESTS / "overlays" / "default")
        overlay = [entry for entry in yaml.safe_load_all(rendered) if entry["kind"] not in NOT_RUN]
        cluster.kubectl("create", "namespace", NAMESPACE)
        cluster.kubectl("apply", "-k", MANIFESTS / "crd")
        cluster.kubectl.apply(overlay)
        token = cluster.kubectl("create", "token", ACCOUNT, namespace=NAMESPACE).strip()
        yield Scene(cluster, folder, token, overlay)


@pytest.fixture
async def api(scene: Scene) -> AsyncIterator[Api]:
    """The API server, as its administrator."""
    async with open_client(scene.cluster.directory.kubeconfig) as client:
        yield Api(client)


@pytest.fixture
def namespace(scene: Scene) -> Iterator[str]:
    """A namespace for models."""
    with own_namespace(scene.cluster) as name:
        yield name


async def event(api: Api, namespace: str, about: str, reason: str, kind: str = "Warning") -> str:
    """The message of an event, once it is there."""

    async def claim() -> str:
        for found in await api.list("events", namespace):
            if (found["involvedObject"]["name"], found["reason"], found["type"]) == (about, reason, kind):
                return str(found["message"])
        return ""

    return await until(claim, NOTED_SECONDS, f"{kind} {reason} is an event of {about}")


async def condition(api: Api, namespace: str, name: str, type_: str, **wanted: str) -> Object:
    """A service's condition, once it has these values."""

    async def claim() -> Object | None:
        found = await api.get("llmservices", name, namespace)
        for one in found.get("status", {}).get("conditions", ()):
            if one["type"] == type_ and wanted.items() <= one.items():
                return dict(one)
        return None

    return await until(claim, MENDED_SECONDS, f"{type_} of {name} is {wanted}")


async def apply_model(api: Api, namespace: str, name: str) -> None:
    await api.create("inferenceruntimes", runtime(f"{namespace}-{name}"))
    await api.create("llmservices", service(name, namespace, f"{namespace}-{name}"), namespace)


# -- the cluster as a whole ------------------------------------------------------------------------------------------------


async def test_an_old_kubernetes_is_named_with_its_version_until_it_is_upgraded(
    scene: Scene, api: Api
) -> None:
    async with FaultProxy(ClusterConfig.load(str(scene.cluster.directory.kubeconfig))) as proxy:
        way = await proxy.client("worker")
        authority = base64.b64encode(proxy.authority.read_bytes()).decode()
        old = way.version("1.29")
        async with outside_worker(scene.folder, way.config.server, scene.token, authority) as worker:
            await worker.until_problem("KubernetesTooOld", "v1.29", "1.30")
            assert "KubernetesTooOld" in await worker.problem_metrics()
            assert "v1.29" in await event(api, NAMESPACE, POD, "KubernetesTooOld")
            way.lift(old)
            await worker.until_over("KubernetesTooOld")
            await event(api, NAMESPACE, POD, "KubernetesTooOld", "Normal")


async def test_types_that_are_missing_are_named_and_the_worker_is_not_ready_until_they_are_there(
    scene: Scene, api: Api
) -> None:
    """Not ready: without them it knows of no service, and "no service" must not be told as zero demand."""
    kubectl = scene.cluster.kubectl
    await asyncio.to_thread(kubectl, "delete", "-k", MANIFESTS / "crd")
    async with scene.worker() as worker:
        for name in ("llmservicesNotServed", "inferenceruntimesNotServed"):
            await worker.until_problem(name, "deploy/kustomize/crd", status=503)
            await event(api, NAMESPACE, POD, name)
        await asyncio.to_thread(kubectl, "apply", "-k", MANIFESTS / "crd")
        await worker.until_problem("KEDAMissing")
        _, problems = await worker.readiness()
        assert list(problems) == ["KEDAMissing"]


async def test_types_that_go_away_leave_the_worker_ready_and_it_follows_them_when_they_are_back(
    scene: Scene,
) -> None:
    kubectl = scene.cluster.kubectl
    async with scene.worker() as worker:
        await worker.until_problem("KEDAMissing")
        await asyncio.to_thread(kubectl, "delete", "-k", MANIFESTS / "crd")
        await worker.until_problem("llmservicesNotServed", status=200)
        await asyncio.to_thread(kubectl, "apply", "-k", MANIFESTS / "crd")
        await worker.until_over("llmservicesNotServed")


async def test_a_missing_keda_is_named_and_models_are_set_up_when_it_comes(
    scene: Scene, api: Api, namespace: str
) -> None:
    async with scene.worker() as worker:
        await apply_model(api, namespace, "early")
        await worker.until_problem("KEDAMissing", "Install KEDA")
        assert "KEDAMissing" in await worker.problem_metrics()
        await event(api, NAMESPACE, POD, "KEDAMissing")
        await condition(
            api, namespace, "early", "AutoscalingReady", status="False", reason="AutoscalingUnavailable"
        )
        await event(api, namespace, "early", "AutoscalingUnavailable")
        await install_keda_types(scene, api)
        await worker.until_ready()
        await until(
            lambda: api.find("scaledobjects", "early", namespace), MENDED_SECONDS, "the ScaledObject is made"
        )
        await condition(api, namespace, "early", "AutoscalingReady", reason="WaitingForKEDA")


# -- rights ----------------------------------------------------------------------------------------------------------------


async def test_a_worker_without_any_right_starts_names_each_and_goes_on_when_it_has_them(
    scene: Scene, api: Api
) -> None:
    await install_keda_types(scene, api)
    scene.grant_only([])
    try:
        async with scene.worker() as worker:
            assert await told_as_missing(worker, set(rights(NAMESPACE)), status=503)
            sentence = await worker.until_problem(
                "FleetUnreadable", "configmaps", "noctaya-shardmap", status=503
            )
            assert "get" in sentence
            assert "leasesForbidden" in await worker.problem_metrics()
            scene.apply_roles()
            await worker.until_ready()
    finally:
        scene.apply_roles()


@pytest.mark.parametrize("half", [0, 1])
async def test_exactly_the_verbs_that_are_missing_are_named(scene: Scene, api: Api, half: int) -> None:
    await install_keda_types(scene, api)
    every = rights(NAMESPACE)
    granted = [right for number, right in enumerate(every) if number % 2 == half]
    scene.grant_only(granted)
    try:
        async with scene.worker() as worker:
            await told_as_missing(worker, set(every) - set(granted), status=503)
            scene.apply_roles()
            await worker.until_ready()
    finally:
        scene.apply_roles()


async def test_a_right_over_children_that_is_missing_stands_in_the_service_too(
    scene: Scene, api: Api, namespace: str
) -> None:
    await install_keda_types(scene, api)
    every = rights(NAMESPACE)
    creates = [right for right in every if (right.resource.plural, right.verb) == ("services", "create")]
    scene.grant_only([right for right in every if right not in creates])
    try:
        async with scene.worker() as worker:
            await apply_model(api, namespace, "poor")
            told = await condition(api, namespace, "poor", "Degraded", status="True")
            assert "patch services" in told["message"] or "create services" in told["message"]
            await event(api, namespace, "poor", told["reason"])
            await worker.until_problem("servicesForbidden", "create services in all namespaces")
            await event(api, NAMESPACE, POD, "servicesForbidden")
            scene.apply_roles()
            await condition(api, namespace, "poor", "Degraded", status="False")
            await worker.until_ready()
            await event(api, namespace, "poor", "BackendRecovered", "Normal")
    finally:
        scene.apply_roles()


async def test_a_lease_that_cannot_be_had_is_a_problem_and_no_longer_one_when_it_can(
    scene: Scene, api: Api
) -> None:
    await install_keda_types(scene, api)
    every = rights(NAMESPACE)
    writing = {"create", "update"}
    scene.grant_only(
        [right for right in every if right.resource.plural != "leases" or right.verb not in writing]
    )
    try:
        async with scene.worker() as worker:
            await worker.until_problem("TenureUnattained", member_lease(POD), "leases")
            await worker.until_problem("leasesForbidden", "create, update leases")
            assert {"TenureUnattained", "leasesForbidden"} <= await worker.problem_metrics()
            await event(api, NAMESPACE, POD, "TenureUnattained")
            scene.apply_roles()
            await worker.until_ready()
            for name in (member_lease(POD), LEADER_LEASE, shard_lease(0)):
                await until(partial(is_held, api, name), MENDED_SECONDS, f"the worker holds {name}")
    finally:
        scene.apply_roles()


async def is_held(api: Api, name: str) -> bool:
    """Whether the worker holds a Lease."""
    lease = await api.find("leases", name, NAMESPACE)
    return lease is not None and pod_of_incarnation(lease["spec"].get("holderIdentity") or "") == POD


# -- names that are taken ----------------------------------------------------------------------------------------------------

FOREIGN: dict[str, tuple[str, str, Object]] = {
    "front": ("services", "front", {"spec": {"ports": [{"port": 80}]}}),
    "back": ("services", "back-backend", {"spec": {"ports": [{"port": 80}]}}),
    "pods": (
        "deployments",
        "pods",
        {
            "spec": {
                "replicas": 0,
                "selector": {"matchLabels": {"a": "b"}},
                "template": {
                    "metadata": {"labels": {"a": "b"}},
                    "spec": {"containers": [{"name": "c", "image": "i"}]},
                },
            }
        },
    ),
    "scale": (
        "scaledobjects",
        "scale",
        {
            "spec": {
                "scaleTargetRef": {"name": "somebody-elses"},
                "triggers": [{"type": "cron", "metadata": {"start": "0 0 * * *", "end": "1 0 * * *"}}],
            }
        },
    ),
}
"""Model → (kind, name, body) of what somebody else has under a name that the model needs."""


async def test_names_that_are_taken_are_told_left_alone_and_taken_over_when_they_are_free(
    scene: Scene, api: Api, namespace: str
) -> None:
    await install_keda_types(scene, api)
    before: dict[str, Object] = {}
    for model, (kind, name, body) in FOREIGN.items():
        before[model] = await api.create(kind, _named(kind, name) | body, namespace)
    async with scene.worker() as worker:
        for model in FOREIGN:
            await apply_model(api, namespace, model)
        for model, (kind, name, _) in FOREIGN.items():
            told = await condition(api, namespace, model, "Degraded", status="True", reason="NameConflict")
            assert f"{namespace}/{name}" in told["message"]
            assert "does not belong to this LLMService" in told["message"]
            assert name in await event(api, namespace, model, "NameConflict")
            now = await api.get(kind, name, namespace)
            assert now["metadata"]["uid"] == before[model]["metadata"]["uid"]
            assert now["spec"] == before[model]["spec"], "somebody else's object was changed"
        await worker.until_ready()  # a service's problem is no problem of the worker's
        for kind, name, _ in FOREIGN.values():
            await api.delete(kind, name, namespace)
        for model, (kind, name, _) in FOREIGN.items():
            await condition(api, namespace, model, "Degraded", status="False")
            found = await api.get(kind, name, namespace)
            assert found["metadata"]["ownerReferences"][0]["name"] == model
            await event(api, namespace, model, "BackendRecovered", "Normal")


def _named(kind: str, name: str) -> Object:
    kinds = {
        "services": ("v1", "Service"),
        "deployments": ("apps/v1", "Deployment"),
        "scaledobjects": ("keda.sh/v1alpha1", "ScaledObject"),
    }
    version, kind_name = kinds[kind]
    return {"apiVersion": version, "kind": kind_name, "metadata": {"name": name}}


async def install_keda_types(scene: Scene, api: Api) -> None:
    """KEDA as far as a worker sees it: its kinds. That it scales is for the tests with a node."""
    objects = keda_release.read(scene.cluster.binaries.keda_objects)
    kinds = [entry for entry in objects if entry["kind"] == "CustomResourceDefinition"]
    await asyncio.to_thread(scene.cluster.kubectl.apply, kinds, server_side=True)

    async def claim() -> bool:
        try:
            await api.list("scaledobjects")
        except Refused:
            return False
        return True

    await until(claim, MENDED_SECONDS, "ScaledObjects are served")


async def told_as_missing(worker: OutsideWorker, missing: set[Right], *, status: int) -> bool:
    """Wait until exactly these rights are named as missing."""
    words = {
        (
            right.verb,
            right.resource.describe(None, right.name or None, right.subresource or None),
            right.namespace,
        )
        for right in missing
    }

    async def claim() -> bool:
        code, problems = await worker.readiness()
        told = {
            found
            for name, sentence in problems.items()
            if name.endswith("Forbidden") and sentence.startswith("this worker is not allowed to ")
            for found in _rights_in(sentence)
        }
        assert code == status
        return told == words

    return await until(claim, MENDED_SECONDS, f"/readyz names exactly {len(words)} rights")


def _rights_in(sentence: str) -> Iterator[tuple[str, str, str]]:
    """(verb, resource, namespace) of every right that a problem's sentence names."""
    said = sentence.removeprefix("this worker is not allowed to ").partition(". Its roles")[0]
    for part in said.split("; "):
        what, _, where = part.partition(" in ")
        *verbs, last = what.split(", ")
        verb, _, resource = last.partition(" ")
        for one in (*verbs, verb):
            yield one, resource, where.removeprefix("namespace ") if where.startswith("namespace ") else ""


def _role(kind: str, namespace: str, granted: list[Right]) -> dict[str, Any]:
    rules = [
        {
            "apiGroups": [right.resource.group],
            "resources": [
                f"{right.resource.plural}/{right.subresource}" if right.subresource else right.resource.plural
            ],
            "verbs": [right.verb],
            **({"resourceNames": [right.name]} if right.name else {}),
        }
        for right in granted
    ]
    metadata = {"name": ACCOUNT} | ({"namespace": namespace} if namespace else {})
    return {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": kind,
        "metadata": metadata,
        "rules": rules,
    }
