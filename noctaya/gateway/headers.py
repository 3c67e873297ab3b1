"""Which headers pass through the gateway, and which are its own. Pure.

Hop-by-hop headers (RFC 9110 section 7.6.1) and whatever `Connection` names end here, in both directions; trailers are not
forwarded. What a client says of itself in X-Forwarded-… is believed only behind a trusted proxy.
"""

import re
import uuid
from collections.abc import Iterable

Headers = list[tuple[str, str]]

HOP_BY_HOP = frozenset(
    {
        "connection",
        "keep-alive",
        "proxy-authenticate",
        "proxy-authorization",
        "proxy-connection",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
    }
)
REPLACED = frozenset(
    {
        "content-length",
        "expect",
        "x-request-id",
        "x-forwarded-for",
        "x-forwarded-proto",
        "x-forwarded-host",
        "x-noctaya-trace",
    }
)
CLAIMS = frozenset({"forwarded", "x-real-ip", "x-forwarded-port", "x-forwarded-server", "x-forwarded-prefix"})
"""What a client says of itself in other words; passed on only behind a trusted proxy."""
REQUEST_ID = re.compile(r"[\x21-\x7e]{1,128}")


def request_id(offered: str | None) -> str:
    """The client's own id when it is fit for a log line, else a new one."""
    return offered if offered and REQUEST_ID.fullmatch(offered) else uuid.uuid4().hex


def to_engine(
    headers: Iterable[tuple[str, str]],
    *,
    client: str,
    scheme: str,
    request_id: str,
    strip_authorization: bool,
    trust_forwarded: bool,
) -> Headers:
    """A request's headers as the engine gets them; Content-Length is left to whoever writes the body."""
    pairs = [(name.lower(), value) for name, value in headers]
    ended = HOP_BY_HOP | REPLACED | _named_by_connection(pairs)
    if strip_authorization:
        ended |= {"authorization"}
    if not trust_forwarded:
        ended |= CLAIMS
    kept = [(name, value) for name, value in pairs if name not in ended]
    told = (
        {name: value for name, value in pairs if name.startswith("x-forwarded-")} if trust_forwarded else {}
    )
    before = ", ".join(value for name, value in pairs if name == "x-forwarded-for") if told else ""
    kept.append(("x-forwarded-for", f"{before}, {client}" if before else client))
    kept.append(("x-forwarded-proto", told.get("x-forwarded-proto", scheme)))
    host = told.get("x-forwarded-host") or next((value for name, value in pairs if name == "host"), "")
    if host:
        kept.append(("x-forwarded-host", host))
    kept.append(("x-request-id", request_id))
    return kept


def to_client(headers: Iterable[tuple[str, str]]) -> Headers:
    """A response's headers as the client gets them; Content-Length stays, since the body passes as it came."""
    pairs = [(name.lower(), value) for name, value in headers]
    ended = HOP_BY_HOP | {"x-request-id"} | _named_by_connection(pairs)
    return [(name, value) for name, value in pairs if name not in ended]


def without(headers: Headers, unwanted: str) -> Headers:
    """The headers without this one (lower-case)."""
    return [(name, value) for name, value in headers if name != unwanted]


def _named_by_connection(pairs: Headers) -> frozenset[str]:
    return frozenset(
        token.strip().lower() for name, value in pairs if name == "connection" for token in value.split(",")
    )
