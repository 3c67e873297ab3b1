"""What a controller of the embedded cluster raises."""

from noctaya.errors import NoctayaError


class ControllerError(NoctayaError):
    """The root of the controllers' errors."""


class NodePortInUse(ControllerError):
    """A Service's nodePort is taken by another program on this machine."""

    def __init__(self, port: int, service: str, cause: str) -> None:
        super().__init__(
            f"Service {service}: cannot listen on 127.0.0.1:{port} ({cause}). End the other program or choose another nodePort."
        )
        self.port = port
        self.service = service


class PackageNotInstalled(ControllerError):
    """A claim asks for the directory of a Python package that is not installed."""

    def __init__(self, package: str) -> None:
        super().__init__(
            f"Python package {package!r} is not installed in this environment; install it, the claim then binds"
        )
        self.package = package
