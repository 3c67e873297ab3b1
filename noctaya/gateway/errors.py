"""What can go wrong in a gateway, apart from what is answered to a client (`openai_errors.Refusal`)."""

from noctaya.errors import NoctayaError, UserError


class PortInUse(UserError):
    """Another process listens where we should."""

    def __init__(self, host: str, port: int, setting: str) -> None:
        super().__init__(
            f"Port {port} on {host} is already in use. Stop the process that listens there, or choose another port with {setting}."
        )
        self.host, self.port = host, port


class CannotListen(UserError):
    """The address cannot be bound for another reason (no such address, no permission)."""

    def __init__(self, host: str, port: int, setting: str, reason: str) -> None:
        super().__init__(f"Cannot listen on {host}:{port}: {reason}. Change {setting}.")
        self.host, self.port = host, port


class UpstreamError(NoctayaError):
    """The engine could not be asked, or stopped answering."""


class ConnectFailed(UpstreamError):
    """No connection was made, so not one byte of the request reached an engine: another endpoint may be tried."""


class UpstreamBroken(UpstreamError):
    """The connection died when bytes may have reached the engine: the request must not be sent again."""


class LinkBroken(NoctayaError):
    """The other end of the control link does not keep the contract, or is not a worker."""
