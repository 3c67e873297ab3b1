"""What differs between accelerator vendors in a serving pod. Everything else about a device stands in the InferenceRuntime."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from noctaya.api.conditions import Reason
from noctaya.workers.errors import SpecProblem


@dataclass(frozen=True, slots=True)
class Vendor:
    """One vendor's adapter."""

    has_accelerator: bool = True
    """Whether pods ask for `accelerator.resourceName`."""
    host_paths: tuple[tuple[str, str], ...] = ()
    """(volume's name, path): mounted read-only from the node at the same path."""
    drops_capabilities: bool = True
    """Whether the serving container runs without any Linux capability."""


VENDORS: Mapping[str, Vendor] = {
    "nvidia": Vendor(),
    "ascend": Vendor(
        host_paths=(
            ("ascend-driver", "/usr/local/Ascend/driver"),
            ("npu-smi", "/usr/local/bin/npu-smi"),
            ("dcmi", "/usr/local/dcmi"),
            ("ascend-install-info", "/etc/ascend_install.info"),
        ),
        # The driver's device files belong to its own user: root opens them only by CAP_DAC_OVERRIDE.
        drops_capabilities=False,
    ),
    "cpu": Vendor(has_accelerator=False),
}


def adapter(vendor: str) -> Vendor:
    """The adapter of `vendor`. Raises SpecProblem (UnsupportedVendor)."""
    found = VENDORS.get(vendor)
    if found is None:
        raise SpecProblem(
            Reason.UNSUPPORTED_VENDOR,
            f"vendor {vendor!r} of the InferenceRuntime is not supported; use one of {', '.join(sorted(VENDORS))}",
        )
    return found
