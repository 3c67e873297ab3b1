"""Runs an engine as a process and tells where it listens."""

import contextlib
import http.client
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from typing import Any


@contextlib.contextmanager
def engine(module: str, *arguments: str) -> Iterator[tuple[str, int]]:
    """(host, port) of a running engine, which is ended afterwards."""
    command = [
        sys.executable,
        "-m",
        f"noctaya.local.engines.{module}",
        "--host",
        "127.0.0.1",
        "--port",
        "0",
        *arguments,
    ]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=os.environ
    ) as process:
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            assert line.startswith("listening on http://"), line
            host, _, port = line.split()[2].removeprefix("http://").rpartition(":")
            yield host, int(port)
        finally:
            process.terminate()
            assert process.wait(timeout=5) == 0


def call(address: tuple[str, int], method: str, path: str, body: Any = None) -> tuple[int, Any]:
    """(status, JSON or text)."""
    connection = http.client.HTTPConnection(*address, timeout=10)
    try:
        data = body if isinstance(body, bytes) or body is None else json.dumps(body).encode()
        connection.request(method, path, body=data)
        answer = connection.getresponse()
        text = answer.read().decode()
        is_json = answer.getheader("content-type", "").startswith("application/json")
        return answer.status, json.loads(text) if is_json else text
    finally:
        connection.close()
