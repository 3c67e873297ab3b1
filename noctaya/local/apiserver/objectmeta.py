"""What the server itself decides in an object's metadata: uid, timestamps, generation, and who may change what.

Pure functions; each returns a new object and leaves its arguments alone.
"""

from __future__ import annotations

import re
import secrets
import uuid
from datetime import UTC, datetime

from noctaya.local.apiserver import status
from noctaya.local.apiserver.kinds import Kind
from noctaya.local.apiserver.status import Cause, Json, Object

_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_LABEL_1035 = re.compile(r"[a-z]([-a-z0-9]{0,61}[a-z0-9])?")
_SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_LABEL_VALUE = re.compile(r"([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?")
_LABEL_NAME = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")
# As rest/create.go does: no vowels and no look-alikes, so that no words come out.
_SUFFIX_LETTERS = "bcdfghjklmnpqrstvwxz2456789"
LABEL_RULE = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end "
    "with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is "
    "'[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
)
_KEY_RULE = (
    "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric "
    "character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is "
    "'([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
)
_VALUE_RULE = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end "
    "with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is "
    "'(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
)
_STANDARD_FINALIZERS = frozenset({"kubernetes", "orphan", "foregroundDeletion"})
_NAMES_BY_LABEL = {"/namespaces", "/services"}
_FREE_NAMES = {"roles", "rolebindings", "clusterroles", "clusterrolebindings"}

NOT_SPEC = frozenset({"apiVersion", "kind", "metadata", "status"})


