"""Rolling, draining and being probed: the numbers in the manifests fit those in the code."""

from typing import Any

import pytest

from noctaya.gateway.drain import LAST_WORD_SECONDS
from noctaya.gateway.settings import GatewaySettings
from noctaya.settings import RoleSettings, load, variables
from noctaya.workers.gateways import CONTAINER
from noctaya.workers.settings import WorkerSettings
from noctaya.workers.stores import GATEWAYS
from noctaya.workers.worker import DRAIN_SECONDS
from tests.deploy.manifests import OVERLAYS, Object, of_kind, overlay

pytestmark = pytest.mark.kubectl

ROLES: dict[str, type[RoleSettings]] = {"worker": WorkerSettings, "gateway": GatewaySettings}
KEDA_LOOKS_UP_AGAIN_SECONDS = 30
MEBI = 1024 * 1024


def deployment(role: str, name: str = "default") -> Object:
    spec: Object = of_kind(overlay(name), "Deployment")[f"noctaya-{role}"]["spec"]
    return spec


def pod(role: str, name: str = "default") -> Object:
    spec: Object = deployment(role, name)["template"]["spec"]
    return spec


def container(role: str, name: str = "default") -> Object:
    only: list[Object] = pod(role, name)["containers"]
    assert len(only) == 1
    return only[0]


def settings(role: str, monkeypatch: pytest.MonkeyPatch, name: str = "default") -> Any:
    """The role's settings as its container's environment gives them; a fieldRef becomes a word."""
    with monkeypatch.context() as environment:
        for variable in container(role, name)["env"]:
            environment.setenv(variable["name"], variable.get("value", "word"))
        return load(ROLES[role])


