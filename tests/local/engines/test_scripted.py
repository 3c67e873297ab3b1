"""The scripted engine does exactly what it was told, and says what happened."""

import contextlib
import json
import os
import signal
import socket
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import openai
import pytest

from noctaya.local.engines.scripted import main
from tests.local.engines.running import call, engine

CHAT = {"model": "m", "messages": [{"role": "user", "content": "hi"}]}


@pytest.fixture(scope="module")
def running() -> Iterator[tuple[str, int]]:
    with engine("scripted", "--token-count", "3", "--token-delay", "5ms") as address:
        yield address


def events(text: str) -> list[Any]:
    frames = [frame.removeprefix("data: ") for frame in text.split("\n\n") if frame]
    return [frame if frame == "[DONE]" else json.loads(frame) for frame in frames]


def test_health_waits_for_the_startup_delay() -> None:
    with engine("scripted", "--startup-delay", "300ms") as address:
        assert call(address, "GET", "/health")[0] == 503
        assert call(address, "POST", "/v1/chat/completions", CHAT)[0] == 503
        deadline = time.monotonic() + 3
        while call(address, "GET", "/health")[0] != 200:
            assert time.monotonic() < deadline
            time.sleep(0.02)


def test_a_completion_has_as_many_tokens_as_told(running: tuple[str, int]) -> None:
    status, answer = call(running, "POST", "/v1/chat/completions", CHAT)
    assert status == 200
    assert answer["object"] == "chat.completion"
    assert answer["choices"][0]["message"]["content"] == "token0 token1 token2 "
    assert answer["usage"]["completion_tokens"] == 3
    _, answer = call(running, "POST", "/v1/completions?tokens=1", {"prompt": "x"})
    assert answer["choices"][0]["text"] == "token0 "


def test_a_stream_is_one_frame_a_token_and_an_end(running: tuple[str, int]) -> None:
    request = {**CHAT, "stream": True, "stream_options": {"include_usage": True}}
    frames = events(call(running, "POST", "/v1/chat/completions", request)[1])
    assert [f["choices"][0]["delta"]["content"] for f in frames[:3]] == ["token0 ", "token1 ", "token2 "]
    assert [f["choices"][0]["finish_reason"] for f in frames[:3]] == [None, None, "stop"]
    assert frames[3]["usage"]["completion_tokens"] == 3
    assert frames[4] == "[DONE]"


def test_the_openai_client_understands_it(running: tuple[str, int]) -> None:
    with openai.OpenAI(base_url=f"http://{running[0]}:{running[1]}/v1", api_key="x", max_retries=0) as client:
        stream = client.chat.completions.create(
            model="m", messages=[{"role": "user", "content": "hi"}], stream=True
        )
        text = "".join(chunk.choices[0].delta.content or "" for chunk in stream)
        assert text == "token0 token1 token2 "
        assert [model.id for model in client.models.list()] == ["scripted"]


@pytest.mark.parametrize(
    ("method", "path", "body", "status"),
    [
        ("POST", "/v1/chat/completions", b"not json", 400),
        ("POST", "/v1/chat/completions?tokens=x", CHAT, 400),
        ("GET", "/v1/chat/completions", None, 405),
        ("POST", "/health", None, 405),
        ("GET", "/nowhere", None, 404),
        ("POST", "/control", b"[]", 400),
    ],
)
def test_mistakes_get_an_openai_error(
    running: tuple[str, int], method: str, path: str, body: Any, status: int
) -> None:
    found, answer = call(running, method, path, body)
    assert found == status
    assert answer["error"]["message"]


def test_control_sets_what_metrics_and_health_say(running: tuple[str, int]) -> None:
    call(running, "POST", "/control", {"waiting": 7, "running": 2, "kv_cache": 3, "healthy": False})
    text = call(running, "GET", "/metrics")[1]
    assert "vllm:num_requests_waiting 7\n" in text
    assert "vllm:num_requests_running 2\n" in text
    assert "vllm:kv_cache_usage_perc 1\n" in text
    assert call(running, "GET", "/health")[0] == 503
    call(running, "POST", "/control", {"healthy": True, "running": None})
    assert call(running, "GET", "/health")[0] == 200


