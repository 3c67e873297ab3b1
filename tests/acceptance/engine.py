"""The scripted engine inside a backend pod, spoken to behind the gateways' back: what it served, and when it shall finish.

Reaches a pod by its address, also one that is on its way out. How it fails: as httpx does.
"""

from typing import Any

import httpx2

from tests.acceptance.api import Object

PORT = 8000
SECONDS = 30.0
ENDLESS = 100_000
"""Tokens of a stream that ends only when it is told to (`finish`)."""


async def stats(pod: Object) -> dict[str, Any]:
    """What it counts: completions `started`, `completed`, `aborted`, `running`, `authorized`; and its process."""
    found: dict[str, Any] = await _say("GET", pod, "/stats")
    return found


async def finish(pod: Object) -> None:
    """Let its streams end well with their next token, and so every later one."""
    await _say("POST", pod, "/control", {"finish": True})


async def _say(method: str, pod: Object, path: str, body: dict[str, Any] | None = None) -> Any:
    async with httpx2.AsyncClient(trust_env=False, timeout=SECONDS) as client:
        answer = await client.request(method, f"http://{pod['status']['podIP']}:{PORT}{path}", json=body)
    return answer.raise_for_status().json()
