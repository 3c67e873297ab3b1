"""What goes wrong in the KEDA stand-in: a ScaledObject that it cannot serve, and a scaler that does not answer.

A `ScalerFailed` is never "inactive": the executor leaves replicas alone on an error (keda.md, fact 8).
"""

from noctaya.errors import NoctayaError, UserError


class InvalidScaledObject(UserError):
    """The spec cannot be served; the message goes into its Ready condition and says what to change."""


class ScalerFailed(NoctayaError):
    """A scaler answered an RPC with an error, or could not be reached at all."""

    def __init__(self, address: str, rpc: str, code: str, details: str) -> None:
        super().__init__(f"{rpc} at {address} failed with {code}: {details or 'no details'}")
        self.address = address
        self.rpc = rpc
        self.code = code
        self.details = details


class NoMetricSpec(NoctayaError):
    """A scaler answered GetMetricSpec with an empty list, which KEDA treats as an error."""


class TargetUnreadable(NoctayaError):
    """The scale target does not exist, or the API server did not answer when asked for its replicas."""


class EditedHpa(NoctayaError):
    """An HPA of ours was edited by hand into something that cannot be followed until KEDA has put it back."""
