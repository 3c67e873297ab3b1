"""Custom resource definitions: from the object that a user applies to the kinds that the server serves."""

from __future__ import annotations

from noctaya.local.apiserver import objectmeta, printercolumns
from noctaya.local.apiserver.celrules import BadRule
from noctaya.local.apiserver.kinds import Kind, ScalePaths
from noctaya.local.apiserver.schema import PRESERVE, StructuralSchema
from noctaya.local.apiserver.status import Cause, Object, invalid
from noctaya.local.apiserver.tablecells import at


def kinds_of(definition: Object) -> list[Kind]:
    """The kinds that a definition serves, the preferred version first."""
    spec = definition["spec"]
    names = spec["names"]
    kinds = []
    for version in spec.get("versions") or []:
        if not version.get("served"):
            continue
        scale = at(version, "subresources", "scale", default=None)
        schema = StructuralSchema(
            at(version, "schema", "openAPIV3Schema", default={"type": "object", PRESERVE: True})
        )
        kinds.append(
            Kind(
                group=spec["group"],
                version=version["name"],
                kind=names["kind"],
                plural=names["plural"],
                singular=names.get("singular") or names["kind"].lower(),
                list_kind=names.get("listKind") or f"{names['kind']}List",
                namespaced=spec.get("scope") == "Namespaced",
                short_names=tuple(names.get("shortNames") or ()),
                categories=tuple(names.get("categories") or ()),
                has_status="status" in (version.get("subresources") or {}),
                scale=_scale(scale) if scale else None,
                schema=schema,
                merge_type=schema.merge_type(),
                columns=printercolumns.columns_of(version.get("additionalPrinterColumns")),
                selectable_fields=tuple(
                    f["jsonPath"].lstrip(".") for f in version.get("selectableFields") or ()
                ),
            )
        )
    return kinds


def _scale(declared: Object) -> ScalePaths:
    selector = declared.get("labelSelectorPath")
    return ScalePaths(
        spec=_path(declared["specReplicasPath"]),
        status=_path(declared["statusReplicasPath"]),
        selector=_path(selector) if selector else None,
    )


def _path(text: str) -> tuple[str, ...]:
    return tuple(text.lstrip(".").split("."))


def prepared(old: Object | None, new: Object, now: float) -> Object:
    """A definition on its way into the store: names completed, established at once."""
    _check(new)
    spec = new["spec"]
    names = dict(spec["names"])
    names.setdefault("singular", names["kind"].lower())
    names.setdefault("listKind", f"{names['kind']}List")
    spec = {**spec, "names": names, "conversion": spec.get("conversion") or {"strategy": "None"}}
    status = dict(new.get("status") or {})
    since = objectmeta.timestamp(now)
    if not status.get("conditions"):
        status["conditions"] = [
            {
                "type": kind,
                "status": "True",
                "reason": reason,
                "message": message,
                "lastTransitionTime": since,
            }
            for kind, reason, message in (
                ("NamesAccepted", "NoConflicts", "no conflicts found"),
                ("Established", "InitialNamesAccepted", "the initial names have been accepted"),
            )
        ]
    stored = [version["name"] for version in spec["versions"] if version.get("storage")]
    before = ((old or {}).get("status") or {}).get("storedVersions") or []
    status["storedVersions"] = [*before, *(name for name in stored if name not in before)]
    status["acceptedNames"] = names
    return {**new, "spec": spec, "status": status}


def _check(new: Object) -> None:
    """Raise 422 unless the definition can be served."""
    name = new["metadata"]["name"]
    causes = _shape_problems(new, name)
    if not causes:
        try:
            kinds_of(new)
        except BadRule as problem:
            field = f"spec.validation.{problem.path.removeprefix('schema.')}"
            causes = [Cause(field, f'Invalid value: "{problem.text}": {problem}')]
        except (ValueError, TypeError, KeyError, AttributeError) as problem:
            causes = [Cause("spec.versions", f"Invalid value: the schema cannot be used: {problem}")]
    if causes:
        raise invalid("CustomResourceDefinition", "apiextensions.k8s.io", name, causes)


def _shape_problems(new: Object, name: str) -> list[Cause]:
    spec = new.get("spec")
    if not isinstance(spec, dict):
        return [Cause("spec", "Required value", "FieldValueRequired")]
    given = spec.get("names")
    names: Object = given if isinstance(given, dict) else {}
    paths = {
        "spec.group": spec,
        "spec.scope": spec,
        "spec.versions": spec,
        "spec.names.plural": names,
        "spec.names.kind": names,
    }
    causes = [
        Cause(path, "Required value", "FieldValueRequired")
        for path, where in paths.items()
        if not where.get(path.rsplit(".", 1)[-1])
    ]
    if causes:
        return causes
    if name != f"{names['plural']}.{spec['group']}":
        causes.append(
            Cause("metadata.name", f'Invalid value: "{name}": must be spec.names.plural+"."+spec.group')
        )
    if sum(1 for version in spec["versions"] if version.get("storage")) != 1:
        causes.append(
            Cause("spec.versions", "Invalid value: must have exactly one version marked as storage version")
        )
    causes.extend(
        Cause(
            f"spec.versions[{index}].schema.openAPIV3Schema",
            "Required value: schemas are required",
            "FieldValueRequired",
        )
        for index, version in enumerate(spec["versions"])
        if not at(version, "schema", "openAPIV3Schema")
    )
    return causes
