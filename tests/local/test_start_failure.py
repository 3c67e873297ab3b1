"""A role that cannot start: the command ends with that role's own words, since its log goes with the cluster."""

import io

import pytest
from rich.console import Console

from noctaya.local.cluster import local_cluster
from noctaya.local.errors import NotReadyInTime
from noctaya.local.narrator import Narrator
from noctaya.local.settings import LocalSettings


async def test_a_role_that_does_not_become_ready_is_quoted_at_once() -> None:
    settings = LocalSettings(gateways=0, system_environment={"worker:NOCTAYA_SKALER__HOST": "127.0.0.1"})
    told = io.StringIO()
    with pytest.raises(BaseExceptionGroup) as failed:
        async with local_cluster(settings, Narrator(Console(file=told))):
            raise AssertionError("the cluster is ready without a worker")
    (problem,) = leaves(failed.value)
    assert isinstance(problem, NotReadyInTime)
    assert "NOCTAYA_SKALER__HOST is not a setting" in str(problem)
    assert "after 60 s" not in str(problem)
    assert "✗ starting workers and gateways" in told.getvalue()


def leaves(error: BaseException) -> list[BaseException]:
    if isinstance(error, BaseExceptionGroup):
        return [leaf for one in error.exceptions for leaf in leaves(one)]
    return [error]
