"""The part of Go's `text/template` that runtimes use in arguments and environment values.

A template is text with actions `{{ .Model.Path }}`, `{{ .Service.Name }}` and `{{ .Service.Namespace }}`, with any white
space inside the braces and Go's trim markers (`{{- ` eats the white space before the action, ` -}}` the white space after
it). Everything else that Go would understand (pipelines, `if`, functions, comments, strings, other fields) is refused with
its position, never passed on or dropped: an engine that starts with a half-rendered flag fails later and less clearly.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Self

from noctaya.api.errors import InvalidTemplate


@dataclass(frozen=True, slots=True)
class TemplateContext:
    """What a template may speak of."""

    model_path: str
    service_name: str
    service_namespace: str


_FIELDS: Final[Mapping[str, str]] = {
    ".Model.Path": "model_path",
    ".Service.Name": "service_name",
    ".Service.Namespace": "service_namespace",
}
_SPACE: Final = " \t\r\n"
"""What Go's lexer calls space; Unicode spaces are not among them."""

_ACTION: Final = re.compile(
    r"""
    \{\{
    (?P<trims_before>-(?=[ \t\r\n]))?           # a trim marker counts only with space on its inner side
    (?P<body>.*?)
    (?P<trims_after>(?<=[ \t\r\n])-)?
    \}\}
    """,
    re.DOTALL | re.VERBOSE,
)
_UNCLOSED_SHOWN: Final = 40


@dataclass(frozen=True, slots=True)
class _Field:
    """An action that prints one attribute of the context."""

    attribute: str


@dataclass(frozen=True, slots=True)
class Template:
    """A parsed template: rendering it cannot fail."""

    parts: tuple[str | _Field, ...]

    @classmethod
    def parse(cls, text: str) -> Self:
        """Raises `InvalidTemplate` with the position of the first action that is not supported."""
        parts: list[str | _Field] = []
        at = 0
        trims = False
        while (start := text.find("{{", at)) >= 0:
            action = _ACTION.match(text, start)
            if action is None:
                raise InvalidTemplate(
                    text, start, text[start : start + _UNCLOSED_SHOWN], "it is not closed by }}"
                )
            parts.append(_literal(text[at:start], trims, bool(action["trims_before"])))
            parts.append(_field(text, start, action))
            at, trims = action.end(), bool(action["trims_after"])
        parts.append(_literal(text[at:], trims, False))
        return cls(tuple(part for part in parts if part))

    def render(self, context: TemplateContext) -> str:
        return "".join(
            part if isinstance(part, str) else getattr(context, part.attribute) for part in self.parts
        )

    @property
    def is_literal(self) -> bool:
        """No action in it: it renders to the same text for every service."""
        return all(isinstance(part, str) for part in self.parts)


def render(text: str, context: TemplateContext) -> str:
    """Parse and render at once. Raises `InvalidTemplate`."""
    return Template.parse(text).render(context)


def _literal(text: str, trims_start: bool, trims_end: bool) -> str:
    if trims_start:
        text = text.lstrip(_SPACE)
    return text.rstrip(_SPACE) if trims_end else text


def _field(text: str, start: int, action: re.Match[str]) -> _Field:
    body = action["body"].strip(_SPACE)
    if attribute := _FIELDS.get(body):
        return _Field(attribute)
    raise InvalidTemplate(text, start, action[0], _what_is_wrong(body))


def _what_is_wrong(body: str) -> str:
    known = ", ".join(_FIELDS)
    if not body:
        return f"it is empty; write one of {known}"
    if body.startswith("/*"):
        return "comments are not supported; take it out"
    if "|" in body:
        return f"pipelines are not supported; write one of {known}"
    if re.fullmatch(r"\.[\w.]*", body):
        return f"there is no such field; write one of {known}"
    return f"only fields are supported; write one of {known}"
