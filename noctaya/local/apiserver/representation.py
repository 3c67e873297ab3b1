"""What a client wants to see: plain JSON or YAML, a table for people, or metadata only. Chosen by the Accept header."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import msgspec
import yaml

from noctaya.local.apiserver import columns, status
from noctaya.local.apiserver.kinds import Kind
from noctaya.local.apiserver.status import Object


@dataclass(frozen=True, slots=True)
class Representation:
    """How to answer: `shape` is Object, Table or PartialObjectMetadata; `media` is json or yaml."""

    shape: str = "Object"
    media: str = "json"
    include_object: str = "Metadata"

    @property
    def content_type(self) -> str:
        """For the response's header."""
        return f"application/{self.media}"

    def encode(self, body: Object) -> bytes:
        """Bytes of a response."""
        if self.media == "yaml":
            return yaml.safe_dump(body, sort_keys=False).encode()
        return msgspec.json.encode(body)

    def one(self, kind: Kind, found: Object, now: float) -> Object:
        """One object in the wanted shape."""
        if self.shape == "Table":
            return table(
                kind,
                [found],
                {"resourceVersion": found["metadata"].get("resourceVersion", "")},
                now,
                self.include_object,
            )
        if self.shape == "PartialObjectMetadata":
            return partial(found)
        return kind.shown(found)

    def many(self, kind: Kind, found: Sequence[Object], list_metadata: Object, now: float) -> Object:
        """A list in the wanted shape."""
        if self.shape == "Table":
            return table(kind, found, list_metadata, now, self.include_object)
        if self.shape == "PartialObjectMetadata":
            return {
                "kind": "PartialObjectMetadataList",
                "apiVersion": "meta.k8s.io/v1",
                "metadata": list_metadata,
                "items": [partial(one) for one in found],
            }
        return {
            "kind": kind.list_kind,
            "apiVersion": kind.api_version,
            "metadata": list_metadata,
            "items": [kind.shown(one) for one in found],
        }


def chosen(accept: str, include_object: str = "") -> Representation:
    """The first acceptable entry of an Accept header; raises 406 when none is."""
    include = include_object or "Metadata"
    if not accept:
        return Representation(include_object=include)
    for entry in accept.split(","):
        media, *parameters = (part.strip() for part in entry.split(";"))
        wanted = dict(p.split("=", 1) for p in parameters if "=" in p)
        if media in ("application/json", "application/*", "*/*"):
            shape = wanted.get("as", "Object")
            if shape in ("Table", "Object"):
                return Representation(shape, "json", include)
            if shape in ("PartialObjectMetadata", "PartialObjectMetadataList"):
                return Representation("PartialObjectMetadata", "json", include)
        elif media == "application/yaml":
            return Representation("Object", "yaml", include)
    raise status.not_acceptable()


def partial(found: Object) -> Object:
    """Only the metadata."""
    return {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": found["metadata"]}


def table(
    kind: Kind, found: Sequence[Object], list_metadata: Object, now: float, include_object: str
) -> Object:
    """A `Table` with kubectl's columns."""
    shown = kind.columns or columns.PLAIN
    rows = []
    for one in found:
        row: Object = {"cells": [column.cell(one, now) for column in shown]}
        if include_object == "Metadata":
            row["object"] = partial(one)
        elif include_object == "Object":
            row["object"] = kind.shown(one)
        rows.append(row)
    return {
        "kind": "Table",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": list_metadata,
        "columnDefinitions": [column.definition() for column in shown],
        "rows": rows,
    }
