"""Faults between a client and an API server, whichever server it is: a proxy that delays, loses, repeats the past and lies.

`rules.py` decides (pure, seeded), `proxy.py` and `connection.py` carry it out. Nothing here knows what the client is for.
"""

from tests.faults.proxy import FaultProxy, ProxiedClient
from tests.faults.rules import Where

__all__ = ["FaultProxy", "ProxiedClient", "Where"]
