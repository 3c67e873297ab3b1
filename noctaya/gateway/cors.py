"""Cross-origin requests of browsers: off unless an administrator names origins. Pure."""

from collections.abc import Mapping

from noctaya.gateway.headers import Headers

MAX_AGE_SECONDS = 600
EXPOSED = "x-request-id, retry-after, x-noctaya-cold-start"


def headers(origins: tuple[str, ...], origin: str) -> Headers:
    """What every answer to an allowed origin carries."""
    if not origin or not ("*" in origins or origin in origins):
        return []
    return [
        ("access-control-allow-origin", origin),
        ("access-control-expose-headers", EXPOSED),
        ("vary", "origin"),
    ]


def preflight(origins: tuple[str, ...], origin: str, asked: Mapping[str, str]) -> Headers:
    """The answer to OPTIONS; the origin itself is added by `headers`."""
    if not headers(origins, origin):
        return []
    return [
        ("access-control-allow-methods", "GET, POST, OPTIONS"),
        (
            "access-control-allow-headers",
            asked.get("access-control-request-headers") or "authorization, content-type",
        ),
        ("access-control-max-age", str(MAX_AGE_SECONDS)),
    ]
