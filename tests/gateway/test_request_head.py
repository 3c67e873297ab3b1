"""Heads that two readers could read differently are none."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from noctaya.gateway import request_head

GOOD = b"POST /v1/chat/completions?x=%20y HTTP/1.1\r\nhost: x\r\nx-empty:\r\nx-latin: caf\xe9\tz"


def test_a_usual_head_passes() -> None:
    assert request_head.objection(GOOD) is None
    assert request_head.objection(b"GET http://host/v1/models HTTP/1.0") is None
    assert request_head.objection(b"OPTIONS * HTTP/1.1\r\nHost: x") is None


@pytest.mark.parametrize(
    "line",
    [
        b"transfer-encoding : chunked",
        b" folded: line",
        b"\tfolded",
        b"no colon",
        b": no name",
        b"two words: x",
        b"x: bare\nlf: y",
        b"x: bare\rcr",
        b"x: nul\x00",
        b"x: bell\x07",
        b"x: delete\x7f",
        b"",
    ],
)
def test_a_header_line_that_could_be_read_in_two_ways_is_refused_by_number_and_not_repeated(
    line: bytes,
) -> None:
    told = request_head.objection(GOOD + b"\r\n" + line)
    assert told is not None
    assert "line 4" in told
    assert not line.strip() or line.decode() not in told


@pytest.mark.parametrize(
    "line",
    [
        b"POST  /v1 HTTP/1.1",
        b"POST /v1 HTTP/1.1 ",
        b"POST /v1",
        b"POST v1 HTTP/1.1",
        b"POST /v 1 HTTP/1.1",
        b"POST /v\t1 HTTP/1.1",
        b"POST /\xe9 HTTP/1.1",
        b"P\xffST / HTTP/1.1",
        b"GET / HTTP/2.0",
        b"GET / http/1.1",
        b"CONNECT host:80 HTTP/1.1",
        b"",
    ],
)
def test_a_first_line_that_is_not_http_is_refused(line: bytes) -> None:
    assert "first line" in str(request_head.objection(line + b"\r\nhost: x"))


@pytest.mark.parametrize(
    ("version", "headers", "claim"),
    [
        ("1.1", [("host", "x"), ("content-length", "10 ")], None),
        ("1.0", [], None),
        ("1.1", [], "Host"),
        ("1.1", [("host", "x"), ("host", "x")], "Host"),
        ("1.0", [("host", "x"), ("transfer-encoding", "chunked")], "Transfer-Encoding"),
        ("1.1", [("host", "x"), ("content-length", "+1")], "Content-Length"),
        ("1.1", [("host", "x"), ("content-length", "1,1")], "Content-Length"),
        ("1.1", [("host", "x"), ("content-length", "２")], "Content-Length"),  # noqa: RUF001 - a digit of another script
        ("1.1", [("host", "x"), ("content-length", "")], "Content-Length"),
        ("1.1", [("host", "x"), ("content-length", "9" * 30)], "Content-Length"),
    ],
)
def test_whom_it_is_for_and_where_it_ends_must_be_told_once(
    version: str, headers: list[tuple[str, str]], claim: str | None
) -> None:
    told = request_head.framing_objection(version, headers)
    assert told is None if claim is None else told is not None and claim in told


def test_a_chunk_size_is_hexadecimal_after_the_end_of_the_chunk_before() -> None:
    for good in (b"\r\n0", b"\r\n1F", b"\r\n1f;name=value", b"\r\n1f ; x"):
        assert request_head.is_chunk_size(good), good
    for bad in (
        b"XX1f",
        b"\r\n0x1f",
        b"\r\n+1",
        b"\r\n 1",
        b"\r\n1 ",
        b"\r\n",
        b"\r\n1\n2",
        b"\r\n" + b"1" * 16,
        b"\r\n1_0",
    ):
        assert not request_head.is_chunk_size(bad), bad


@pytest.mark.parametrize(
    ("target", "path", "query"),
    [
        ("/v1/models?a=b?c", "/v1/models", "a=b?c"),
        ("/v1/models#x?y", "/v1/models", ""),
        ("http://evil/v1/models?a", "/v1/models", "a"),
        ("HTTPS://evil", "/", ""),
        ("//evil/v1/models", "//evil/v1/models", ""),
        ("*", "*", ""),
    ],
)
def test_a_target_is_split_without_guessing(target: str, path: str, query: str) -> None:
    assert request_head.split_target(target) == (path, query)


@pytest.mark.parametrize(
    "path",
    [
        "/v1/../x",
        "/v1/.",
        "/v1/%2e%2e/x",
        "/v1/%2E./x",
        "/v1/..%2fx",
        "/v1/..%5cx",
        "/v1/..\\x",
        "/v1/%252e%252e/x",
        "/v1/x%00",
    ],
)
def test_a_path_that_climbs_is_seen_however_it_is_written(path: str) -> None:
    assert request_head.climbs(path)


def test_dots_within_names_are_only_dots() -> None:
    for path in ("/v1/models/org/Tiny-1.5B", "/v1/...", "/ai/tiny/v1/a..b", "/v1/files/%C3%A9.txt"):
        assert not request_head.climbs(path), path


@given(st.binary(max_size=60), st.binary(max_size=60))
def test_no_accepted_head_holds_a_control_character_outside_of_its_line_ends(
    one: bytes, other: bytes
) -> None:
    head = b"GET /" + one + b" HTTP/1.1\r\nhost: " + other
    if request_head.objection(head) is None:
        for line in head.split(b"\r\n"):
            assert not set(line) & (set(range(32)) - {9} | {127})
