"""Logging: one line an event, as text or JSON; a wrong level or format is a person's mistake."""

import io
import json
import logging
from collections.abc import Iterator

import pytest

from noctaya.settings import InvalidSettings, LogSettings
from noctaya.telemetry import configure, context


@pytest.fixture(autouse=True)
def root_logger_as_before() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)


def test_json_lines_carry_the_context() -> None:
    stream = io.StringIO()
    configure(LogSettings(format="json"), stream)
    logging.getLogger("noctaya.test").info("woke", extra=context(service="ai/qwen"))
    entry = json.loads(stream.getvalue())
    assert (entry["message"], entry["service"], entry["level"]) == ("woke", "ai/qwen", "info")


def test_text_is_for_people() -> None:
    stream = io.StringIO()
    configure(LogSettings(format="text"), stream)
    logging.getLogger("noctaya.test").warning("slow", extra=context(seconds=3))
    assert "warning test  slow  seconds=3" in stream.getvalue()


@pytest.mark.parametrize("settings", [LogSettings(level="loud"), LogSettings(format="xml")])
def test_an_unknown_level_or_format_is_refused(settings: LogSettings) -> None:
    with pytest.raises(InvalidSettings, match="NOCTAYA_LOG__"):
        configure(settings, io.StringIO())
