"""`docs/behavior.md` is a contract: each clause names tests that exist, and its tables are what the code does."""

import inspect
import re
from pathlib import Path

from noctaya.gateway import openai_errors
from noctaya.gateway.openai_errors import Refusal
from tests.gateway.fake_worker import fake_worker
from tests.gateway.running import gateway
from tests.gateway.services import message

DOCUMENT = (Path(__file__).parents[2] / "docs" / "behavior.md").read_text()
TESTS = "\n".join(path.read_text() for path in Path(__file__).parent.glob("test_*.py"))


def test_every_clause_names_its_tests_and_they_exist() -> None:
    clauses = re.split(r"\n(?=- )", DOCUMENT)[1:]
    assert len(clauses) > 50
    for clause in clauses:
        named = re.findall(r"`(test_\w+)`", clause)
        assert named, f"no test proves: {clause}"
        for name in named:
            assert re.search(rf"def {name}\(", TESTS), f"{name} does not exist"


def test_the_table_of_refusals_is_complete_and_true() -> None:
    written = {
        (int(status), code): retry.strip()
        for status, code, retry in re.findall(
            r"^\| (\d{3}) \| `(\w+)` \|[^|]*\|([^|]*)\|$", DOCUMENT, re.MULTILINE
        )
    }
    refusals = [
        factory(*("1" if parameter.annotation is str else 1 for parameter in needed(factory)))
        for factory in vars(openai_errors).values()
        if inspect.isfunction(factory)
        and factory.__name__ not in {"from_engine", "_busy", "_unavailable"}
        and inspect.signature(factory).return_annotation is Refusal
        and factory.__name__ != "model_ambiguous"
    ]
    refusals += [
        openai_errors.model_ambiguous("a", ["b"]),
        openai_errors.unauthorized("no key", "missing_api_key"),
    ]
    told = {
        (refusal.status, str(refusal.code)): refusal.headers.get("retry-after", "") for refusal in refusals
    }
    assert written == told


def needed(factory: object) -> list[inspect.Parameter]:
    """The arguments that it cannot do without."""
    assert callable(factory)
    return [p for p in inspect.signature(factory).parameters.values() if p.default is inspect.Parameter.empty]


async def test_every_metric_is_in_the_contract() -> None:
    async with fake_worker() as worker:
        worker.serve(message())
        async with gateway(worker.address) as running:
            _, exposed = await running.admin("/metrics")
    served = set(re.findall(r"^# TYPE (\S+)", exposed, re.MULTILINE))
    served = {name for name in served if not name.endswith("_created")}
    assert served == set(re.findall(r"`(noctaya_\w+)`", DOCUMENT))
