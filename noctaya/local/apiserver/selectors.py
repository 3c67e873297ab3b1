"""Label and field selectors of list, watch and deletecollection."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from noctaya.local.apiserver import status
from noctaya.local.apiserver.kinds import Kind
from noctaya.local.apiserver.status import Object
from noctaya.local.apiserver.tablecells import at

_SET = re.compile(r"^\s*([^\s,!=()]+)\s+(in|notin)\s*\(([^)]*)\)\s*$")
_PAIR = re.compile(r"^\s*([^\s,!=()<>]+)\s*(==|=|!=)\s*([^\s,!=()]*)\s*$")
_BARE = re.compile(r"^\s*(!?)\s*([^\s,!=()<>]+)\s*$")

Test = Callable[[dict[str, str]], bool]


@dataclass(frozen=True, slots=True)
class Selection:
    """Which objects a request means; with no tests, all."""

    labels: tuple[Test, ...] = ()
    fields: tuple[tuple[str, bool, str], ...] = ()  # path, equal?, value

    def matches(self, found: Object) -> bool:
        """Whether the object is meant."""
        if self.labels:
            labels = found["metadata"].get("labels") or {}
            if not all(test(labels) for test in self.labels):
                return False
        return all((_field(found, path) == value) is equal for path, equal, value in self.fields)

    @property
    def is_everything(self) -> bool:
        """No test at all."""
        return not self.labels and not self.fields


def _field(found: Object, path: str) -> str:
    value = at(found, *path.split("."))
    return {True: "true", False: "false"}[value] if isinstance(value, bool) else str(value)


def parse(label_selector: str, field_selector: str, kind: Kind) -> Selection:
    """Selection of a request's query; raises 400 for what cannot be understood."""
    return Selection(label_tests(label_selector), _field_tests(field_selector, kind))


def label_tests(selector: str) -> tuple[Test, ...]:
    """The tests of a label selector in text form."""
    return tuple(_label_test(part) for part in _split(selector))


def _split(selector: str) -> list[str]:
    parts, depth, start = [], 0, 0
    for index, char in enumerate(selector):
        depth += (char == "(") - (char == ")")
        if char == "," and depth == 0:
            parts.append(selector[start:index])
            start = index + 1
    parts.append(selector[start:])
    return [part for part in parts if part.strip()]


def _label_test(part: str) -> Test:
    if match := _SET.match(part):
        key, operator, listed = match.groups()
        values = frozenset(value.strip() for value in listed.split(","))
        if operator == "in":
            return lambda labels: labels.get(key) in values
        return lambda labels: labels.get(key) not in values
    if match := _PAIR.match(part):
        key, operator, value = match.groups()
        if operator == "!=":
            return lambda labels: labels.get(key) != value
        return lambda labels: labels.get(key) == value
    if match := _BARE.match(part):
        absent, key = match.groups()
        return lambda labels: (key in labels) is not bool(absent)
    raise status.bad_request(f"unable to parse requirement: {part.strip()!r} is not a label selector")


_EVERY_KIND = {"metadata.name", "metadata.namespace"}
_EVENT = {
    f"involvedObject.{f}"
    for f in ("kind", "namespace", "name", "uid", "apiVersion", "resourceVersion", "fieldPath")
}
_BY_STORAGE = {
    "/pods": {"spec.nodeName", "spec.restartPolicy", "spec.schedulerName", "spec.serviceAccountName", "status.phase",
              "status.podIP", "status.nominatedNodeName"},
    "/events": _EVENT | {"reason", "reportingComponent", "source", "type"},
    "/secrets": {"type"},
    "/namespaces": {"status.phase"},
    "/nodes": {"spec.unschedulable"},
    "batch/jobs": {"status.successful"},
}  # fmt: skip


def _field_tests(selector: str, kind: Kind) -> tuple[tuple[str, bool, str], ...]:
    known = _EVERY_KIND | _BY_STORAGE.get(kind.storage, set()) | set(kind.selectable_fields)
    tests = []
    for part in _split(selector):
        match = re.match(r"^\s*([^\s=!]+)\s*(==|=|!=)\s*(.*?)\s*$", part)
        if match is None:
            raise status.bad_request(f"invalid selector: {part.strip()!r}; can't understand it")
        path, operator, value = match.groups()
        if path not in known:
            listed = ", ".join(f'"{one}"' for one in sorted(known))
            raise status.bad_request(f'"{path}" is not a known field selector: only {listed}')
        tests.append(("source.component" if path == "source" else path, operator != "!=", value))
    return tuple(tests)
