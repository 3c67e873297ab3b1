"""Names, labels and annotations of everything that belongs to an LLMService, and the shard that it lives in.

Users, dashboards and the gateway rely on these names, so they are written down once, here. An LLMService's own name is the
stem of its children's names: KEDA's `keda-hpa-<name>` must fit 63 characters, which leaves 54, and a Service's name must be
a DNS label that begins with a letter. The shard of a service is fixed for life; whoever shards must refuse a shard map
whose count or hash differs from `SHARD_COUNT` and `HASH_NAME`.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

import xxhash

from noctaya.api.errors import InvalidName

GROUP: Final = "serving.noctaya.io"
VERSION: Final = "v1alpha1"
API_VERSION: Final = f"{GROUP}/{VERSION}"

SHARD_COUNT: Final = 128
HASH_NAME: Final = "xxh3-64/ns-name/v1"

MAX_SERVICE_NAME: Final = 54
"""63, the longest name of a HorizontalPodAutoscaler that KEDA accepts, less its prefix `keda-hpa-`."""
MAX_RUNTIME_NAME: Final = 63
"""A runtime's name is the value of a label."""
SERVICE_NAME_PATTERN: Final = "^[a-z]([-a-z0-9]*[a-z0-9])?$"

LABEL_NAME: Final = "app.kubernetes.io/name"
LABEL_MANAGED_BY: Final = "app.kubernetes.io/managed-by"
LABEL_LLMSERVICE: Final = f"{GROUP}/llmservice"
LABEL_RUNTIME: Final = f"{GROUP}/runtime"
LABEL_SHARD: Final = f"{GROUP}/shard"
LABEL_PREWARM: Final = f"{GROUP}/prewarm"
LABEL_CLIENT_KEYS: Final = f"{GROUP}/client-keys"
"""On a Secret: `true` lets workers watch it instead of reading it now and then."""
MANAGED_BY: Final = "noctaya"

ANNOTATION_CREATE_ONCE_HASH: Final = f"{GROUP}/create-once-hash"
"""On a claim or Job: the hash of the spec that it was made from."""
ANNOTATION_VOLCANO_QUEUE: Final = "scheduling.volcano.sh/queue-name"

SERVING_CONTAINER: Final = "serving"
PREWARM_CONTAINER: Final = "prewarm"
PULL_CONTAINER: Final = "pull-oci-model"


class ChildNames(NamedTuple):
    """What the children of one LLMService are called."""

    deployment: str
    service: str
    """The public one, that clients call."""
    backend_service: str
    """The headless one, for people and scrapers."""
    scaled_object: str
    cache_claim: str
    prewarm_job: str


def child_names(name: str) -> ChildNames:
    """The names that the children of the LLMService `name` get."""
    return ChildNames(name, name, f"{name}-backend", name, f"{name}-cache", f"{name}-prewarm")


def check_service_name(name: str) -> None:
    """Raises `InvalidName` where the name of an LLMService cannot be the stem of its children's names."""
    if len(name) > MAX_SERVICE_NAME:
        raise InvalidName(
            name, f"must be no longer than {MAX_SERVICE_NAME} characters: children are named after it"
        )
    if not re.fullmatch(SERVICE_NAME_PATTERN, name):
        raise InvalidName(
            name, "must be lower-case letters, digits and dashes, begin with a letter and not end with a dash"
        )


def shard_of(namespace: str, name: str) -> int:
    """The shard, 0 to `SHARD_COUNT` - 1, of an LLMService."""
    return xxhash.xxh3_64_intdigest(f"{namespace}/{name}".encode()) % SHARD_COUNT


def selector_labels(name: str) -> dict[str, str]:
    """What selects the backend pods of a service. A Deployment's selector cannot change: neither may this."""
    return {LABEL_NAME: name, LABEL_MANAGED_BY: MANAGED_BY, LABEL_LLMSERVICE: name}


def child_labels(namespace: str, name: str) -> dict[str, str]:
    """What every child object of a service carries: `selector_labels` and its shard."""
    return selector_labels(name) | {LABEL_SHARD: str(shard_of(namespace, name))}


def backend_labels(namespace: str, name: str, runtime: str) -> dict[str, str]:
    """What the backend Deployment and its pods carry: `child_labels` and the runtime."""
    return child_labels(namespace, name) | {LABEL_RUNTIME: runtime}


def prewarm_labels(name: str) -> dict[str, str]:
    """What prewarm *pods* carry. They lack the service's own label, so that no selector takes them for backends."""
    return {LABEL_NAME: child_names(name).prewarm_job, LABEL_MANAGED_BY: MANAGED_BY, LABEL_PREWARM: name}


def endpoint_url(namespace: str, name: str) -> str:
    """Where clients inside the cluster reach a service."""
    return f"http://{name}.{namespace}.svc/v1"
