"""Discovery: which groups, versions and resources there are, in the legacy and in the aggregated form."""

from __future__ import annotations

from noctaya.local.apiserver.kinds import Kind
from noctaya.local.apiserver.registry import Registry
from noctaya.local.apiserver.status import Object

VERSION: Object = {
    "major": "1",
    "minor": "35",
    "gitVersion": "v1.35.4+noctaya",
    "gitCommit": "",
    "gitTreeState": "clean",
    "buildDate": "1970-01-01T00:00:00Z",
    "goVersion": "",
    "compiler": "cpython",
    "platform": "local",
}
AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
_SUBRESOURCE_VERBS = {
    "status": ["get", "patch", "update"],
    "scale": ["get", "patch", "update"],
    "log": ["get"],
}


def wants_aggregated(accept: str) -> bool:
    """Whether the client asks for aggregated discovery in version v2."""
    return any(
        "as=APIGroupDiscoveryList" in part and "v=v2;" in f"{part.strip()};" for part in accept.split(",")
    )


def api_versions() -> Object:
    """`/api`."""
    return {"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": []}


def _group(group: str, versions: list[str]) -> Object:
    listed = [{"groupVersion": f"{group}/{version}", "version": version} for version in versions]
    return {"name": group, "versions": listed, "preferredVersion": listed[0]}


def group_list(registry: Registry) -> Object:
    """`/apis`."""
    groups = [_group(group, versions) for group, versions in registry.groups().items() if group]
    return {"kind": "APIGroupList", "apiVersion": "v1", "groups": groups}


def group(registry: Registry, name: str) -> Object | None:
    """`/apis/<group>`."""
    versions = registry.groups().get(name)
    return (
        None
        if versions is None or not name
        else {"kind": "APIGroup", "apiVersion": "v1", **_group(name, versions)}
    )


def _subresources(kind: Kind) -> list[str]:
    return [*(["status"] if kind.has_status else []), *(["scale"] if kind.scale else []), *kind.subresources]


def _subresource_kind(kind: Kind, name: str) -> tuple[str, str, str]:
    known = {
        "scale": ("autoscaling", "v1", "Scale"),
        "eviction": ("policy", "v1", "Eviction"),
        "binding": ("", "v1", "Binding"),
    }
    return known.get(name, (kind.group, kind.version, kind.kind))


def _verbs(name: str) -> list[str]:
    return _SUBRESOURCE_VERBS.get(name, ["update"] if name == "finalize" else ["create"])


def resource_list(registry: Registry, group_name: str, version: str) -> Object | None:
    """`/apis/<group>/<version>` or `/api/v1`."""
    kinds = registry.in_version(group_name, version)
    if not kinds:
        return None
    resources: list[Object] = []
    for kind in kinds:
        entry: Object = {
            "name": kind.plural,
            "singularName": kind.singular,
            "namespaced": kind.namespaced,
            "kind": kind.kind,
            "verbs": list(kind.verbs),
        }
        if kind.short_names:
            entry["shortNames"] = list(kind.short_names)
        if kind.categories:
            entry["categories"] = list(kind.categories)
        resources.append(entry)
        for name in _subresources(kind):
            in_group, in_version, shown = _subresource_kind(kind, name)
            sub: Object = {
                "name": f"{kind.plural}/{name}",
                "singularName": "",
                "namespaced": kind.namespaced,
                "kind": shown,
                "verbs": _verbs(name),
            }
            if (in_group, in_version) != (kind.group, kind.version):
                sub |= {"group": in_group, "version": in_version}
            resources.append(sub)
    api_version = f"{group_name}/{version}" if group_name else version
    return {
        "kind": "APIResourceList",
        "apiVersion": "v1",
        "groupVersion": api_version,
        "resources": resources,
    }


def aggregated(registry: Registry, core: bool) -> Object:
    """`/api` or `/apis` as one document."""
    items = []
    for name, versions in registry.groups().items():
        if (name == "") is not core:
            continue
        listed = [
            {
                "version": version,
                "freshness": "Current",
                "resources": [_aggregated_resource(kind) for kind in registry.in_version(name, version)],
            }
            for version in versions
        ]
        items.append({"metadata": {"name": name} if name else {}, "versions": listed})
    return {
        "kind": "APIGroupDiscoveryList",
        "apiVersion": "apidiscovery.k8s.io/v2",
        "metadata": {},
        "items": items,
    }


def _aggregated_resource(kind: Kind) -> Object:
    entry: Object = {
        "resource": kind.plural,
        "responseKind": {"group": kind.group, "version": kind.version, "kind": kind.kind},
        "scope": "Namespaced" if kind.namespaced else "Cluster",
        "singularResource": kind.singular,
        "verbs": list(kind.verbs),
    }
    if kind.short_names:
        entry["shortNames"] = list(kind.short_names)
    if kind.categories:
        entry["categories"] = list(kind.categories)
    subresources = []
    for name in _subresources(kind):
        in_group, in_version, shown = _subresource_kind(kind, name)
        subresources.append(
            {
                "subresource": name,
                "responseKind": {"group": in_group, "version": in_version, "kind": shown},
                "verbs": _verbs(name),
            }
        )
    if subresources:
        entry["subresources"] = subresources
    return entry
