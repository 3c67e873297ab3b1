"""Field descriptions come from the docstrings under the fields, when they are asked for and not before."""

import subprocess
import sys

from pydantic import create_model

from noctaya.api.descriptions import field_descriptions
from noctaya.api.rules import ApiModel


class Engine(ApiModel):
    """Something with a number."""

    size: int
    """How large."""
    silent: int = 0
    name: str
    """Over two
    lines."""


class LargeEngine(Engine):
    """The same, larger."""

    size: int
    """How very large."""


def test_a_field_is_described_by_the_docstring_under_it() -> None:
    assert field_descriptions(Engine) == {"size": "How large.", "name": "Over two\nlines."}
    assert Engine.model_json_schema()["properties"]["size"]["description"] == "How large."


def test_a_subclass_has_its_own_word_and_inherits_the_rest() -> None:
    assert field_descriptions(LargeEngine)["size"] == "How very large."
    assert field_descriptions(LargeEngine)["name"] == "Over two\nlines."


def test_a_class_without_source_has_no_descriptions() -> None:
    made = create_model("Made", __base__=ApiModel, __module__="nowhere", size=(int, 0))
    assert field_descriptions(made) == {}


def test_importing_the_models_reads_no_source() -> None:
    program = (
        "import inspect; inspect.getsource = inspect.findsource = None; import noctaya.api.llmservice as m; "
        "m.LLMService.model_rebuild()"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