def test_a_client_that_leaves_is_counted_as_aborted(
    eventually: Callable[[Callable[[], bool], float], None],
) -> None:
    with engine("scripted", "--token-count", "1000", "--token-delay", "20ms") as address:
        body = json.dumps({**CHAT, "stream": True}).encode()
        with socket.create_connection(address) as client:
            head = f"POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\ncontent-length: {len(body)}\r\n\r\n"
            client.sendall(head.encode() + body)
            assert client.recv(1000).startswith(b"HTTP/1.1 200 OK")
            assert call(address, "GET", "/stats")[1]["running"] == 1

        def is_aborted() -> bool:
            stats = call(address, "GET", "/stats")[1]
            return (stats["started"], stats["completed"], stats["aborted"], stats["running"]) == (1, 0, 1, 0)

        eventually(is_aborted, 3.0)


def test_a_stream_can_be_cut_in_the_middle(running: tuple[str, int]) -> None:
    call(running, "POST", "/control", {"cut_after": 1})
    with socket.create_connection(running) as client:
        body = json.dumps({**CHAT, "stream": True}).encode()
        head = f"POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\ncontent-length: {len(body)}\r\n\r\n"
        client.sendall(head.encode() + body)
        received = b""
        while piece := client.recv(4096):
            received += piece
    call(running, "POST", "/control", {"cut_after": None})
    assert received.count(b"data: ") == 1
    assert b"[DONE]" not in received
    assert not received.endswith(b"0\r\n\r\n")


def test_a_stream_without_end_ends_well_when_told(running: tuple[str, int]) -> None:
    with socket.create_connection(running, timeout=5.0) as client, client.makefile("rb") as received:
        body = json.dumps({**CHAT, "stream": True}).encode()
        head = f"POST /v1/chat/completions?tokens=9999 HTTP/1.1\r\nhost: x\r\ncontent-length: {len(body)}\r\n\r\n"
        client.sendall(head.encode() + body)
        assert received.readline().startswith(b"HTTP/1.1 200")
        call(running, "POST", "/control", {"finish": True})
        frames = [line for line in iter(received.readline, b"0\r\n") if line.startswith(b"data: ")]
    call(running, "POST", "/control", {"finish": False})
    assert b'"finish_reason": "stop"' in frames[-2]
    assert frames[-1] == b"data: [DONE]\n"


@pytest.mark.parametrize("grace", ["10s", "0s"])
def test_after_sigterm_a_running_answer_is_finished_only_when_there_is_grace_for_it(
    grace: str, eventually: Callable[[Callable[[], bool], float], None]
) -> None:
    with engine("scripted", "--token-count", "10", "--token-delay", "30ms", "--drain", grace) as address:
        pid = call(address, "GET", "/stats")[1]["pid"]
        body = json.dumps({**CHAT, "stream": True}).encode()
        with socket.create_connection(address, timeout=5.0) as client:
            head = f"POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\ncontent-length: {len(body)}\r\n\r\n"
            client.sendall(head.encode() + body)
            received = client.recv(4096)
            os.kill(pid, signal.SIGTERM)
            with contextlib.suppress(ConnectionResetError):
                while piece := client.recv(4096):
                    received += piece
        assert (b"data: [DONE]" in received) == (grace != "0s")
        eventually(lambda: Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z", 5.0)


def test_it_tells_how_many_requests_came_with_an_authorization(running: tuple[str, int]) -> None:
    before = call(running, "GET", "/stats")[1]["authorized"]
    call(running, "POST", "/v1/chat/completions", CHAT)
    assert call(running, "GET", "/stats")[1]["authorized"] == before
    with openai.OpenAI(base_url=f"http://{running[0]}:{running[1]}/v1", api_key="x", max_retries=0) as client:
        client.chat.completions.create(model="m", messages=[{"role": "user", "content": "hi"}])
    assert call(running, "GET", "/stats")[1]["authorized"] == before + 1


def test_a_bad_flag_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--host", "127.0.0.1", "--port", "0", "--token-delay", "soon"]) == 2
    assert "'soon' is not a duration" in capsys.readouterr().err


def test_a_port_in_use_is_named(running: tuple[str, int], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--host", running[0], "--port", str(running[1])]) == 1
    assert f"cannot listen on {running[0]}:{running[1]}" in capsys.readouterr().err