@pytest.mark.parametrize("name", OVERLAYS)
@pytest.mark.parametrize("role", ROLES)
def test_every_variable_is_a_setting_and_every_value_fits(
    role: str, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = [variable["name"] for variable in container(role, name)["env"]]
    assert len(names) == len(set(names))
    assert set(names) <= set(variables(ROLES[role]))
    assert settings(role, monkeypatch, name).pod.name == "word"


@pytest.mark.parametrize("role", ROLES)
def test_a_pod_tells_its_process_who_it_is(role: str) -> None:
    paths = {
        variable["name"]: variable["valueFrom"]["fieldRef"]["fieldPath"]
        for variable in container(role)["env"]
        if "valueFrom" in variable
    }
    wanted = {"NOCTAYA_POD__NAME": "metadata.name", "NOCTAYA_POD__NAMESPACE": "metadata.namespace"}
    of_worker = {"NOCTAYA_POD__UID": "metadata.uid", "NOCTAYA_POD__IP": "status.podIP"}
    assert paths == wanted | (of_worker if role == "worker" else {})


@pytest.mark.parametrize("name", OVERLAYS)
def test_a_gateway_has_time_for_its_whole_drain(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    drain, link = (getattr(settings("gateway", monkeypatch, name), group) for group in ("drain", "link"))
    needed = drain.propagation_seconds + drain.limit_seconds + LAST_WORD_SECONDS + link.bye_seconds
    assert needed + 10 <= pod("gateway", name)["terminationGracePeriodSeconds"] == 630


@pytest.mark.parametrize("name", OVERLAYS)
def test_a_worker_has_time_for_its_whole_drain(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    found = settings("worker", monkeypatch, name)
    asleep = container("worker", name)["lifecycle"]["preStop"]["sleep"]["seconds"]
    drain = found.scaler.drain_spread_seconds + 1 + found.control.drain_seconds
    assert asleep + DRAIN_SECONDS + drain <= pod("worker", name)["terminationGracePeriodSeconds"] == 60


def test_a_new_worker_is_known_to_keda_before_the_old_one_goes() -> None:
    spec = deployment("worker")
    assert spec["minReadySeconds"] > KEDA_LOOKS_UP_AGAIN_SECONDS
    assert spec["strategy"]["rollingUpdate"] == {"maxSurge": 1, "maxUnavailable": 0}


def test_a_gateway_goes_only_after_its_successor_has_come() -> None:
    assert deployment("gateway")["strategy"]["rollingUpdate"] == {"maxSurge": 1, "maxUnavailable": 0}


@pytest.mark.parametrize("name", OVERLAYS)
def test_bodies_fit_beside_everything_else_in_a_gateways_memory(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = settings("gateway", monkeypatch, name)
    limit = {"1Gi": 1024, "384Mi": 384}[container("gateway", name)["resources"]["limits"]["memory"]] * MEBI
    assert found.admission.max_bytes <= limit // 2
    assert found.admission.max_bytes_per_service < found.admission.max_bytes


def test_the_snapshots_folder_is_a_bounded_volume_in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    folder = settings("gateway", monkeypatch).snapshot_dir
    mounts = {mount["mountPath"]: mount["name"] for mount in container("gateway")["volumeMounts"]}
    volumes = {volume["name"]: volume for volume in pod("gateway")["volumes"]}
    assert volumes[mounts[folder]]["emptyDir"] == {"medium": "Memory", "sizeLimit": "64Mi"}


@pytest.mark.parametrize("role", ROLES)
def test_ports_are_where_the_process_listens(role: str, monkeypatch: pytest.MonkeyPatch) -> None:
    found = settings(role, monkeypatch)
    groups = ("scaler", "control", "admin") if role == "worker" else ("http", "admin")
    ports = {port["name"]: port["containerPort"] for port in container(role)["ports"]}
    assert ports == {group: getattr(found, group).port for group in groups}


@pytest.mark.parametrize("role", ROLES)
def test_probes_ask_the_admin_port_and_a_stuck_minute_is_needed_for_a_restart(role: str) -> None:
    probes = {name: container(role)[f"{name}Probe"] for name in ("startup", "readiness", "liveness")}
    assert {name: probe["httpGet"] for name, probe in probes.items()} == {
        "startup": {"path": "/healthz", "port": "admin"},
        "readiness": {"path": "/readyz", "port": "admin"},
        "liveness": {"path": "/healthz", "port": "admin"},
    }
    assert probes["liveness"]["periodSeconds"] * probes["liveness"]["failureThreshold"] >= 60


@pytest.mark.parametrize("role", ROLES)
def test_a_process_that_has_not_started_or_is_stuck_gets_no_time_to_drain(role: str) -> None:
    """Without a grace of their own these probes give the pod's: a gateway that starts slowly once would hang for ten minutes."""
    for probe in ("startupProbe", "livenessProbe"):
        own = container(role)[probe]["terminationGracePeriodSeconds"]
        assert own <= 30 < pod(role)["terminationGracePeriodSeconds"]


def test_a_worker_that_waits_for_the_api_server_is_not_restarted_for_it() -> None:
    probe = container("worker")["startupProbe"]
    assert probe["periodSeconds"] * probe["failureThreshold"] >= 600


def test_services_lead_to_the_ports_of_their_pods() -> None:
    services = of_kind(overlay("default"), "Service")
    shape = {
        name: (
            service["spec"].get("clusterIP"),
            [(p["port"], p["targetPort"]) for p in service["spec"]["ports"]],
        )
        for name, service in services.items()
    }
    assert shape == {
        "noctaya-gateway": (None, [(80, "http")]),
        "noctaya-scaler": ("None", [(9090, 9090), (9093, 9093)]),
        "noctaya-workers": ("None", [(9443, "control")]),
    }
    not_ready = {name for name, found in services.items() if found["spec"].get("publishNotReadyAddresses")}
    assert not_ready == {"noctaya-workers"}
    for name, service in services.items():
        role = "gateway" if name == "noctaya-gateway" else "worker"
        assert service["spec"]["selector"] == deployment(role)["template"]["metadata"]["labels"]


def test_the_names_that_processes_use_by_default_are_the_services(monkeypatch: pytest.MonkeyPatch) -> None:
    services = of_kind(overlay("default"), "Service")
    worker, gateway = settings("worker", monkeypatch), settings("gateway", monkeypatch)
    addresses = {worker.scaler.address, *gateway.link.workers}
    ours = {
        f"{name}.{service['metadata']['namespace']}.svc:{port['port']}"
        for name, service in services.items()
        for port in service["spec"]["ports"]
    }
    assert addresses <= ours
    assert worker.gateway.service in services


def test_workers_find_the_fleets_gateways_and_their_container() -> None:
    labels = deployment("gateway")["template"]["metadata"]["labels"]
    assert {f"{key}={value}" for key, value in labels.items()} == set(GATEWAYS.split(","))
    assert container("gateway")["name"] == CONTAINER


@pytest.mark.parametrize("role", ROLES)
def test_a_node_can_be_drained_whatever_the_number_of_pods(role: str) -> None:
    budget = of_kind(overlay("default"), "PodDisruptionBudget")[f"noctaya-{role}"]["spec"]
    assert budget["maxUnavailable"] == 1
    assert "minAvailable" not in budget
    assert budget["selector"] == deployment(role)["selector"]


@pytest.mark.parametrize("role", ROLES)
def test_pods_spread_over_nodes_and_stand_above_models(role: str) -> None:
    spec = pod(role)
    spread = {c["topologyKey"]: c["whenUnsatisfiable"] for c in spec["topologySpreadConstraints"]}
    assert spread == dict.fromkeys(
        ("kubernetes.io/hostname", "topology.kubernetes.io/zone"), "ScheduleAnyway"
    )
    assert spec["enableServiceLinks"] is False
    classes = of_kind(overlay("default"), "PriorityClass")
    assert classes[spec["priorityClassName"]]["value"] > 0
    assert classes["noctaya-gateway"]["value"] > classes["noctaya-worker"]["value"]
