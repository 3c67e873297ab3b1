"""install.md and uninstall.md against the manifests: what they tell people to run and apply exists and is accepted.

The commands themselves are run against a real cluster elsewhere; here are the parts that need none.
"""

import re
from pathlib import Path

import pytest
import yaml

from noctaya.api.names import LABEL_CLIENT_KEYS
from noctaya.local.apiserver import ApiServer
from tests.deploy.conftest import Kubectl
from tests.deploy.manifests import KUSTOMIZE, ROOT, Object, built, overlay, text_of

pytestmark = pytest.mark.kubectl

PAGES = {name: (ROOT / "docs" / name).read_text() for name in ("install.md", "runbooks/uninstall.md")}
BLOCK = re.compile(r"^```bash\n(.*?)^```", re.DOTALL | re.MULTILINE)
MANIFEST = re.compile(r"kubectl apply -f - <<'EOF'\n(.*?)^EOF$", re.DOTALL | re.MULTILINE)
OWN_OVERLAY = "deploy/kustomize/overlays/mine"


def commands(page: str) -> str:
    return "\n".join(BLOCK.findall(PAGES[page]))


@pytest.mark.parametrize("page", PAGES)
def test_every_directory_that_a_command_names_builds(page: str) -> None:
    named = set(re.findall(r"\bdeploy/kustomize/[a-z/-]+[a-z]", commands(page)))
    directories = {path for path in named if not path.startswith(OWN_OVERLAY)}
    assert len(directories) >= 3
    for directory in directories:
        assert built(ROOT / directory), directory


@pytest.mark.parametrize("page", PAGES)
def test_every_link_leads_somewhere(page: str) -> None:
    links = re.findall(r"\]\(([^)#]+)", PAGES[page])
    for link in links:
        assert ((ROOT / "docs" / page).parent / link).exists(), link


def test_only_keda_comes_from_the_network() -> None:
    outside = [
        url for url in re.findall(r"https?://[^\s'\"]+", commands("install.md")) if "127.0.0.1" not in url
    ]
    assert [re.match(r"https://github\.com/kedacore/keda/releases/", url) is not None for url in outside] == [
        True
    ]


async def test_the_first_model_is_accepted(server: ApiServer, kubectl: Kubectl) -> None:
    await kubectl("apply", "-f", "-", given=text_of(KUSTOMIZE / "crd"))
    await kubectl(
        "wait", "--for=condition=Established", "--timeout=10s", "crd/inferenceruntimes.serving.noctaya.io"
    )
    await kubectl("create", "namespace", "ai")
    manifests: list[Object] = [yaml.safe_load(text) for text in MANIFEST.findall(commands("install.md"))]
    assert [found["kind"] for found in manifests] == ["InferenceRuntime", "LLMService"]
    for manifest in manifests:
        await kubectl("apply", "--validate=strict", "-f", "-", given=yaml.safe_dump(manifest))
    patch = re.search(r"patch llmservice smollm2 --type=merge \\\n\s+--patch '(.*)'", commands("install.md"))
    assert patch is not None
    await kubectl("-n", "ai", "patch", "llmservice", "smollm2", "--type=merge", "--patch", patch.group(1))
    stored = server.cluster.get(
        server.cluster.kind("LLMService", "serving.noctaya.io/v1alpha1"), "ai", "smollm2"
    )
    assert stored["spec"]["endpoint"]["authentication"]["secretRef"]["name"] == "smollm2-keys"


def test_the_overlay_of_ones_own_builds(tmp_path: Path) -> None:
    """At its real depth below the real directories: a copy of the tree with the page's file in it."""
    text = re.search(
        r"mine/kustomization\.yaml <<'EOF'\n(.*?)^EOF$", commands("install.md"), re.DOTALL | re.MULTILINE
    )
    assert text is not None
    for name in ("base", "components", "overlays/default"):
        target = tmp_path / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.symlink_to(KUSTOMIZE / name)
    mine = tmp_path / "overlays/mine"
    mine.mkdir()
    (mine / "kustomization.yaml").write_text(text.group(1))
    images = {
        container["image"]
        for found in built(mine)
        if found["kind"] == "Deployment"
        for container in found["spec"]["template"]["spec"]["containers"]
    }
    assert images == {"registry.example.com/noctaya:0.1.0"}


def test_labels_on_the_page_are_those_that_are_looked_at() -> None:
    policies = yaml.safe_dump_all(
        [found for found in overlay("hardened") if found["kind"] == "NetworkPolicy"]
    )
    named = set(re.findall(r"serving\.noctaya\.io/[a-z]+-access", PAGES["install.md"]))
    assert named == set(re.findall(r"serving\.noctaya\.io/[a-z]+-access", policies))
    assert f"{LABEL_CLIENT_KEYS}=true" in commands("install.md")


def test_the_overlays_and_components_of_the_page_are_all_that_there_are() -> None:
    rows = set(re.findall(r"^\| `([a-z-]+)` \|", PAGES["install.md"], re.MULTILINE))
    there = {
        path.parent.name for kind in ("overlays", "components") for path in KUSTOMIZE.glob(f"{kind}/*/kust*")
    }
    assert rows == there - {"mine"}


def test_the_page_installs_this_version() -> None:
    image = next(
        found["spec"]["template"]["spec"]["containers"][0]["image"]
        for found in overlay("default")
        if found["kind"] == "Deployment"
    )
    assert f"`{image}`" in PAGES["install.md"]


def test_uninstalling_warns_before_anything_is_lost() -> None:
    page = PAGES["runbooks/uninstall.md"]
    assert page.index("Every model of the cluster and every cache is deleted") < page.index(
        "delete llmservices --all"
    )
    assert page.index("Its cache goes with it") < page.index("delete llmservice smollm2")
    order = ["delete llmservices", "wait --for=delete scaledobjects", "overlays/default", "kustomize/crd"]
    everything = page[page.index("## 3. Everything") :]
    assert sorted(order, key=everything.index) == order
