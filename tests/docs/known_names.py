"""What exists in the code, for comparison with what pages name: metrics, variables, targets, commands, fields, words of a log."""

import ast
import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

import typer.main
import yaml

from noctaya.cli import app
from noctaya.gateway.settings import GatewaySettings
from noctaya.settings import variables
from noctaya.workers.settings import WorkerSettings
from tests.docs.pages import ROOT

SUFFIXES = {
    "Counter": ("_total",),
    "CounterMetricFamily": ("_total",),
    "Histogram": ("_bucket", "_count", "_sum"),
}
"""How a family's series are called; any other family has one series of its own name."""


@lru_cache
def metrics() -> frozenset[str]:
    """Every series that a worker or a gateway exports, and the names of histograms as a whole."""
    found: set[str] = set()
    for call in _calls():
        first = call.args[0] if call.args else None
        if isinstance(first, ast.Constant) and str(first.value).startswith("noctaya_"):
            name = str(first.value)
            suffixes = SUFFIXES.get(_called(call), ("",))
            found |= {name.removesuffix(suffix) + suffix for suffix in suffixes}
            found |= {name} if len(suffixes) > 1 else set()
    return frozenset(found)


@lru_cache
def problems() -> frozenset[str]:
    """Names of a worker's problems; those that begin with a kind are given by their ending (`Forbidden`)."""
    found: set[str] = set()
    for call in _calls():
        if _called(call) == "Problem" and call.args:
            for part in ast.walk(call.args[0]):
                if isinstance(part, ast.Constant) and isinstance(part.value, str):
                    found.add(part.value)
    return frozenset(found)


@lru_cache
def strings() -> frozenset[str]:
    """Every string in the code of workers, gateways and what they stand on: log messages, reasons, routes."""
    return frozenset(
        node.value
        for tree in _trees()
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    )


def settings() -> frozenset[str]:
    """Every variable that a role reads."""
    return frozenset([*variables(WorkerSettings), *variables(GatewaySettings)])


def make_targets() -> frozenset[str]:
    """Every target of the Makefile."""
    text = (ROOT / "Makefile").read_text()
    return frozenset(re.findall(r"^([a-z][a-z-]*):(?!=)", text, re.MULTILINE))


def subcommands() -> frozenset[str]:
    """Every command of `noctaya`."""
    command: Any = typer.main.get_command(app)
    return frozenset(command.commands)


@lru_cache
def spec_fields() -> frozenset[str]:
    """Every field of an LLMService under `spec`, as `spec.scaling.max`."""
    crd = yaml.safe_load((ROOT / "deploy/kustomize/crd/llmservices.serving.noctaya.io.yaml").read_text())
    schema = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    return frozenset(_fields("spec", schema["properties"]["spec"]))


def _fields(path: str, schema: dict[str, Any]) -> Iterator[str]:
    yield path
    for name, inner in schema.get("properties", {}).items():
        yield from _fields(f"{path}.{name}", inner)


@lru_cache
def _trees() -> tuple[ast.Module, ...]:
    packages = ("api", "gateway", "kube", "leader", "workers")
    paths = [path for package in packages for path in sorted((ROOT / "noctaya" / package).rglob("*.py"))]
    paths.append(ROOT / "noctaya" / "telemetry.py")
    return tuple(ast.parse(path.read_text()) for path in paths)


def _calls() -> Iterator[ast.Call]:
    for tree in _trees():
        yield from (node for node in ast.walk(tree) if isinstance(node, ast.Call))


def _called(call: ast.Call) -> str:
    return call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
