"""docs/install.md and docs/runbooks/uninstall.md, followed word for word by somebody who has a cluster and the project's folder.

The last test of the session: it removes what the others use, as uninstall.md says, and begins anew. The one exception is the line
that installs KEDA from the network: there is none here, and the cluster has the same release already. What a cluster of users
has beside KEDA (images, accelerators, storage) is provided before.
"""

import asyncio
import json
import re
from base64 import b64decode
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path

import httpx2
import pytest

from tests.acceptance import installation
from tests.acceptance.api import Api, Refused, open_client
from tests.acceptance.conftest import CLUSTER
from tests.acceptance.fleet import NAMESPACE, SIZE
from tests.acceptance.volumes import volume
from tests.acceptance.waiting import until, until_equal
from tests.acceptance.written_page import Block, Reader, blocks_of
from tests.cluster.cluster import Cluster

pytestmark = pytest.mark.timeout(900)

INSTALL, UNINSTALL = "install.md", "runbooks/uninstall.md"
FROM_THE_NETWORK = "https://github.com/kedacore/keda/releases/"
SETTLED_SECONDS = 120.0
MODEL, CLAIM, MODELS = "smollm2", "smollm2-cache", "ai"
CHAT = {"model": f"{MODELS}/{MODEL}", "messages": [{"role": "user", "content": "Hello"}]}

Check = Callable[["Scene", str], Awaitable[None]]


class Scene:
    """The cluster after a section of a page, to see whether it is as the page says."""

    def __init__(self, api: Api, reader: Reader) -> None:
        self.api = api
        self.reader = reader

    async def follow(self, page: str, checks: dict[str, Check]) -> None:
        """Do what the page says from its top to its end; after each section look whether it is so."""
        blocks = blocks_of(page)
        sections = list(dict.fromkeys(block.section for block in blocks))
        assert sections == list(checks), "a section with commands has no check, or is gone"
        for section, check in checks.items():
            async with AsyncExitStack() as terminals:
                printed: list[str] = []
                for block in blocks:
                    if block.section != section:
                        continue
                    if FROM_THE_NETWORK in block.text:
                        assert block.text.count("kubectl") == 1, "only KEDA's own line may be left out"
                        assert await self.api.find("deployments", "keda-operator", "keda") is not None
                    elif block.is_forward:
                        await terminals.enter_async_context(self.reader.terminal(block))
                    else:
                        printed.append(await self.reader.run(block))
                await check(self, "\n".join(printed))

    async def condition(self, type_: str) -> str:
        """Status of the model's condition."""
        found = await self.api.get("llmservices", MODEL, MODELS)
        conditions = found.get("status", {}).get("conditions", ())
        return next((str(one["status"]) for one in conditions if one["type"] == type_), "")

    async def ask(self, key: str = "") -> int:
        """Status of a request to the fleet."""
        service = await self.api.get("services", "noctaya-gateway", NAMESPACE)
        headers = {"authorization": f"Bearer {key}"} if key else {}
        async with httpx2.AsyncClient(trust_env=False, timeout=SETTLED_SECONDS) as client:
            url = f"http://{service['spec']['clusterIP']}/v1/chat/completions"
            return (await client.post(url, json=CHAT, headers=headers)).status_code

    async def key(self) -> str:
        """The client key that the page made."""
        secret = await self.api.get("secrets", "smollm2-keys", MODELS)
        return b64decode(secret["data"]["keys"]).decode().split()[1]


# -- what each section of install.md promises ----------------------------------------------------------------------------------


async def keda_speaks_faster(scene: Scene, printed: str) -> None:
    operator = await scene.api.get("deployments", "keda-operator", "keda")
    arguments = operator["spec"]["template"]["spec"]["containers"][0]["args"]
    assert {"--kube-api-qps=200", "--kube-api-burst=400"} <= set(arguments)
    assert "successfully rolled out" in printed


async def types_are_served(scene: Scene, printed: str) -> None:
    async def claim() -> bool:
        try:
            return await scene.api.list("llmservices") == [] == await scene.api.list("inferenceruntimes")
        except Refused:
            return False

    await until(claim, SETTLED_SECONDS, "both types are served")


async def fleet_is_ready(scene: Scene, printed: str) -> None:
    assert printed.count("successfully rolled out") == 2
    for role, count in SIZE.items():
        found = await scene.api.get("deployments", f"noctaya-{role}", NAMESPACE)
        assert found["status"]["availableReplicas"] == count


async def model_sleeps(scene: Scene, printed: str) -> None:
    assert "condition met" in printed
    found = await scene.api.get("deployments", MODEL, MODELS)
    assert found["spec"]["replicas"] == 0


async def answer_came(scene: Scene, printed: str) -> None:
    frames = [line.removeprefix("data: ") for line in printed.splitlines() if line.startswith("data: ")]
    assert frames[-1] == "[DONE]"
    chunks = [json.loads(frame) for frame in frames[:-1]]
    said = "".join(
        choice["delta"].get("content") or "" for chunk in chunks for choice in chunk.get("choices", ())
    )
    assert said.strip(), printed


async def nothing_is_wrong(scene: Scene, printed: str) -> None:
    assert re.search(rf"^{MODELS} +{MODEL} ", printed, re.MULTILINE)
    assert '"ready":true' in printed
    assert '"problems":[]' in printed


