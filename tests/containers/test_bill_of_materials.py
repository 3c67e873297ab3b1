"""The bill of materials: valid, complete, the same each time, and whole beside the archive."""

import json
import re
from importlib.resources import files
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest

from deploy.image import contents
from tests.cluster.archive import Archive
from tests.cluster.bill_of_materials import UnknownPart, bill_of_materials
from tests.cluster.delivery import deliver
from tests.cluster.product_image import LOCK, site_packages
from tests.cluster.progress import Progress

pytestmark = [pytest.mark.containers, pytest.mark.timeout(600)]

SCHEMAS = files("cyclonedx.schema._res")
Wheels = dict[str, dict[str, str]]


@pytest.fixture(scope="module")
def wheels() -> Wheels:
    return dict(json.loads((site_packages() / contents.WHEELS).read_text()))


@pytest.fixture(scope="module")
def bill(opened: Archive, wheels: Wheels) -> dict[str, Any]:
    return bill_of_materials(opened, wheels, "0.1.0")


def test_it_is_valid_cyclonedx(bill: dict[str, Any]) -> None:
    def schema(name: str) -> Any:
        return json.loads(SCHEMAS.joinpath(name).read_text())

    others = [
        (f"http://cyclonedx.org/schema/{name}.SNAPSHOT.schema.json", schema(f"{name}.SNAPSHOT.schema.json"))
        for name in ("spdx", "jsf-0.82")
    ]
    registry = jsonschema_rs.Registry(others)
    validator = jsonschema_rs.validator_for(schema("bom-1.6.SNAPSHOT.schema.json"), registry=registry)
    assert [error.message for error in validator.iter_errors(bill)] == []
    broken = bill | {"components": [{"type": "library"}]}
    assert not validator.is_valid(broken)


def test_every_distribution_has_version_licence_purl_and_a_hash_that_the_lock_allows(
    bill: dict[str, Any], opened: Archive
) -> None:
    locked = LOCK.read_text()
    parts = {
        part["name"]: part for part in bill["components"] if part.get("purl", "").startswith("pkg:pypi/")
    }
    inside = {
        re.sub(r"[-_.]+", "-", match[1]).lower()
        for entry in opened.entries()
        if (match := re.search(r"site-packages/([^/]+)-[^/-]+\.dist-info/METADATA$", entry.name))
    }
    assert inside == set(parts)
    for name, part in parts.items():
        assert f"{name}=={part['version']} " in locked
        assert part["licenses"]
        assert f"--hash=sha256:{part['hashes'][0]['content']}" in locked


def test_the_interpreter_its_libraries_and_noctaya_are_in_it(bill: dict[str, Any]) -> None:
    parts = {part["name"]: part for part in bill["components"]}
    assert parts["python"]["hashes"]
    assert parts["noctaya"]["version"] == "0.1.0"
    assert any(Path(name).name.startswith("libc.so") for name in parts)
    assert any(Path(name).name.startswith("libssl") for name in parts)
    assert bill["metadata"]["component"]["name"] == "noctaya"


def test_a_package_that_no_record_explains_is_named(opened: Archive, wheels: Wheels) -> None:
    without = {name: wheel for name, wheel in wheels.items() if name != "sanic"}
    with pytest.raises(UnknownPart, match="sanic"):
        bill_of_materials(opened, without, "0.1.0")


def test_archive_and_bill_lie_side_by_side_and_the_way_into_an_engine_is_said(tmp_path: Path) -> None:
    with Progress() as progress:
        delivered = deliver(tmp_path, "0.1.0", progress)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["noctaya-0.1.0.cdx.json", "noctaya-0.1.0.tar"]
    said = "\n".join(delivered.lines())
    with Archive(delivered.archive) as archive:
        assert archive.digest in said
        assert json.loads(delivered.bill.read_text())["metadata"]["component"]["hashes"][0][
            "content"
        ] == archive.digest.removeprefix("sha256:")
    for way in ("docker load", "ctr --namespace=k8s.io images import", "kind load image-archive"):
        assert way in said
