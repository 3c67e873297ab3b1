"""The writing verbs, without HTTP: create, replace, patch, apply.

Everything is synchronous on the one loop, so a write reads, checks and stores in one step: a patch needs no retry and can
lose no race. Refusals are `ApiError`s and leave the store as it was. The order is always the same: metadata, what a
subresource may touch, defaults and validation, field ownership, store.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from noctaya.local.apiserver import admission, apply, objectmeta, ownership, status, subresources
from noctaya.local.apiserver.kinds import Kind
from noctaya.local.apiserver.status import Object
from noctaya.local.apiserver.storage import Storage

_NO_UNCONDITIONAL_UPDATE = frozenset(
    {
        "coordination.k8s.io/leases",
        "policy/poddisruptionbudgets",
        "apiextensions.k8s.io/customresourcedefinitions",
    }
)
_CREATED_BY_REPLACE = frozenset({"coordination.k8s.io/leases"})


@dataclass(frozen=True, slots=True)
class WriteOptions:
    """How a write is meant. `manager` owns the fields it changes; `validation` is Strict, Warn or Ignore."""

    manager: str = "unknown"
    dry_run: bool = False
    validation: str = "Warn"
    force: bool = False


@dataclass(frozen=True, slots=True)
class Written:
    """The object as stored (or as it would be, in a dry run)."""

    object: Object
    created: bool = False
    removed: bool = False
    """The write took the last finalizer away and the object is gone."""
    warnings: tuple[str, ...] = ()


class Writes:
    """Creates and changes objects. `on_written` hears of every stored change of the kinds it is registered for."""

    def __init__(self, storage: Storage, clock: Callable[[], float] = time.time) -> None:
        self._storage = storage
        self._clock = clock
        self.prepare: dict[str, Callable[[Object | None, Object], Object]] = {}
        """By storage key: last change to an object before it is stored."""
        self.on_written: dict[str, Callable[[Object], None]] = {}
        """By storage key: told of every object stored."""
        self.on_removed: Callable[[Kind, str], object] = lambda kind, name: None
        """Told of the kind and name of every object taken out."""

    def create(self, kind: Kind, namespace: str, body: Object, options: WriteOptions) -> Written:
        """Store a new object; 409 when the name is taken, 404 or 403 when the namespace is gone or going."""
        self._check_identity(kind, namespace, body)
        self._check_namespace(kind, namespace)
        new = objectmeta.for_create(kind, namespace, _stored_form(kind, body), self._clock())
        name = new["metadata"]["name"]
        if self._storage.get(kind.storage, new["metadata"].get("namespace", ""), name) is not None:
            raise status.already_exists(kind.plural, kind.group, name)
        new = subresources.on_create(kind, new)
        new, warnings = admission.admit(kind, "", None, new, options.validation)
        new = ownership.after_write(kind, "", None, new, options.manager, self._clock())
        return Written(self._store(kind, None, new, options), created=True, warnings=warnings)

    def replace(
        self, kind: Kind, namespace: str, name: str, subresource: str, body: Object, options: WriteOptions
    ) -> Written:
        """Replace an object (or its status); 409 when the body carries an old resourceVersion."""
        self._check_identity(kind, namespace, body)
        if kind.storage in _CREATED_BY_REPLACE and self._storage.get(kind.storage, namespace, name) is None:
            return self.create(kind, namespace, body, options)
        old = self._existing(kind, namespace, name)
        needs_version = kind.schema is not None or kind.storage in _NO_UNCONDITIONAL_UPDATE
        if needs_version and not (body.get("metadata") or {}).get("resourceVersion"):
            cause = status.Cause(
                "metadata.resourceVersion", "Invalid value: 0: must be specified for an update"
            )
            raise status.invalid(kind.plural, kind.group, name, [cause])
        return self._update(kind, subresource, old, _stored_form(kind, body), options)

    def patch(
        self,
        kind: Kind,
        namespace: str,
        name: str,
        subresource: str,
        change: Callable[[Object], Object],
        options: WriteOptions,
    ) -> Written:
        """Change an object by a function of what clients see of it."""
        old = self._existing(kind, namespace, name)
        changed = change(kind.shown(old))
        if not isinstance(changed, dict):
            raise status.bad_request("the patch does not leave an object")
        if (
            changed.get("kind", kind.kind) != kind.kind
            or changed.get("apiVersion", kind.api_version) != kind.api_version
        ):
            raise status.undecodable_patch(
                changed, "apiVersion and kind of an object cannot be changed by a patch"
            )
        try:
            return self._update(kind, subresource, old, _stored_form(kind, changed), options, is_patch=True)
        except admission.NotDecodable as problem:
            raise status.undecodable_patch(changed, problem.why) from problem

    def apply(
        self, kind: Kind, namespace: str, name: str, subresource: str, body: Object, options: WriteOptions
    ) -> Written:
        """Server-side apply: create the object, or take over what the body says about it."""
        self._check_identity(kind, namespace, body)
        given = (body.get("metadata") or {}).get("name")
        if given not in (None, "", name):
            raise status.bad_request(
                f"the name of the object ({given}) does not match the name on the URL ({name})"
            )
        old = self._storage.get(kind.storage, namespace if kind.namespaced else "", name)
        if old is None:
            return self._apply_new(kind, namespace, name, subresource, body, options)
        config = apply.configuration(kind, subresource, body)
        merged, owners = apply.merged(
            kind, subresource, old, config, options.manager, options.force, self._clock()
        )
        new = objectmeta.for_update(kind, old, _with_preconditions(merged, body), is_patch=True)
        new = subresources.on_update(kind, subresource, old, new)
        new, warnings = admission.admit(kind, subresource, old, new, options.validation)
        new = {**new, "metadata": {**new["metadata"], "managedFields": owners}}
        return self._finish(kind, old, new, options, warnings)

    def _apply_new(
        self, kind: Kind, namespace: str, name: str, subresource: str, body: Object, options: WriteOptions
    ) -> Written:
        if subresource:
            raise kind.not_found(name)
        metadata = body.get("metadata") or {}
        if metadata.get("uid"):
            why = f"uid mismatch: the provided object specified uid {metadata['uid']}, and no existing object was found"
            raise kind.conflict(name, why)
        self._check_namespace(kind, namespace)
        config = apply.configuration(kind, "", body)
        full = {**body, "metadata": {**metadata, "name": name}}
        new = objectmeta.for_create(kind, namespace, _stored_form(kind, full), self._clock())
        new = subresources.on_create(kind, new)
        new, warnings = admission.admit(kind, "", None, new, options.validation)
        owners = apply.first_owner(kind, config, options.manager, self._clock())
        new = {**new, "metadata": {**new["metadata"], "managedFields": owners}}
        return Written(self._store(kind, None, new, options), created=True, warnings=warnings)

    def _update(
        self,
        kind: Kind,
        subresource: str,
        old: Object,
        body: Object,
        options: WriteOptions,
        *,
        is_patch: bool = False,
    ) -> Written:
        new = objectmeta.for_update(kind, old, body, is_patch=is_patch)
        new = subresources.on_update(kind, subresource, old, new)
        new, warnings = admission.admit(kind, subresource, old, new, options.validation)
        new = ownership.after_write(kind, subresource, old, new, options.manager, self._clock())
        return self._finish(kind, old, new, options, warnings)

    def _finish(
        self, kind: Kind, old: Object, new: Object, options: WriteOptions, warnings: tuple[str, ...]
    ) -> Written:
        new = objectmeta.with_generation(kind, old, new)
        objectmeta.check(kind, new)
        if ownership.equal_but_for_times(old, new):
            return Written(old, warnings=warnings)
        if subresources.is_done(kind, new):
            self.remove(kind, old, dry_run=options.dry_run)
            return Written(new, removed=True, warnings=warnings)
        return Written(self._store(kind, old, new, options), warnings=warnings)

    def _store(self, kind: Kind, old: Object | None, new: Object, options: WriteOptions) -> Object:
        prepare = self.prepare.get(kind.storage)
        if prepare is not None:
            new = prepare(old, new)
        if options.dry_run:
            return new
        metadata = new["metadata"]
        stored = self._storage.put(kind.storage, metadata.get("namespace", ""), metadata["name"], new)
        heard = self.on_written.get(kind.storage)
        if heard is not None:
            heard(stored)
        return stored

    def store(self, kind: Kind, old: Object, new: Object) -> Object:
        """Store a change that the server itself makes (a deletion mark, a condition): no ownership, no validation."""
        return self._store(kind, old, new, WriteOptions())

    def remove(self, kind: Kind, old: Object, *, dry_run: bool = False) -> Object:
        """Take an object out of the store; returns its last state."""
        metadata = old["metadata"]
        if dry_run:
            return old
        last = self._storage.remove(kind.storage, metadata.get("namespace", ""), metadata["name"])
        self.on_removed(kind, metadata["name"])
        return old if last is None else last

    def _existing(self, kind: Kind, namespace: str, name: str) -> Object:
        found = self._storage.get(kind.storage, namespace if kind.namespaced else "", name)
        if found is None:
            raise kind.not_found(name)
        return found

    def _check_namespace(self, kind: Kind, namespace: str) -> None:
        if not kind.namespaced:
            return
        found = self._storage.get("/namespaces", "", namespace)
        if found is None:
            raise status.not_found("namespaces", "", namespace)
        if found["metadata"].get("deletionTimestamp"):
            why = f"unable to create new content in namespace {namespace} because it is being terminated"
            cause = status.Cause(
                "metadata.namespace", f"namespace {namespace} is being terminated", "NamespaceTerminating"
            )
            raise status.forbidden(kind.plural, kind.group, "", why, [cause])

    def _check_identity(self, kind: Kind, namespace: str, body: Object) -> None:
        given = (body.get("apiVersion"), body.get("kind"))
        if given != (kind.api_version, kind.kind) and any(given):
            raise status.bad_request(
                f"the API version and kind in the data ({given[0]}, {given[1]}) do not match the expected "
                f"({kind.api_version}, {kind.kind})"
            )
        metadata = body.get("metadata")
        if metadata is not None and not isinstance(metadata, dict):
            raise status.bad_request("metadata must be an object")
        stated = (metadata or {}).get("namespace")
        if kind.namespaced and stated not in (None, "", namespace):
            raise status.bad_request(
                "the namespace of the provided object does not match the namespace sent on the request"
            )


def _stored_form(kind: Kind, body: Object) -> Object:
    return kind.decode(body) if kind.decode is not None else body


def _with_preconditions(merged: Object, body: Object) -> Object:
    """uid and resourceVersion of an applied body are preconditions; `for_update` checks them."""
    given = body.get("metadata") or {}
    conditions = {key: given[key] for key in ("uid", "resourceVersion") if given.get(key)}
    metadata = {k: v for k, v in merged["metadata"].items() if k not in ("uid", "resourceVersion")}
    return {**merged, "metadata": {**metadata, **conditions}}