async def own_overlay_renders(scene: Scene, printed: str) -> None:
    assert "image: registry.example.com/noctaya:0.1.0" in printed
    assert "kind: HorizontalPodAutoscaler" in printed


async def doors_are_closed(scene: Scene, printed: str) -> None:
    await until_equal(scene.ask, 401, SETTLED_SECONDS, "a request without a key is refused")
    key = await scene.key()

    async def with_key() -> int:
        return await scene.ask(key)

    await until_equal(with_key, 200, SETTLED_SECONDS, "a request with the key is answered")


async def upgrade_keeps_models(scene: Scene, printed: str) -> None:
    assert "successfully rolled out" in printed
    assert await scene.ask(await scene.key()) == 200


INSTALLING: dict[str, Check] = {
    "1. KEDA": keda_speaks_faster,
    "2. The types": types_are_served,
    "3. The fleet": fleet_is_ready,
    "4. A model": model_sleeps,
    "5. A question": answer_came,
    "Is all well?": nothing_is_wrong,
    "The image": own_overlay_renders,
    "Closing the doors": doors_are_closed,
    "Upgrade": upgrade_keeps_models,
}

# -- what each section of uninstall.md promises ----------------------------------------------------------------------------------


async def models_stay_without_the_fleet(scene: Scene, printed: str) -> None:
    assert await scene.api.find("namespaces", NAMESPACE) is None
    for kind in ("leases", "configmaps", "secrets"):
        assert await scene.api.list(kind, NAMESPACE) == [], f"{kind} of the fleet have outlived it"
    for kind, name in (("llmservices", MODEL), ("scaledobjects", MODEL), ("persistentvolumeclaims", CLAIM)):
        assert await scene.api.find(kind, name, MODELS) is not None
    assert (await scene.api.get("deployments", MODEL, MODELS))["status"]["readyReplicas"] == 1
    # "`kubectl apply -k` of the overlay brings all of it back": the next sections begin with a fleet.
    await scene.reader.run(Block("1. The fleet", "kubectl apply -k deploy/kustomize/overlays/default"))


async def model_is_gone_and_its_volume_kept(scene: Scene, printed: str) -> None:
    async def claim() -> bool:
        kinds = (("deployments", MODEL), ("services", MODEL), ("persistentvolumeclaims", CLAIM))
        return all([await scene.api.find(kind, name, MODELS) is None for kind, name in kinds])

    await until(claim, SETTLED_SECONDS, "what the model was made of is gone")
    kept = await scene.api.get("persistentvolumes", f"{MODELS}-{CLAIM}")
    assert kept["spec"]["persistentVolumeReclaimPolicy"] == "Retain"


async def nothing_is_left(scene: Scene, printed: str) -> None:
    assert await scene.api.find("namespaces", NAMESPACE) is None
    for kind in ("llmservices", "inferenceruntimes"):
        with pytest.raises(Refused) as refused:
            await scene.api.list(kind)
        assert refused.value.status == 404
    mine = "app.kubernetes.io/name=noctaya"
    for path in (
        "/apis/rbac.authorization.k8s.io/v1/clusterroles",
        "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
        "/apis/scheduling.k8s.io/v1/priorityclasses",
        "/apis/flowcontrol.apiserver.k8s.io/v1/flowschemas",
        "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies",
        "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
    ):
        left = await scene.api.request("GET", path, parameters={"labelSelector": mine})
        assert [found["metadata"]["name"] for found in left["items"]] == []
    assert await scene.api.list("scaledobjects", selector="app.kubernetes.io/managed-by=noctaya") == []
    assert await scene.api.list("networkpolicies", MODELS) == []


UNINSTALLING: dict[str, Check] = {
    "1. The fleet": models_stay_without_the_fleet,
    "2. A model": model_is_gone_and_its_volume_kept,
    "3. Everything": nothing_is_left,
}


@pytest.fixture
async def scene(
    cluster: Cluster, network: str, pytestconfig: pytest.Config, tmp_path: Path
) -> AsyncIterator[Scene]:
    """A cluster with KEDA, images, accelerators and storage, and without Noctaya."""
    pytestconfig.stash[CLUSTER] = cluster
    reader = Reader(cluster, tmp_path)
    await asyncio.to_thread(installation.provide, cluster)
    async with open_client(cluster.directory.kubeconfig) as client:
        found = Scene(Api(client), reader)
        try:
            await found.api.list("llmservices")
        except Refused:
            pass  # a cluster that nobody has used yet
        else:
            for block in blocks_of(UNINSTALL):
                if block.section == "3. Everything":
                    await reader.run(block)
        await found.api.create("persistentvolumes", volume(MODELS, CLAIM))
        yield found
        await found.api.delete("namespaces", MODELS)
        await found.api.delete("persistentvolumes", f"{MODELS}-{CLAIM}")


async def test_the_pages_are_followed_word_for_word(scene: Scene) -> None:
    """Issue 4: install.md from a bare cluster to an upgrade, then uninstall.md until nothing is left."""
    await scene.follow(INSTALL, INSTALLING)
    await scene.follow(UNINSTALL, UNINSTALLING)


def test_every_block_of_the_pages_is_followed() -> None:
    """What is no ```bash block is not followed: there may be no command in a block of another kind."""
    root = Path(__file__).parents[2] / "docs"
    for page in (INSTALL, UNINSTALL):
        fences = re.findall(r"^```(\w+)$", (root / page).read_text(), re.MULTILINE)
        assert fences == ["bash"] * len(blocks_of(page))
