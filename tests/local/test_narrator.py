"""What the narrator says when a step fails, is interrupted, or cannot be told at all."""

import asyncio
import io
from pathlib import Path

import pytest
from rich.console import Console

from noctaya.local.errors import OutputLost
from noctaya.local.narrator import Narrator


def narrator() -> tuple[Narrator, io.StringIO]:
    told = io.StringIO()
    return Narrator(Console(file=told, soft_wrap=True)), told


def test_a_step_is_announced_and_ends_with_its_time() -> None:
    speaker, told = narrator()
    with speaker.step("starting", "started"):
        assert told.getvalue() == "… starting\n"
    assert told.getvalue().splitlines()[1].startswith("✓ started (")


def test_a_failed_step_leaves_a_cross() -> None:
    speaker, told = narrator()
    with pytest.raises(ValueError, match="broken"), speaker.step("starting", "started"):
        raise ValueError("broken")
    assert told.getvalue().splitlines()[1].startswith("✗ starting (")


def test_an_interrupted_step_is_not_called_a_failure() -> None:
    speaker, told = narrator()
    with pytest.raises(asyncio.CancelledError), speaker.step("starting", "started"):
        raise asyncio.CancelledError
    assert "starting: interrupted" in told.getvalue()
    assert "✗" not in told.getvalue()


def test_a_full_disk_under_standard_output_is_said_in_one_sentence() -> None:
    full = Path("/dev/full")
    if not full.exists():
        pytest.skip("this system has no /dev/full")
    with full.open("wb", buffering=0) as raw, io.TextIOWrapper(raw, write_through=True) as file:
        with pytest.raises(OutputLost, match="No space left"):
            Narrator(Console(file=file)).line("hello")
