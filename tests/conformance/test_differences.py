"""The list of differences is itself held to what it claims."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.conformance.differences import DIFFERENCES, differs
from tests.conformance.server import Server

HERE = Path(__file__).parent
_PINNED = re.compile(r'differs\(\s*[\w.]+,\s*"([\w-]+)"')


def test_every_listed_difference_is_pinned_by_a_test_and_no_other_is() -> None:
    pinned = {
        name
        for path in HERE.glob("test_*.py")
        if path != Path(__file__)
        for name in _PINNED.findall(path.read_text())
    }
    assert pinned == set(DIFFERENCES)


def test_a_difference_that_is_none_any_more_fails(api_server: Server) -> None:
    with pytest.raises(AssertionError, match=r"differs no longer|does otherwise"):
        differs(
            api_server,
            "duplicate-fields",
            201 if api_server.is_real else 400,
            real=400,
            embedded=201,
        )
    with pytest.raises(AssertionError, match="is no difference"):
        differs(api_server, "duplicate-fields", 400, real=400, embedded=400)
