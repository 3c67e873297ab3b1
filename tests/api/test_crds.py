"""The definitions: what users see of them, that they are structural, and that the committed files are current."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import pytest
import yaml
from pydantic import BaseModel, Field

from noctaya.api import crds
from noctaya.api.rules import ApiModel, implied, nested
from noctaya.api.structural import NotStructural, structural

COMMITTED = Path(__file__).parents[2] / "deploy" / "kustomize" / "crd"
BY_KIND = {crd["spec"]["names"]["kind"]: crd for crd in crds.crds()}


def nodes(schema: dict[str, Any], path: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    """Every schema inside `schema`, itself included, with its path."""
    yield path, schema
    for name, child in schema.get("properties", {}).items():
        yield from nodes(child, f"{path}.{name}")
    for keyword in ("items", "additionalProperties"):
        if keyword in schema:
            yield from nodes(schema[keyword], f"{path}[]")


def root(kind: str) -> dict[str, Any]:
    schema: dict[str, Any] = BY_KIND[kind]["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    return schema


ALL = [(kind, path, node) for kind in BY_KIND for path, node in nodes(root(kind))]


def test_the_committed_files_are_current() -> None:
    assert crds.stale(COMMITTED) == []


def test_writing_repairs_what_is_missing_changed_or_left_over(tmp_path: Path) -> None:
    folder = tmp_path / "crd"
    assert crds.write(folder) == sorted(crds.files())
    assert crds.write(folder) == []
    (folder / "kustomization.yaml").unlink()
    (folder / "llmservices.serving.noctaya.io.yaml").write_text("old")
    (folder / "models.serving.noctaya.io.yaml").write_text("gone")
    (folder / "patch.yaml").write_text("a user's own")
    expected = ["kustomization.yaml", "llmservices.serving.noctaya.io.yaml", "models.serving.noctaya.io.yaml"]
    assert crds.stale(folder) == expected
    assert crds.write(folder) == expected
    assert crds.stale(folder) == []
    assert (folder / "patch.yaml").read_text() == "a user's own"


def test_the_files_say_what_the_definitions_say() -> None:
    files = {name: yaml.safe_load(text) for name, text in crds.files().items()}
    kustomization = files.pop("kustomization.yaml")
    assert kustomization["resources"] == sorted(files)
    assert [files[f"{crd['metadata']['name']}.yaml"] for crd in crds.crds()] == crds.crds()


def test_names_scopes_and_columns_are_as_users_know_them() -> None:
    service, runtime = BY_KIND["LLMService"]["spec"], BY_KIND["InferenceRuntime"]["spec"]
    assert (service["scope"], service["names"]["plural"]) == ("Namespaced", "llmservices")
    assert (runtime["scope"], runtime["names"]["plural"]) == ("Cluster", "inferenceruntimes")
    columns = {
        kind: [
            (column["name"], column["jsonPath"], column.get("priority", 0))
            for column in spec["versions"][0]["additionalPrinterColumns"]
        ]
        for kind, spec in (("LLMService", service), ("InferenceRuntime", runtime))
    }
    assert columns == {
        "LLMService": [
            ("Phase", ".status.phase", 0),
            ("Runtime", ".status.resolvedRuntime", 0),
            ("Replicas", ".status.replicas", 0),
            ("Age", ".metadata.creationTimestamp", 0),
        ],
        "InferenceRuntime": [
            ("Family", ".spec.family", 0),
            ("Vendor", ".spec.vendor", 0),
            ("Image", ".spec.container.image", 1),
            ("Age", ".metadata.creationTimestamp", 0),
        ],
    }
    for spec in (service, runtime):
        (version,) = spec["versions"]
        assert (version["name"], version["served"], version["storage"]) == ("v1alpha1", True, True)
        assert version["subresources"] == {"status": {}}


@pytest.mark.parametrize("kind", BY_KIND)
def test_every_field_is_explained(kind: str) -> None:
    unexplained = {
        f"{path}.{name}"
        for path, node in nodes(root(kind))
        for name, child in node.get("properties", {}).items()
        if "description" not in child and (path, name) != ("", "metadata")
    }
    assert unexplained == set()


def test_every_text_and_list_is_bounded_so_that_rules_have_a_cost() -> None:
    for kind, path, node in ALL:
        if path in {".apiVersion", ".kind"}:
            continue
        if node.get("type") == "string":
            assert "maxLength" in node or "enum" in node, (kind, path)
        if node.get("type") == "array":
            assert "maxItems" in node, (kind, path)
        if "additionalProperties" in node:
            assert "maxProperties" in node, (kind, path)


def test_every_ancestor_of_a_default_exists_by_default_or_by_choice() -> None:
    """A default below an optional section takes effect when the section does; those of the minimal objects always."""
    always = {path for kind, path, node in ALL if kind == "LLMService" and node.get("default") == {}}
    assert always == {
        ".spec.resources",
        ".spec.scaling",
        ".spec.cache",
        ".spec.endpoint",
        ".spec.endpoint.coldStart",
    }


def test_only_structural_keywords_are_used() -> None:
    for kind, path, node in ALL:
        assert not {"$ref", "title", "const", "allOf", "oneOf", "not"} & node.keys(), (kind, path)
        assert ("anyOf" in node) == bool(node.get("x-kubernetes-int-or-string")), (kind, path)
        assert ("type" in node) != bool(node.get("x-kubernetes-int-or-string")), (kind, path)
        assert not ("properties" in node and "additionalProperties" in node), (kind, path)
    assert root("LLMService")["properties"]["metadata"] == {"type": "object"}


def test_rules_speak_of_metadata_only_at_the_root() -> None:
    for kind, path, node in ALL:
        for rule in node.get("x-kubernetes-validations", ()):
            assert path == "" or "metadata" not in rule["rule"], (kind, path)
            assert ".?" not in rule["rule"]
            assert "\n" not in rule["message"]


class Leaf(ApiModel):
    """A leaf."""

    size: int = Field(default=1, gt=0)
    flag: bool = implied(False)


class Tree(ApiModel):
    """A tree."""

    leaf: Leaf = nested(Leaf)
    kind: Literal["oak"] = "oak"
    maybe: Leaf | None = None


def test_references_nulls_constants_and_bounds_are_translated() -> None:
    leaf = {
        "type": "object",
        "description": "A leaf.",
        "properties": {
            "size": {"type": "integer", "minimum": 0, "exclusiveMinimum": True, "default": 1},
            "flag": {"type": "boolean"},
        },
    }
    assert structural(Tree) == {
        "type": "object",
        "description": "A tree.",
        "properties": {
            "leaf": {**leaf, "default": {}},
            "kind": {"type": "string", "enum": ["oak"], "default": "oak"},
            "maybe": leaf,
        },
    }


class Choice(BaseModel):
    either: int | list[int]


class Endless(BaseModel):
    child: Endless | None = None


class Anything(BaseModel):
    field: Any


class Pair(BaseModel):
    pair: tuple[int, str]


@pytest.mark.parametrize(
    ("model", "path", "says"),
    [
        (Choice, "Choice.either", "choice of types"),
        (Endless, "Endless.child", "contains itself"),
        (Anything, "Anything.field", "no type"),
        (Pair, "Pair.pair", "prefixItems"),
    ],
)
def test_what_a_definition_cannot_say_is_an_error_here_not_in_the_cluster(
    model: type[BaseModel], path: str, says: str
) -> None:
    with pytest.raises(NotStructural, match=says) as refusal:
        structural(model)
    assert refusal.value.path.startswith(path)


def test_importing_the_package_does_not_import_pydantic() -> None:
    code = "import sys, noctaya.api; print(*{'pydantic', 'yaml', 'cel'} & sys.modules.keys())"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stdout.strip()) == (0, ""), done.stderr
