"""Certificates of the test cluster, checked by the libraries that will check them."""

import ssl
from pathlib import Path

import pytest

from tests.cluster.certificates import Authority, Pair, signing_key


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path / "certificates", "authority", "test")


def shake_hands(server: Pair, client: Pair, authority: Path, name: str) -> dict[str, object]:
    """Mutual TLS in memory, strict as Python can be; returns what the server knows of the client."""
    strict = ssl.VERIFY_X509_STRICT | ssl.VERIFY_X509_PARTIAL_CHAIN
    for_server = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=str(authority))
    for_server.verify_mode = ssl.CERT_REQUIRED
    for_client = ssl.create_default_context(cafile=str(authority))
    for context, pair in ((for_server, server), (for_client, client)):
        context.verify_flags |= strict
        context.load_cert_chain(pair.certificate, pair.key)
    pipes = (ssl.MemoryBIO(), ssl.MemoryBIO())
    ends = [
        for_client.wrap_bio(pipes[0], pipes[1], server_hostname=name),
        for_server.wrap_bio(pipes[1], pipes[0], server_side=True),
    ]
    for _ in range(4):
        for end in ends:
            try:
                end.do_handshake()
            except ssl.SSLWantReadError:
                continue
    found = ends[1].getpeercert()
    assert found is not None
    return dict(found)


@pytest.mark.parametrize("name", ["localhost", "10.96.0.1"])
def test_a_server_is_trusted_under_its_names_and_sees_user_and_groups(
    authority: Authority, name: str
) -> None:
    server = authority.leaf("server", "server", server_names=["localhost", "10.96.0.1"])
    client = authority.leaf("client", "admin", groups=["system:masters"])
    seen = shake_hands(server, client, authority.pair.certificate, name)
    assert seen["subject"] == ((("organizationName", "system:masters"),), (("commonName", "admin"),))


def test_another_name_is_refused(authority: Authority) -> None:
    server = authority.leaf("server", "server", server_names=["localhost"])
    with pytest.raises(ssl.SSLCertVerificationError, match="mismatch"):
        shake_hands(server, server, authority.pair.certificate, "elsewhere")


def test_a_clients_certificate_is_no_servers(authority: Authority) -> None:
    client = authority.leaf("client", "admin")
    with pytest.raises(ssl.SSLCertVerificationError, match="purpose"):
        shake_hands(client, client, authority.pair.certificate, "admin")


def test_keys_are_readable_by_their_owner_only(authority: Authority, tmp_path: Path) -> None:
    authority.leaf("leaf", "leaf")
    signing_key(tmp_path / "certificates")
    keys = list((tmp_path / "certificates").glob("*.key"))
    assert len(keys) == 3
    assert {path.stat().st_mode & 0o777 for path in keys} == {0o600}
