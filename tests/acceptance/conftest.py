"""The product on the session's cluster, once for all tests of this folder, and a namespace for each of them.

A failed test's report carries what the cluster looked like (`evidence`).
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Generator
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance import evidence, installation
from tests.acceptance.api import Api, open_client
from tests.acceptance.fleet import NAMESPACE, Fleet
from tests.acceptance.models import Model, runtime, service
from tests.acceptance.volumes import volume
from tests.cluster.cluster import Cluster

HERE = Path(__file__).parent
LAST = HERE / "test_install_document.py"
"""It begins by removing what all others use."""
TEST_SECONDS = 300
CLUSTER = pytest.StashKey[Cluster]()
Models = Callable[..., Awaitable[Model]]
Volumes = Callable[[str], Awaitable[None]]


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what needs the cluster or its programs: all but the few tests of the tests' own logic."""
    for item in items:
        if HERE in item.path.parents and {"cluster", "programs"} & set(getattr(item, "fixturenames", ())):
            item.add_marker(pytest.mark.cluster)
            if item.get_closest_marker("timeout") is None:
                item.add_marker(pytest.mark.timeout(TEST_SECONDS))
    items.sort(key=lambda item: item.path == LAST)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Put what the cluster looked like into a failure's report."""
    report = yield
    cluster = item.config.stash.get(CLUSTER, None)
    if report.failed and cluster is not None and HERE in item.path.parents:
        namespace = getattr(item, "funcargs", {}).get("namespace")
        report.sections += [
            (f"cluster: {title}", text) for title, text in evidence.sections(cluster, namespace)
        ]
    return report


@pytest.fixture(scope="session")
def installed(cluster: Cluster, pytestconfig: pytest.Config) -> Cluster:
    """The session's cluster with the product on it: gateways and workers, ready."""
    pytestconfig.stash[CLUSTER] = cluster
    installation.install(cluster)
    return cluster


@pytest.fixture
async def api(installed: Cluster, network: str) -> AsyncIterator[Api]:
    """The API server. The test is in the cluster's network."""
    async with open_client(installed.directory.kubeconfig) as client:
        yield Api(client)


@pytest.fixture
async def fleet(api: Api) -> Fleet:
    """The fleet, whole: everybody ready, every shard with somebody."""
    found = await api.get("services", "noctaya-gateway", NAMESPACE)
    fleet = Fleet(api, f"http://{found['spec']['clusterIP']}")
    await fleet.until_whole()
    return fleet


@pytest.fixture
async def models(api: Api, namespace: str, fleet: Fleet) -> AsyncIterator[Models]:
    """`await models(name, scaling={…}, engine={…}, …)`: a model in the test's namespace that a request can wake.

    `engine` goes to `runtime()`, the rest to `service()`. `on` names a runtime that exists; without it the model gets its own.
    With `usable=False` it returns as soon as the objects exist.
    """
    runtimes: list[str] = []

    async def make(
        name: str,
        *,
        on: str | None = None,
        engine: dict[str, Any] | None = None,
        usable: bool = True,
        **spec: Any,
    ) -> Model:
        if on is None:
            on = f"{namespace}-{name}"
            runtimes.append(on)
            await api.create("inferenceruntimes", runtime(on, **(engine or {})))
        await api.create("llmservices", service(name, namespace, on, **spec), namespace)
        model = Model(api, namespace, name)
        if usable:
            await model.until_usable()
        return model

    yield make
    for name in runtimes:
        await api.delete("inferenceruntimes", name)


@pytest.fixture
async def volume_for(api: Api, namespace: str) -> AsyncIterator[Volumes]:
    """`await volume_for(claim)`: a volume that a claim of the test's namespace will bind to; gone after the test."""
    made: list[str] = []

    async def make(claim: str) -> None:
        made.append((await api.create("persistentvolumes", volume(namespace, claim)))["metadata"]["name"])

    yield make
    for name in made:
        await api.delete("persistentvolumes", name)
