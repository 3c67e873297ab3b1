"""What crosses a wire: the protobuf contracts, their generated code, and the channel options that both ends need.

KEDA's ExternalScaler contract, our own control link, what workers say to each other, and mutual TLS for the latter two.
"""

from noctaya.wire.gen import control_pb2 as control
from noctaya.wire.gen import control_pb2_grpc as control_grpc
from noctaya.wire.gen import externalscaler_pb2 as externalscaler
from noctaya.wire.gen import externalscaler_pb2_grpc as externalscaler_grpc
from noctaya.wire.gen import peer_pb2 as peer
from noctaya.wire.gen import peer_pb2_grpc as peer_grpc
from noctaya.wire.options import CLIENT_OPTIONS, PEER_OPTIONS, SERVER_OPTIONS

__all__ = [
    "CLIENT_OPTIONS",
    "PEER_OPTIONS",
    "SERVER_OPTIONS",
    "control",
    "control_grpc",
    "externalscaler",
    "externalscaler_grpc",
    "peer",
    "peer_grpc",
]