def timestamp(now: float) -> str:
    """Wall time as the API writes it, whole seconds in UTC."""
    return datetime.fromtimestamp(now, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def for_create(kind: Kind, namespace: str, body: Object, now: float) -> Object:
    """A new object with everything the server fills in; raises 422 for a bad name."""
    metadata = {k: v for k, v in (body.get("metadata") or {}).items() if v is not None}
    for owned in (
        "resourceVersion",
        "selfLink",
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
        "managedFields",
    ):
        metadata.pop(owned, None)
    if not metadata.get("name") and metadata.get("generateName"):
        suffix = "".join(secrets.choice(_SUFFIX_LETTERS) for _ in range(5))
        metadata["name"] = f"{metadata['generateName'][:58]}{suffix}"
    metadata["uid"] = str(uuid.uuid4())
    metadata["creationTimestamp"] = timestamp(now)
    metadata.pop("generation", None)
    if kind.has_generation:
        metadata["generation"] = 1
    if kind.namespaced:
        metadata["namespace"] = namespace
    else:
        metadata.pop("namespace", None)
    if kind.storage == "/namespaces" and metadata.get("name"):
        metadata["labels"] = {
            **(metadata.get("labels") or {}),
            "kubernetes.io/metadata.name": metadata["name"],
        }
    new = {**body, "apiVersion": kind.api_version, "kind": kind.kind, "metadata": metadata}
    check(kind, new)
    return new


def check(kind: Kind, new: Object) -> None:
    """Raise 422 unless name, labels, finalizers and owners are well formed."""
    metadata = new["metadata"]
    causes = [
        *_name_causes(kind, metadata.get("name")),
        *_label_causes(metadata.get("labels")),
        *_key_causes(metadata.get("annotations"), "metadata.annotations"),
        *_finalizer_causes(kind, metadata.get("finalizers")),
    ]
    for owner in metadata.get("ownerReferences") or []:
        for needed in ("apiVersion", "kind", "name", "uid"):
            if not owner.get(needed):
                rule = "version must not be empty" if needed == "apiVersion" else "must not be empty"
                causes.append(Cause(f"metadata.ownerReferences.{needed}", f'Invalid value: "": {rule}'))
    if causes:
        raise status.invalid(kind.kind, kind.group, str(metadata.get("name") or ""), causes)


def _name_causes(kind: Kind, name: object) -> list[Cause]:
    if not name:
        return [
            Cause("metadata.name", "Required value: name or generateName is required", "FieldValueRequired")
        ]
    text = str(name)
    if kind.plural in _FREE_NAMES and kind.group.startswith("rbac."):
        fits = "/" not in text and "%" not in text and text not in (".", "..")
        rule = "may not contain '/' or '%'"
    elif kind.storage == "/services":
        fits = _LABEL_1035.fullmatch(text) is not None
        rule = (
            "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic "
            "character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation "
            "is '[a-z]([-a-z0-9]*[a-z0-9])?')"
        )
    elif kind.storage in _NAMES_BY_LABEL:
        fits = _LABEL.fullmatch(text) is not None
        rule = LABEL_RULE
    else:
        fits = len(text) <= 253 and _SUBDOMAIN.fullmatch(text) is not None
        rule = (
            "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start "
            "and end with an alphanumeric character (e.g. 'example.com', regex used for validation is "
            "'[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
        )
    return [] if fits else [Cause("metadata.name", f'Invalid value: "{text}": {rule}')]


def _label_causes(labels: object) -> list[Cause]:
    if labels is None:
        return []
    if not isinstance(labels, dict):
        return [Cause("metadata.labels", "Invalid value: must be a map of strings")]
    causes = _key_causes(labels, "metadata.labels")
    for value in labels.values():
        if not isinstance(value, str) or _LABEL_VALUE.fullmatch(value) is None:
            causes.append(
                Cause(
                    "metadata.labels",
                    f'Invalid value: "{value}": {_VALUE_RULE}',
                )
            )
    return causes


def _key_causes(found: object, field: str) -> list[Cause]:
    if not isinstance(found, dict):
        return []
    return [Cause(field, f'Invalid value: "{key}": {_KEY_RULE}') for key in found if not _is_qualified(key)]


def _is_qualified(key: object) -> bool:
    prefix, slash, name = str(key).rpartition("/")
    return _LABEL_NAME.fullmatch(name) is not None and (not slash or _SUBDOMAIN.fullmatch(prefix) is not None)


def _finalizer_causes(kind: Kind, finalizers: object) -> list[Cause]:
    """Built-in kinds want a domain in front; custom resources take a bare name, as KEDA's `finalizer.keda.sh` is."""
    unqualified = "name is neither a standard finalizer name nor is it fully qualified"
    causes = []
    for index, one in enumerate(finalizers if isinstance(finalizers, list) else []):
        if not _is_qualified(one):
            causes.append(Cause(f"metadata.finalizers[{index}]", f'Invalid value: "{one}": {_KEY_RULE}'))
        elif kind.schema is None and one not in _STANDARD_FINALIZERS and "/" not in one:
            causes.append(Cause(f"metadata.finalizers[{index}]", f'Invalid value: "{one}": {unqualified}'))
    return causes


def _other_object(kind: Kind, before: Object, given: Json, *, is_patch: bool) -> status.ApiError:
    """What a write with another object's uid gets: 409 for a replace, but 422 for a patch or apply, as on the real server."""
    name, actual = before["name"], before["uid"]
    namespace = f"{before['namespace']}/" if before.get("namespace") else ""
    if is_patch:
        cause = Cause("metadata.uid", f"Invalid value: {status.shown(given)}: field is immutable")
        return status.invalid(kind.kind, kind.group, name, [cause])
    where = f"{kind.group}/{kind.plural}" if kind.schema is not None else kind.plural
    return kind.conflict(
        name,
        f"StorageError: invalid object, Code: 4, Key: /registry/{where}/{namespace}{name}, ResourceVersion: 0, "
        f"AdditionalErrorMsg: Precondition failed: UID in precondition: {given}, UID in object meta: {actual}",
    )


def for_update(kind: Kind, old: Object, new: Object, *, is_patch: bool = False) -> Object:
    """`new` with what the server owns taken from `old`; raises 409 for a stale version or another uid, 400 for a rename."""
    before = old["metadata"]
    after = {k: v for k, v in (new.get("metadata") or {}).items() if v is not None}
    name = before["name"]
    if after.get("name") not in (None, name):
        raise status.bad_request(
            f"the name of the object ({after['name']}) does not match the name on the URL ({name})"
        )
    if after.get("namespace") not in (None, "", before.get("namespace")):
        raise status.bad_request(
            "the namespace of the provided object does not match the namespace sent on the request"
        )
    if after.get("uid") not in (None, "", before["uid"]):
        raise _other_object(kind, before, after["uid"], is_patch=is_patch)
    if after.get("resourceVersion") not in (None, "", "0", before["resourceVersion"]):
        raise kind.conflict(name, status.STALE)
    after["name"] = name
    for owned in (
        "namespace", "uid", "creationTimestamp", "generation", "deletionTimestamp", "deletionGracePeriodSeconds",
        "generateName", "resourceVersion",
    ):  # fmt: skip
        after.pop(owned, None)
        if owned in before:
            after[owned] = before[owned]
    if not isinstance(after.get("managedFields"), list):
        after.pop("managedFields", None)
        if "managedFields" in before:
            after["managedFields"] = before["managedFields"]
    added = set(after.get("finalizers") or ()) - set(before.get("finalizers") or ())
    if before.get("deletionTimestamp") and added:
        why = (
            "Forbidden: no new finalizers can be added if the object is being deleted, found new finalizers "
            f"[]string{{{', '.join(status.shown(one) for one in sorted(added))}}}"
        )
        raise status.invalid(
            kind.kind, kind.group, name, [Cause("metadata.finalizers", why, "FieldValueForbidden")]
        )
    return {**new, "apiVersion": kind.api_version, "kind": kind.kind, "metadata": after}


def spec_part(found: Object) -> Object:
    """What the user wants: everything but identity, metadata and status."""
    return {key: value for key, value in found.items() if key not in NOT_SPEC}


def with_generation(kind: Kind, old: Object, new: Object) -> Object:
    """`new` with its generation raised when what the user wants has changed."""
    if not kind.has_generation or spec_part(old) == spec_part(new):
        return new
    return {**new, "metadata": {**new["metadata"], "generation": old["metadata"].get("generation", 0) + 1}}
