"""The custom kinds of the suite: Widgets, which have everything that a definition may say, and the product's own."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import yaml

from noctaya.kube.resources import CRDS, LLMSERVICES, Resource
from tests.conformance.client import APPLY, Api, Object
from tests.local.apiserver.manifests import widgets_definition

WIDGETS = Resource("example.test", "v1", "widgets", "Widget", namespaced=True)
_FOLDER = Path(__file__).parents[2] / "deploy" / "kustomize" / "crd"


async def install(api: Api) -> None:
    """Make the kinds served, once in a session."""
    if api.server.definitions:
        return
    definitions: list[Object] = [widgets_definition()]
    definitions += [yaml.safe_load(path.read_text()) for path in sorted(_FOLDER.glob("*.noctaya.io.yaml"))]
    for body in definitions:
        path = CRDS.path(None, body["metadata"]["name"])
        options: dict[str, Any] = {"query": {"fieldManager": "conformance", "force": "true"}}
        await api.ok("PATCH", path, body, content_type=APPLY, **options)
    for resource in (WIDGETS, LLMSERVICES):
        await api.until(partial(_is_served, api, resource))
    api.server.definitions.update(body["metadata"]["name"] for body in definitions)


async def _is_served(api: Api, resource: Resource) -> bool:
    """A definition is established some time before its kind can be created."""
    body = {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": {"name": "probe"}}
    answer = await api.call("POST", api.path(resource), body, query={"dryRun": "All"})
    return answer.code in (201, 422)


def widget(name: str = "w", **spec: Any) -> Object:
    """A Widget of size 1 unless said otherwise."""
    return {
        "apiVersion": "example.test/v1",
        "kind": "Widget",
        "metadata": {"name": name},
        "spec": {"size": 1, **spec},
    }
