"""Loopback addresses for pods, so that two pods may listen on the same port, as on a cluster.

On Linux every address of 127.0.0.0/8 is local without any set-up. Elsewhere only 127.0.0.1 is: then all pods share it, and
two pods with the same port get in each other's way (their container fails with "address in use", which is visible).
An address is not given out again until the whole range was walked through; the walk starts at a random place, so that two
clusters on one machine hardly meet.
"""

import ipaddress
import random
import socket

from noctaya.local.agent.errors import AgentError


class AddressPool:
    """Gives each pod its own address while it lives."""

    def __init__(self, network: str) -> None:
        self._network = ipaddress.ip_network(network)
        self._taken: set[int] = set()
        self._next = random.randrange(self._network.num_addresses)
        self._shared = not is_bindable(str(self._network.network_address + 1))

    def take(self) -> str:
        """An address that no living pod has."""
        if self._shared:
            return "127.0.0.1"
        for _ in range(self._network.num_addresses):
            offset = self._next
            self._next = (offset + 1) % self._network.num_addresses
            if offset % 256 in {0, 255} or offset in self._taken:
                continue  # .0 and .255 look like network and broadcast addresses to people and to some programs
            self._taken.add(offset)
            return str(self._network.network_address + offset)
        raise AgentError(f"All addresses of {self._network} are in use by pods; choose a wider pod_range.")

    def give_back(self, address: str) -> None:
        """The pod is gone."""
        if not self._shared:
            self._taken.discard(int(ipaddress.ip_address(address)) - int(self._network.network_address))


def is_bindable(address: str) -> bool:
    """Whether this machine lets a program listen on `address`."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        try:
            probe.bind((address, 0))
        except OSError:
            return False
    return True
