"""`make image`: the product's image and its bill of materials as files that a person takes away, with what to do next.

Invariant: both files are whole or not there, and belong together. How it fails: as `product_image` and `bill_of_materials`.
"""

import json
import shutil
from dataclasses import dataclass
from pathlib import Path

from deploy.image import contents
from tests.cluster.archive import Archive
from tests.cluster.bill_of_materials import bill_of_materials
from tests.cluster.product_image import product_image, site_packages
from tests.cluster.progress import Progress

MIB = 1 << 20


@dataclass(frozen=True, slots=True)
class Delivered:
    """Where the files are, and what they are."""

    archive: Path
    bill: Path
    tag: str
    digest: str
    unpacked_bytes: int
    parts: int

    def lines(self) -> list[str]:
        """What a person wants to know."""
        short = self.tag.removeprefix("docker.io/library/")
        size = f"{self.archive.stat().st_size / MIB:.0f} MiB, unpacked {self.unpacked_bytes / MIB:.0f} MiB"
        return [
            f"{short}  {self.digest}",
            f"archive            {self.archive} ({size})",
            f"bill of materials  {self.bill} (CycloneDX, {self.parts} parts)",
            "",
            "into Docker        " + f"docker load --input {self.archive}",
            "into a node        " + f"ctr --namespace=k8s.io images import {self.archive}",
            "into kind          " + f"kind load image-archive {self.archive}",
            "to a registry      " + f"docker tag {short} REGISTRY/{short} && docker push REGISTRY/{short}",
        ]


def deliver(folder: Path, version: str, progress: Progress, *, cache: Path | None = None) -> Delivered:
    """Make the image of `version`, and put archive and bill of materials into a folder.

    Raises:
        CommandFailed: the package index cannot be reached or has not what the lock says.
        UnknownPart: the image holds what no record explains.
    """
    made = product_image(version, cache=cache, progress=progress)
    wheels = json.loads((site_packages(cache=cache) / contents.WHEELS).read_text())
    target = folder / f"noctaya-{version}.tar"
    folder.mkdir(parents=True, exist_ok=True)
    with Archive(made) as archive:
        progress.working("writing the bill of materials")
        bill = bill_of_materials(archive, wheels, version)
        path = target.with_suffix(".cdx.json")
        _whole(path, json.dumps(bill, indent=1).encode())
        _whole(target, made)
        return Delivered(
            archive=target,
            bill=path,
            tag=archive.tags[0],
            digest=archive.digest,
            unpacked_bytes=archive.unpacked_bytes,
            parts=len(bill["components"]),
        )


def _whole(target: Path, content: Path | bytes) -> None:
    part = target.with_name(target.name + ".part")
    if isinstance(content, bytes):
        part.write_bytes(content)
    else:
        shutil.copyfile(content, part)
    part.rename(target)
