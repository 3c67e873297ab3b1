"""What crosses a wire: the protobuf contracts, their generated code, and the channel options that both ends need.

KEDA's ExternalScaler contract and our own control link live here. No behaviour lives here.
"""

from noctaya.wire.gen import control_pb2 as control
from noctaya.wire.gen import control_pb2_grpc as control_grpc
from noctaya.wire.gen import externalscaler_pb2 as externalscaler
from noctaya.wire.gen import externalscaler_pb2_grpc as externalscaler_grpc
from noctaya.wire.options import CLIENT_OPTIONS, SERVER_OPTIONS

__all__ = [
    "CLIENT_OPTIONS",
    "SERVER_OPTIONS",
    "control",
    "control_grpc",
    "externalscaler",
    "externalscaler_grpc",
]
