"""What a trigger's `scalerAddress` says: a name that the cluster must resolve, or something that gRPC can dial itself."""

import ipaddress
from dataclasses import dataclass

PREFIXES = ("dns:///", "passthrough:///")


@dataclass(frozen=True, slots=True)
class Direct:
    """A gRPC target to dial as it stands."""

    target: str


@dataclass(frozen=True, slots=True)
class Named:
    """A host name of the cluster's DNS, which the embedded cluster does not have: its pods' addresses are looked up."""

    host: str
    port: int

    def target(self, ip: str) -> str:
        """The gRPC target of one of the name's addresses."""
        return _ip_target(ip, self.port)


def parse(address: str) -> Direct | Named:
    """Literal addresses, `localhost` and `unix:` pass through; everything else is a name.

    Raises ValueError when the port is missing or is no number.
    """
    if address.startswith("unix:"):
        return Direct(address)
    for prefix in PREFIXES:
        address = address.removeprefix(prefix)
    host, colon, port_text = address.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not colon or not host or not port_text.isdecimal():
        raise ValueError(f"scalerAddress {address!r} is not host:port")
    port = int(port_text)
    if host == "localhost":
        return Direct(f"dns:///localhost:{port}")
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return Named(host, port)
    return Direct(_ip_target(host, port))


def _ip_target(ip: str, port: int) -> str:
    return f"ipv6:[{ip}]:{port}" if ":" in ip else f"ipv4:{ip}:{port}"
