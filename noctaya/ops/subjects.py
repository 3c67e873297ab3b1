"""How a person names a shard, a worker or a service, and what the workers call it.

`17`, `shard/17` and `ai/qwen` name shards: a service stands for the shard that it lives in. `worker/<pod>`, `map` and `leader`
are subjects of the story only. A namespace that is called `shard` or `worker` loses against these words.
"""

from __future__ import annotations

import re
from typing import Final

from noctaya.api.errors import InvalidName
from noctaya.api.names import SHARD_COUNT, check_service_name, shard_of
from noctaya.ops.errors import SubjectRefused

PLAIN: Final = ("map", "leader")
_NAMESPACE: Final = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_POD: Final = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?")


def service_of(text: str) -> tuple[str, str]:
    """Namespace and name of `ai/qwen`. Raises SubjectRefused."""
    namespace, slash, name = text.partition("/")
    if not slash or not _NAMESPACE.fullmatch(namespace):
        raise SubjectRefused(text, "a service: give NAMESPACE/NAME, as in ai/qwen")
    try:
        check_service_name(name)
    except InvalidName as error:
        raise SubjectRefused(text, f"a service: {error}") from error
    return namespace, name


def shard_named(text: str | int) -> int:
    """The shard of `17`, `shard/17` or `ai/qwen`. Raises SubjectRefused."""
    given = str(text)
    number = given.removeprefix("shard/")
    if "/" not in number:
        if not (number.isascii() and number.isdigit() and len(number) <= 4 and int(number) < SHARD_COUNT):
            raise SubjectRefused(
                given, f"a shard: give a number from 0 to {SHARD_COUNT - 1}, or a service as NAMESPACE/NAME"
            )
        return int(number)
    return shard_of(*service_of(given))


def worker_named(text: str) -> str:
    """The pod of `worker/<pod>` or `<pod>`. Raises SubjectRefused."""
    pod = text.removeprefix("worker/")
    if not _POD.fullmatch(pod):
        raise SubjectRefused(text, "a worker: give the name of its pod, as `noctaya workers` shows it")
    return pod


def subject_named(text: str | int) -> str:
    """What the stories call it: `shard/17`, `worker/<pod>`, `map`, `leader`. Raises SubjectRefused."""
    given = str(text)
    if given in PLAIN:
        return given
    if given.startswith("worker/"):
        return f"worker/{worker_named(given)}"
    return f"shard/{shard_named(given)}"
