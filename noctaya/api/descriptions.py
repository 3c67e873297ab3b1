"""What the fields of a model mean, for the CRDs: the docstrings under them, read from the source when somebody asks.

pydantic's `use_attribute_docstrings` reads the same while a class is made, a whole module's source once for each class; every
process that imports the models would pay a quarter of a second for words that only `noctaya crds` and the embedded cluster
write down. A field without a docstring has no description; a model whose source is not at hand has none at all.
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator, Mapping
from functools import cache
from types import ModuleType

from pydantic import BaseModel


def field_descriptions(model: type[BaseModel]) -> dict[str, str]:
    """Docstrings of `model`'s fields by field name; a subclass's word wins over its base's."""
    found: dict[str, str] = {}
    for one in reversed(model.__mro__):
        module = inspect.getmodule(one)
        if module is not None and issubclass(one, BaseModel) and one is not BaseModel:
            found |= _documented(module).get(one.__qualname__, {})
    return {name: text for name, text in found.items() if name in model.model_fields}


@cache
def _documented(module: ModuleType) -> Mapping[str, Mapping[str, str]]:
    """Class → field → docstring, for every class of a module."""
    try:
        tree = ast.parse(inspect.getsource(module))
    except (OSError, TypeError):
        return {}
    return {name: dict(_fields(node)) for name, node in _classes(tree, "")}


def _classes(node: ast.Module | ast.ClassDef, within: str) -> Iterator[tuple[str, ast.ClassDef]]:
    for child in node.body:
        if isinstance(child, ast.ClassDef):
            yield within + child.name, child
            yield from _classes(child, f"{within}{child.name}.")


def _fields(node: ast.ClassDef) -> Iterator[tuple[str, str]]:
    for field, after in zip(node.body, node.body[1:], strict=False):
        match field, after:
            case (
                ast.AnnAssign(target=ast.Name(id=name)),
                ast.Expr(value=ast.Constant(value=str(text))),
            ):
                yield name, inspect.cleandoc(text)
