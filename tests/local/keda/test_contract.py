"""The ledger of keda.md section 8: each behaviour is proved by a test that carries its id, or is named as left out.

An id is proved by a test of this folder whose name begins with it (`test_s6_…`, `test_s6_s7_…`): C over gRPC in
`test_connections.py`; L in `test_lifecycle.py`; S and P in `test_scaleloop.py`; E in `test_executor.py` and
`test_scaling.py`, with Q; H in `test_autoscaling.py`; V in `test_refusals.py`; small cores in `test_cores.py`. It is left out
when the package's docstring says so.
"""

import ast
import functools
import re
from pathlib import Path

import pytest

import noctaya.local.keda

RANGES = {"C": 5, "L": 8, "S": 10, "P": 4, "E": 14, "H": 6, "Q": 1, "V": 5}
IDS = [f"{letter}{number}" for letter, most in RANGES.items() for number in range(1, most + 1)]


@functools.cache
def proved() -> frozenset[str]:
    """Every id that some test of this folder begins with."""
    found: set[str] = set()
    for path in Path(__file__).parent.glob("test_*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                prefix = re.match(r"test_((?:[a-z]\d+_)+)", node.name)
                found.update(prefix.group(1).upper().split("_") if prefix else ())
    return frozenset(found)


@pytest.mark.parametrize("behaviour", IDS)
def test_every_behaviour_is_either_proved_or_named_as_left_out(behaviour: str) -> None:
    docstring = noctaya.local.keda.__doc__ or ""
    is_left_out = re.search(rf"\b{behaviour}\b", docstring) is not None
    assert is_left_out != (behaviour in proved())
