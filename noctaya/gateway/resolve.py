"""Which service a request is for: its path, else its Host, else the `model` in its body. Pure; wakes nothing.

A Host that no service answers to says nothing (it is the gateway's own name, or a load balancer's): the body decides then.
"""

import re
from dataclasses import dataclass
from urllib.parse import unquote

from noctaya.gateway import openai_errors
from noctaya.gateway.keys import Caller, Gate
from noctaya.gateway.routing import RouteTable
from noctaya.gateway.service import Service

SERVICE_PATH = re.compile(r"^/(?P<namespace>[^/]+)/(?P<name>[^/]+)(?P<rest>/v1(?:/.*)?)$", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Target:
    """Where a request goes: `path` is what the engine sees; `service` is None while only the body can tell."""

    service: Service | None
    path: str


def by_address(table: RouteTable, path: str, host: str) -> Target:
    """Resolve what path and Host tell, before a byte of the body is read.

    Raises:
        Refusal: 404 for `/{namespace}/{name}/v1/…` of a service that does not exist.
    """
    if not path.startswith("/v1/") and (match := SERVICE_PATH.match(path)):
        key = f"{unquote(match['namespace'])}/{unquote(match['name'])}"
        service = table.get(key)
        if service is None:
            raise openai_errors.model_not_found(key)
        return Target(service, match["rest"])
    return Target(by_host(table, host), path)


def by_host(table: RouteTable, host: str) -> Service | None:
    """The service that a Host header names: `<svc>.<ns>[.svc[.<cluster domain>]]`, or a hostname that a service declares.

    A name of the cluster wins over a declared one, so that nobody can declare another's away.
    """
    name = host.lower()
    if not name.startswith("["):
        name = name.partition(":")[0]
    labels = name.rstrip(".").split(".")
    if (len(labels) == 2 or (len(labels) > 2 and labels[2] == "svc")) and (
        service := table.get(f"{labels[1]}/{labels[0]}")
    ):
        return service
    return table.by_hostname(".".join(labels))


def refuse_strangers(table: RouteTable, gate: Gate, caller: Caller) -> None:
    """Before a body is read to find its model: turn away a caller for whom no service can be meant.

    Raises:
        Refusal: 401 when there is neither a service that is open nor one that accepts the caller's key.
    """
    if caller.digest is not None and table.knows_digest(caller.digest):
        return
    if gate.opens_any(table.keyless_namespaces()) or not len(table):
        return
    if caller.digest is None:
        raise openai_errors.unauthorized(
            "You did not provide an API key. Send it as 'Authorization: Bearer KEY'.", "missing_api_key"
        )
    raise openai_errors.unauthorized("The API key is not valid for any model here.")


def by_model(table: RouteTable, gate: Gate, caller: Caller, model: str | None) -> Service:
    """Resolve the body's `model`: exactly `namespace/name`, else a name or alias among what the caller may use.

    Raises:
        Refusal: 400 (no model, or an ambiguous name), 404 (none), 401/403/503 when the named service refuses the caller.
    """
    if not model:
        raise openai_errors.model_missing()
    if service := table.get(model):
        gate.check(service, caller)
        return service
    named = table.by_name(model)
    allowed = [service for service in named if gate.allows(service, caller)]
    if len(allowed) > 1:
        raise openai_errors.model_ambiguous(model, [service.key for service in allowed])
    if allowed:
        return allowed[0]
    if named and caller.digest is None:
        gate.check(named[0], caller)
    raise openai_errors.model_not_found(model)
