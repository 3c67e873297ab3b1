"""Secrets with clients' keys, one a line, and the part of a model's spec that names one."""

import base64

from tests.acceptance.api import Api, Object

ENTRY = "api-key"
LABEL = "serving.noctaya.io/client-keys"
"""With it a Secret is watched; without it, it is read now and then."""


def guarded_by(name: str) -> Object:
    """The `spec.endpoint` of a model whose keys are in this Secret."""
    return {"maxQueue": 4, "authentication": {"secretRef": {"name": name, "key": ENTRY}}}


def secret(name: str, *keys: str, is_labelled: bool) -> Object:
    """Client keys, one a line."""
    labels = {LABEL: "true"} if is_labelled else {}
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": name, "labels": labels},
        "data": entries(*keys),
    }


def entries(*keys: str) -> dict[str, str]:
    """The `data` of a Secret with these keys."""
    return {ENTRY: base64.b64encode("\n".join(keys).encode()).decode()}


async def change(api: Api, namespace: str, name: str, *keys: str) -> None:
    """Let the Secret have these keys and no others."""
    await api.patch("secrets", name, {"data": entries(*keys)}, namespace)
