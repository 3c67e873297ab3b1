"""A model sleeps and wakes over and over (issue 4): no round loses a request, and nothing is left over from the one before."""

import asyncio

import pytest

from tests.acceptance.clients import ask, played
from tests.acceptance.conftest import Models
from tests.acceptance.fleet import Fleet

ROUNDS = 10
TOKENS = 3


@pytest.mark.timeout(600)
async def test_ten_times_from_nothing_to_many_and_back_without_a_lost_request(
    models: Models, fleet: Fleet
) -> None:
    """Issue 4, "N→0→N ten times": each round begins with no pod and four requests at once, at both gateways."""
    model = await models(
        "rounds", engine={"startup": "0s"}, scaling={"max": 2, "target": 2, "scaleDownStabilization": "1s"}
    )
    gateways = await fleet.pods("gateway")
    served: set[str] = set()
    for _ in range(ROUNDS):
        await model.until_asleep()
        answers = await asyncio.gather(
            *(
                ask(gateway.url, model.model, tokens=TOKENS, stream=stream)
                for gateway in gateways
                for stream in (True, False)
            )
        )
        for answer in answers:
            assert answer.status == 200, answer
            assert answer.broken is None, answer
            assert answer.text == played(TOKENS)
            assert answer.is_whole or not answer.frames, answer
        served |= {pod["metadata"]["uid"] for pod in await model.pods()}
    assert len(served) >= ROUNDS
    await model.until_asleep()
