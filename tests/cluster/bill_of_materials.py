"""What an image of ours is made of, as CycloneDX 1.6 (JSON), for scanners and for those who must know the licences.

Read from the image itself: every installed distribution with version, licence, purl and the hash of the wheel that the lock
allowed; the interpreter; the shared libraries that came along from this machine, with their Debian package where there is
one. Invariants: the same image gives the same bytes (no times, no random number), and what is in the image and not known is
an error, never left out. How it fails: `UnknownPart`, which names it.
"""

import hashlib
import platform
import re
import shutil
import subprocess
import uuid
from collections.abc import Iterator, Mapping
from email.message import Message
from email.parser import Parser
from typing import Any
from urllib.parse import quote

from deploy.image import contents
from tests.cluster.archive import Archive
from tests.cluster.errors import ClusterError

SPDX_IDS = {
    "3-clause bsd license": "BSD-3-Clause",
    "apache 2.0": "Apache-2.0",
    "apache license 2.0": "Apache-2.0",
    "isc license": "ISC",
    "mit license": "MIT",
}
"""Spellings of licences in packages' metadata that name one exactly."""
OSI = "License :: OSI Approved :: "
NAMESPACE = uuid.UUID("5f0b7c3e-33f5-4f0e-9d0c-8f6a3c1b2d4e")
"""Of serial numbers: a number is made of this and the image's digest."""

Component = dict[str, Any]


class UnknownPart(ClusterError):
    """Something in the image that no record explains."""

    def __init__(self, part: str) -> None:
        super().__init__(f"the image holds {part}, and nothing says where that came from")
        self.part = part


def bill_of_materials(
    archive: Archive, wheels: Mapping[str, Mapping[str, str]], version: str
) -> dict[str, Any]:
    """The document. `wheels`: name → `version` and `sha256` of what was installed (`contents.WHEELS`).

    Raises:
        UnknownPart: a distribution that is in the image is not in `wheels`, or in another version.
    """
    image = {
        "type": "container",
        "bom-ref": "image",
        "name": "noctaya",
        "version": version,
        "licenses": [{"expression": "Apache-2.0"}],
        "purl": f"pkg:oci/noctaya@{quote(archive.digest, safe='')}",
        "hashes": [_sha256(archive.digest.partition(":")[2])],
    }
    own = _component("library", "noctaya", version, f"pkg:generic/noctaya@{version}", "Apache-2.0")
    own["hashes"] = [_sha256(archive.layers[-1].partition(":")[2])]
    parts = [own, _interpreter(archive), *_distributions(archive, wheels), *_libraries(archive)]
    return {
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": f"urn:uuid:{uuid.uuid5(NAMESPACE, archive.digest)}",
        "version": 1,
        "metadata": {"component": image},
        "components": sorted(parts, key=lambda part: str(part["bom-ref"])),
        "dependencies": [{"ref": "image", "dependsOn": sorted(str(part["bom-ref"]) for part in parts)}],
    }


def _interpreter(archive: Archive) -> Component:
    version = platform.python_version()
    part = _component("application", "python", version, f"pkg:generic/python@{version}", "Python-2.0")
    part["hashes"] = [_sha256(hashlib.sha256(archive.read(contents.ENTRYPOINT[0][1:])).hexdigest())]
    return part


def _distributions(archive: Archive, wheels: Mapping[str, Mapping[str, str]]) -> Iterator[Component]:
    known = {_normal(name): wheel for name, wheel in wheels.items()}
    wanted = re.compile(rf"{contents.SITE_PACKAGES[1:]}/[^/]+\.dist-info/METADATA")
    for entry in archive.entries():
        if wanted.fullmatch(entry.name):
            metadata = Parser().parsestr(archive.read(entry.name).decode())
            name, version = _normal(metadata["Name"]), metadata["Version"]
            wheel = known.get(name, {})
            if wheel.get("version") != version:
                raise UnknownPart(f"{name} {version}")
            part = _component("library", name, version, f"pkg:pypi/{name}@{version}", "")
            part["licenses"] = [_licence(metadata)]
            part["hashes"] = [_sha256(wheel["sha256"])]
            yield part


def _libraries(archive: Archive) -> Iterator[Component]:
    """Shared libraries outside the interpreter's folder."""
    for entry in archive.entries():
        is_library = re.search(r"\.so(\.|$)", entry.name) and not entry.name.startswith(contents.LIBRARY[1:])
        if entry.isfile() and is_library:
            digest = hashlib.sha256(archive.read(entry.name)).hexdigest()
            part: Component = {
                "type": "file",
                "bom-ref": f"file:{entry.name}",
                "name": f"/{entry.name}",
                "hashes": [_sha256(digest)],
            }
            if package := _debian_package(f"/{entry.name}"):
                part["purl"] = package
            yield part


def _debian_package(path: str) -> str | None:
    """The purl of the Debian package that a file of this machine belongs to; None elsewhere."""
    query = shutil.which("dpkg-query")
    if query is None:
        return None
    for candidate in (path, f"/usr{path}"):
        owner = _answer(query, "--search", candidate).partition(": ")[0]
        shown = (
            _answer(query, "--show", "--showformat=${Package} ${Version} ${Architecture}", owner)
            if owner
            else ""
        )
        if shown:
            name, version, architecture = shown.split()
            return f"pkg:deb/debian/{name}@{quote(version, safe='.+-~')}?arch={architecture}"
    return None


def _answer(*words: str) -> str:
    return subprocess.run(words, capture_output=True, text=True, timeout=60, check=False).stdout


def _component(kind: str, name: str, version: str, purl: str, licence: str) -> Component:
    part: Component = {"type": kind, "bom-ref": purl, "name": name, "version": version, "purl": purl}
    return part | ({"licenses": [{"expression": licence}]} if licence else {})


def _licence(metadata: "Message[str, str]") -> dict[str, Any]:
    """What a package says of its licence: the expression, else the field, else the classifier."""
    if expression := metadata["License-Expression"]:
        return {"expression": expression}
    classifiers = [
        line.removeprefix(OSI) for line in metadata.get_all("Classifier", ()) if line.startswith(OSI)
    ]
    said = str(metadata["License"] or " AND ".join(classifiers)).strip()
    if not said:
        raise UnknownPart(f"{metadata['Name']}, whose licence its metadata does not say")
    said = SPDX_IDS.get(said.lower(), said)
    return {"license": {"name": said}} if " " in said else {"license": {"id": said}}


def _sha256(digest: str) -> dict[str, str]:
    return {"alg": "SHA-256", "content": digest}


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()
