"""What a model's URI means to the pods that serve it: the path that engines load, and how the bytes get there.

`pvc://claim[/folder]` is complete: the claim is mounted read-only. For `hf://` and `modelscope://` the engine fetches the
weights itself at its first start, into the service's cache when it has one. Sources that need a delivery of our own
(`oci://`, `s3://`, pinned revisions, tokens) are understood and refused, so that nobody waits for weights that never come.
Every refusal is a `SpecProblem` with reason ModelResolution.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import NoReturn

from noctaya.api.conditions import Reason
from noctaya.workers.errors import SpecProblem

MODEL_STORE_PATH = "/models"
CACHE_PATH = "/cache"
SCHEMES = "hf, huggingface, modelscope, pvc"

_DNS_SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_OCI = re.compile(
    r"[a-z0-9]([-a-z0-9.]*[a-z0-9])?(:[0-9]+)?/[a-z0-9]+([._/-][a-z0-9]+)*@sha256:(?P<digest>[0-9a-f]{64})"
)


@dataclass(frozen=True, slots=True)
class Model:
    """A resolved source."""

    scheme: str
    """hf, modelscope or pvc."""
    path: str
    """`.Model.Path` of templates: a repository's id, or a path inside the serving container."""
    claim: str = ""
    """pvc only: the PersistentVolumeClaim, in the service's namespace."""
    environment: dict[str, str] = field(default_factory=dict)
    """What the engine must be told besides its arguments."""

    @property
    def is_fetched_by_engine(self) -> bool:
        return self.scheme != "pvc"


def resolve(uri: str, *, catalog: str = "", secret: str | None = None) -> Model:
    """The model behind `spec.model`: `source.uri`, `catalogRef` and the name in `source.secretRef` (None: not set).

    Raises:
        SpecProblem: not a URI that we know, or one that this version cannot deliver.
    """
    if not uri:
        _refuse(
            f"spec.model.catalogRef ({catalog}) is not supported yet by this version; set spec.model.source.uri"
            if catalog
            else "spec.model.source.uri is missing"
        )
    scheme, separator, reference = uri.partition("://")
    if not separator or not reference:
        _refuse(f"spec.model.source.uri {uri!r} is not of the form scheme://reference (schemes: {SCHEMES})")
    match scheme.lower():
        case "pvc":
            model = _pvc(uri, reference)
        case "hf" | "huggingface":
            model = Model("hf", _repository(uri, reference))
        case "modelscope":
            model = Model(
                "modelscope", _repository(uri, reference), environment={"VLLM_USE_MODELSCOPE": "true"}
            )
        case "oci":
            _oci(uri, reference)
        case "s3":
            _refuse(f"s3:// sources are not supported yet by this version ({uri!r}); use one of: {SCHEMES}")
        case _:
            _refuse(f"spec.model.source.uri {uri!r} has an unknown scheme; use one of: {SCHEMES}")
    if secret is not None:
        _refuse(
            f"spec.model.source.secretRef ({secret or 'no name'}) is not supported yet by this version for {scheme}://; "
            "remove it, or put the token into the runtime's container.env"
        )
    return model


def _pvc(uri: str, reference: str) -> Model:
    claim, separator, folder = reference.partition("/")
    if len(claim) > 253 or not _DNS_SUBDOMAIN.fullmatch(claim):
        _refuse(f"spec.model.source.uri {uri!r}: {claim!r} is not the name of a PersistentVolumeClaim")
    parts = folder.split("/") if separator else []
    if any(part in ("", ".", "..") for part in parts):
        _refuse(
            f"spec.model.source.uri {uri!r}: the path inside the claim must be relative and plain "
            "(no empty parts, '.', '..' or trailing slash)"
        )
    return Model("pvc", "/".join([MODEL_STORE_PATH, *parts]), claim=claim)


def _repository(uri: str, reference: str) -> str:
    if "@" in reference:
        _refuse(f"a pinned revision ({uri!r}) is not supported yet by this version; leave out '@…'")
    return reference


def _oci(uri: str, reference: str) -> NoReturn:
    if not _OCI.fullmatch(reference):
        _refuse(
            f"spec.model.source.uri {uri!r} is not of the form oci://registry/repository@sha256:<64 hex digits>; "
            "tags are not taken, because what they name changes"
        )
    _refuse(f"oci:// sources are not supported yet by this version ({uri!r}); use one of: {SCHEMES}")


def _refuse(message: str) -> NoReturn:
    raise SpecProblem(Reason.MODEL_RESOLUTION, message)
