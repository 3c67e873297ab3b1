"""Whether somebody asks from this very machine or pod: what an admin port shows to nobody else (DESIGN section 5)."""

from __future__ import annotations

import ipaddress


def is_loopback(remote: str | None) -> bool:
    """Whether this is a loopback address; what is no address is none."""
    try:
        address = ipaddress.ip_address(remote or "")
    except ValueError:
        return False
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None:
        return address.ipv4_mapped.is_loopback  # a dual-stack listener shows 127.0.0.1 as ::ffff:127.0.0.1
    return address.is_loopback
