"""etcd's HTTP door, to compact the history under a real API server. How it fails: `urllib`'s errors, which fail the test."""

from __future__ import annotations

import json
import urllib.request
from pathlib import Path
from typing import Any

from tests.cluster.processes import ProcessId

ANSWER_SECONDS = 20.0
_FLAG = "--etcd-servers="


def url_of(api_server: ProcessId) -> str:
    """Where an API server keeps its objects, as its own command line says."""
    words = Path(f"/proc/{api_server.pid}/cmdline").read_text().split("\0")
    return next(word.removeprefix(_FLAG) for word in words if word.startswith(_FLAG))


def compact(url: str) -> None:
    """Forget every state but the newest."""
    revision = _post(f"{url}/v3/kv/range", {"key": "AA=="})["header"]["revision"]
    _post(f"{url}/v3/kv/compaction", {"revision": revision, "physical": True})


def _post(url: str, body: dict[str, Any]) -> dict[str, Any]:
    request = urllib.request.Request(url, json.dumps(body).encode(), {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=ANSWER_SECONDS) as response:
        answer: dict[str, Any] = json.load(response)
    return answer
