"""Reads as of an earlier resourceVersion, asked of a server that knows only lists of the past.

A list gets the version; a read of one object becomes a list of that name, of which one object is left. Pure.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from urllib.parse import quote, urlencode

from tests.faults.rules import Request


@dataclass(frozen=True, slots=True)
class PastRead:
    """What to ask instead, and how to make the answer of it."""

    target: str
    name: str = ""
    """Of the one object that was asked for; empty for lists, which pass as they are."""
    plural: str = ""

    def answer(self, code: int, content: bytes) -> tuple[int, bytes]:
        """The answer to the question that was asked."""
        if not self.name or code != 200:
            return code, content
        found = json.loads(content)
        for item in found.get("items") or []:
            # Items of a list do not say what they are.
            kind = {"kind": found["kind"].removesuffix("List"), "apiVersion": found["apiVersion"]}
            return 200, json.dumps({**kind, **item}).encode()
        missing = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": f'{self.plural} "{self.name}" not found',
            "reason": "NotFound",
            "details": {"name": self.name, "kind": self.plural},
            "code": 404,
        }
        return 404, json.dumps(missing).encode()


def read_as_of(version: str, request: Request, accept: str) -> PastRead | None:
    """How to ask for the past; None for what has none (discovery, subresources, tables, watches, later pages)."""
    if request.method != "GET" or request.is_watch or "as=" in accept or "continue" in request.query:
        return None
    parts = [part for part in request.path.split("/") if part]
    start = 2 if parts[:1] == ["api"] else 3
    rest = parts[start:]
    if len(parts) < start or not rest:
        return None
    if rest[0] == "namespaces" and len(rest) > 2:
        start, rest = start + 2, rest[2:]
    if len(rest) > 2:
        return None
    query = {**request.query, "resourceVersion": version, "resourceVersionMatch": "Exact"}
    if len(rest) == 1:
        return PastRead(f"{request.path}?{urlencode(query)}")
    plural, name = rest
    query["fieldSelector"] = f"metadata.name={name}"
    path = "/" + "/".join(quote(part) for part in parts[:start]) + f"/{plural}"
    return PastRead(f"{path}?{urlencode(query)}", name, plural)
