"""What can be wrong with something that a person wrote for Noctaya.

All of it is `UserError`: it is shown in a condition or on a terminal and not retried until the text changes. The value
errors are `ValueError` too, so that pydantic reports them at the field they stand in.
"""

from __future__ import annotations

from dataclasses import dataclass

from noctaya.errors import UserError


class InvalidDuration(UserError, ValueError):
    """A text that is not a Go duration, or one that does not fit Go's 64 bits of nanoseconds."""

    def __init__(self, text: str, problem: str) -> None:
        super().__init__(f"{text!r} is not a duration: {problem}; write it like 5m, 1h30m or 1.5s")
        self.text = text
        self.problem = problem


class InvalidQuantity(UserError, ValueError):
    """A text that is not a Kubernetes quantity, or one that does not fit Kubernetes' 64 bits."""

    def __init__(self, text: str, problem: str) -> None:
        super().__init__(f"{text!r} is not a quantity: {problem}; write it like 500m, 2, 50Gi or 1.5G")
        self.text = text
        self.problem = problem


class InvalidName(UserError, ValueError):
    """A name from which the names of an LLMService's children cannot be made."""

    def __init__(self, name: str, problem: str) -> None:
        super().__init__(f"metadata.name {name!r} {problem}")
        self.name = name
        self.problem = problem


class InvalidTemplate(UserError, ValueError):
    """A template with something other than text and the three supported fields.

    `offset` counts characters from 0, `line` and `column` from 1; all three point at the `{{` of `expression`.
    """

    def __init__(self, text: str, offset: int, expression: str, problem: str) -> None:
        self.text = text
        self.offset = offset
        self.line = text.count("\n", 0, offset) + 1
        self.column = offset - (text.rfind("\n", 0, offset) + 1) + 1
        self.expression = expression
        self.problem = problem
        super().__init__(
            f"{expression} at line {self.line}, column {self.column} of {_excerpt(text)}: {problem}"
        )


@dataclass(frozen=True, slots=True)
class FieldProblem:
    """One thing wrong, and where: `spec.scaling.min`, `spec.container.args[2]`."""

    field: str
    message: str

    def __str__(self) -> str:
        return f"{self.field}: {self.message}"


class InvalidSpec(UserError):
    """An object that its own schema does not allow; `problems` names every field that is wrong."""

    def __init__(self, kind: str, name: str, problems: tuple[FieldProblem, ...]) -> None:
        super().__init__(f"{kind} {name or '(no name)'} is not valid: " + "; ".join(map(str, problems)))
        self.kind = kind
        self.name = name
        self.problems = problems


def _excerpt(text: str, limit: int = 80) -> str:
    return repr(text if len(text) <= limit else text[: limit - 1] + "…")
