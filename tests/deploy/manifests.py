"""What the manifests say, as `kubectl kustomize` renders them.

Rendering needs the kubectl program; without it a test is skipped, and says so. Each directory is rendered once.
"""

import os
import shutil
import subprocess
from collections.abc import Iterable, Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[2]
KUSTOMIZE = ROOT / "deploy" / "kustomize"
OVERLAYS = ("default", "hardened", "quickstart", "single-node")
NAMESPACE = "noctaya-system"
DEADLINE_SECONDS = 60

Object = dict[str, Any]


def kubectl_program() -> str:
    """Where kubectl is; skips the test where it is nowhere."""
    program = shutil.which("kubectl")
    if program is None:
        pytest.skip("kubectl is not on PATH: manifests cannot be rendered")
    return program


@lru_cache
def _rendered(directory: Path) -> str:
    done = subprocess.run(
        [kubectl_program(), "kustomize", str(directory)],
        capture_output=True,
        text=True,
        timeout=DEADLINE_SECONDS,
        check=False,
    )
    assert done.returncode == 0, f"{directory} does not build: {done.stderr}"
    assert not done.stderr, f"{directory} builds with a warning: {done.stderr}"
    return done.stdout


def text_of(directory: Path) -> str:
    """The YAML that a kustomization directory builds to."""
    return _rendered(directory.resolve())


def built(directory: Path) -> list[Object]:
    """Its objects, in the order in which they are applied. They are shared: copy one before changing it."""
    return list(_parsed(text_of(directory)))


@lru_cache
def _parsed(text: str) -> tuple[Object, ...]:
    return tuple(yaml.load_all(text, yaml.CSafeLoader))


def overlay(name: str) -> list[Object]:
    """The objects of an overlay."""
    return built(KUSTOMIZE / "overlays" / name)


def with_components(directory: Path, *names: str) -> list[Object]:
    """The default overlay with components, as a user's own overlay in `directory` adds them."""
    relative = os.path.relpath(KUSTOMIZE.resolve(), directory.resolve())
    kustomization = {
        "apiVersion": "kustomize.config.k8s.io/v1beta1",
        "kind": "Kustomization",
        "resources": [f"{relative}/overlays/default"],
        "components": [f"{relative}/components/{name}" for name in names],
    }
    (directory / "kustomization.yaml").write_text(yaml.safe_dump(kustomization))
    return built(directory)


def of_kind(objects: Iterable[Object], kind: str) -> dict[str, Object]:
    """Objects of a kind by name."""
    return {found["metadata"]["name"]: found for found in objects if found["kind"] == kind}


def pod_templates(objects: Iterable[Object]) -> Iterator[tuple[str, Object]]:
    """Everything that makes pods, by name, with the spec of its pods."""
    for found in objects:
        template = found.get("spec", {}).get("template")
        if isinstance(template, dict) and "spec" in template:
            yield f"{found['kind']} {found['metadata']['name']}", template["spec"]


def containers(spec: Object) -> list[Object]:
    """All containers of a pod, those of its start included."""
    return [*spec.get("initContainers", []), *spec["containers"]]
