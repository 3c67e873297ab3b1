"""Keepalive and size options of every gRPC channel and server of ours.

gRPC ignores a key that it does not know, so a typing error is silent; `tests/wire/test_options.py` holds the keys against
the library's own behaviour. Note `min_ping_interval_without_data_ms`: the C macro of this key says RECV, the string does not.
"""

ChannelOptions = tuple[tuple[str, int], ...]

MAX_MESSAGE_BYTES = 32 * 1024 * 1024
"""A snapshot of one shard at 10,000 services is about 100 KB; the default of 4 MiB would bound a fleet of 400,000."""

CLIENT_OPTIONS: ChannelOptions = (
    ("grpc.keepalive_time_ms", 20_000),
    ("grpc.keepalive_timeout_ms", 10_000),
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.http2.max_pings_without_data", 0),
    ("grpc.max_receive_message_length", MAX_MESSAGE_BYTES),
    ("grpc.max_send_message_length", MAX_MESSAGE_BYTES),
    ("grpc.initial_reconnect_backoff_ms", 200),
    ("grpc.min_reconnect_backoff_ms", 200),
    ("grpc.max_reconnect_backoff_ms", 5_000),
    ("grpc.enable_http_proxy", 0),
)
"""Pings find a dead peer in 30 s. The environment's HTTP proxy never applies: peers are inside the cluster."""

PEER_IDLE_SECONDS = 300
PEER_OPTIONS: ChannelOptions = tuple(
    {
        **dict(CLIENT_OPTIONS),
        "grpc.initial_reconnect_backoff_ms": 100,
        "grpc.min_reconnect_backoff_ms": 1_000,
        "grpc.max_reconnect_backoff_ms": 1_000,
        "grpc.dns_min_time_between_resolutions_ms": 1_000,
        "grpc.client_idle_timeout_ms": PEER_IDLE_SECONDS * 1000,
    }.items()
)
"""Between workers: one that comes back is reached within a second. `min_reconnect_backoff` is how long one attempt to connect
may take, which is what an address that swallows packets costs; calls have deadlines of their own. An idle connection goes."""

SERVER_OPTIONS: ChannelOptions = (
    ("grpc.keepalive_time_ms", 30_000),
    ("grpc.keepalive_timeout_ms", 10_000),
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.http2.min_ping_interval_without_data_ms", 10_000),
    ("grpc.max_receive_message_length", MAX_MESSAGE_BYTES),
    ("grpc.max_send_message_length", MAX_MESSAGE_BYTES),
    ("grpc.so_reuseport", 0),
)
"""No limit on concurrent streams: KEDA holds one for each ScaledObject on a single connection and waits without deadline."""
