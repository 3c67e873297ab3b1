"""What passes the gateway in either direction."""

from noctaya.gateway.headers import request_id, to_client, to_engine

OURS = {"client": "10.1.2.3", "scheme": "http", "request_id": "id-1"}


def sent(
    headers: list[tuple[str, str]], *, strip: bool = False, trust: bool = False
) -> list[tuple[str, str]]:
    return to_engine(headers, strip_authorization=strip, trust_forwarded=trust, **OURS)


def test_hop_by_hop_headers_end_here_in_both_directions() -> None:
    hop = [
        ("Connection", "keep-alive, X-Private"),
        ("X-Private", "1"),
        ("TE", "trailers"),
        ("Upgrade", "h2c"),
        ("X-Kept", "1"),
    ]
    names = {name for name, _ in sent(hop)}
    assert {"connection", "x-private", "te", "upgrade"} & names == set()
    assert "x-kept" in names
    assert to_client(hop) == [("x-kept", "1")]


def test_the_clients_word_on_forwarding_counts_only_behind_a_trusted_proxy() -> None:
    told = [("X-Forwarded-For", "1.1.1.1"), ("X-Forwarded-Proto", "https"), ("Host", "tiny.ai")]
    plain, trusted = dict(sent(told)), dict(sent(told, trust=True))
    assert (plain["x-forwarded-for"], plain["x-forwarded-proto"], plain["host"]) == (
        "10.1.2.3",
        "http",
        "tiny.ai",
    )
    assert (trusted["x-forwarded-for"], trusted["x-forwarded-proto"]) == ("1.1.1.1, 10.1.2.3", "https")


def test_a_key_that_was_ours_to_check_does_not_reach_the_engine() -> None:
    told = [("Authorization", "Bearer sk-1")]
    assert "authorization" not in dict(sent(told, strip=True))
    assert dict(sent(told))["authorization"] == "Bearer sk-1"


def test_a_request_id_is_kept_when_it_fits_into_a_log_line() -> None:
    assert request_id("abc-123") == "abc-123"
    assert request_id("two words") != "two words"
    assert len(request_id(None)) == 32


def test_repeated_response_headers_all_pass() -> None:
    told = [("Set-Cookie", "a=1"), ("Set-Cookie", "b=2"), ("Content-Length", "3")]
    assert to_client(told) == [("set-cookie", "a=1"), ("set-cookie", "b=2"), ("content-length", "3")]
