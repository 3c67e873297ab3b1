"""gRPC ignores a channel option that it does not know, so every key of ours must be one that the library contains."""

from pathlib import Path

import grpc
import pytest

from noctaya.wire import CLIENT_OPTIONS, SERVER_OPTIONS

(EXTENSION,) = (Path(grpc.__file__).parent / "_cython").glob("cygrpc*.so")
LIBRARY = EXTENSION.read_bytes()


@pytest.mark.parametrize("key", sorted({key for key, _ in CLIENT_OPTIONS + SERVER_OPTIONS}))
def test_the_library_knows_the_option(key: str) -> None:
    assert key.encode() + b"\0" in LIBRARY


def test_a_mistyped_option_would_be_noticed() -> None:
    assert b"grpc.http2.min_recv_ping_interval_without_data_ms\0" not in LIBRARY
