"""What a request head may look like (RFC 9112), stricter than the server's own parser. Pure.

Two parties that read one head differently are how requests are smuggled: whitespace before a colon, folded lines, bare line
feeds and odd lengths are refused here with 400 and the connection is closed, before anything of them is believed. What is
refused is never repeated in the answer or the log: it may hold a key.
"""

import re
from collections.abc import Iterable
from urllib.parse import unquote

_TOKEN = rb"[!#$%&'*+\-.^_`|~0-9A-Za-z]+"
_FIELD = _TOKEN + rb":[\t\x20-\x7e\x80-\xff]*"
_REQUEST_LINE = _TOKEN + rb" (?:/[\x21-\x7e]*|https?://[\x21-\x7e]+|\*) HTTP/1\.[01]"
_HEAD = re.compile(_REQUEST_LINE + rb"(?:\r\n" + _FIELD + rb")*")
_FIRST = re.compile(_REQUEST_LINE)
_ORIGIN = re.compile(r"https?://[^/?#]*", re.IGNORECASE)
_DIGITS = re.compile(r"[0-9]{1,18}[ \t]*", re.ASCII)
_CHUNK_SIZE = re.compile(rb"\r\n[0-9A-Fa-f]{1,15}(?:[ \t]*;[\t\x20-\x7e\x80-\xff]*)?")


def objection(head: bytes) -> str | None:
    """Why these lines (without the empty one) are no request head; None when they are."""
    if _HEAD.fullmatch(head):
        return None
    first, *fields = head.split(b"\r\n")
    if not _FIRST.fullmatch(first):
        return "its first line is not 'METHOD /path HTTP/1.1'"
    number = next((n for n, field in enumerate(fields, 1) if not re.fullmatch(_FIELD, field)), 0)
    return f"header line {number} is not 'name: value' (no folding, no control characters)"


def framing_objection(version: str, headers: Iterable[tuple[str, str]]) -> str | None:
    """Why these headers (lower-case names) leave open whom the request is for, or where its body ends."""
    hosts = 0
    for name, value in headers:
        if name == "host":
            hosts += 1
        elif name == "content-length" and not _DIGITS.fullmatch(value):
            return "Content-Length is not a number"
        elif name == "transfer-encoding" and version == "1.0":
            return "HTTP/1.0 has no Transfer-Encoding"
    if hosts > 1 or (not hosts and version == "1.1"):
        return "it needs exactly one Host header"
    return None


def is_chunk_size(line: bytes) -> bool:
    """True for the end of a chunk and the size of the next one, `\\r\\n1f;extension`, without the line's own end."""
    return _CHUNK_SIZE.fullmatch(line) is not None


def split_target(target: str) -> tuple[str, str]:
    """A request target's path (raw) and query; of `http://host/path` the host is left out."""
    target = _ORIGIN.sub("", target, count=1).partition("#")[0]
    path, _, query = target.partition("?")
    return path or "/", query


def climbs(path: str) -> bool:
    """True when a reader of this raw path could take it for another one: `.` and `..` segments, however encoded, `\\`, `%00`."""
    if "." not in path and "%" not in path and "\\" not in path:
        return False
    plain = unquote(unquote(path)).replace("\\", "/")
    return "\0" in plain or any(segment in {".", ".."} for segment in plain.split("/"))
