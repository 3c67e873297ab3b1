"""A gateway: it takes OpenAI requests, holds those for a sleeping model, wakes it, and forwards each at most once.

It knows Kubernetes only through the workers' control link and must never hold its credentials, wait without bound, replay a
request, or forget its last good routes. Routing, keys, admission, activation and balancing are free of the HTTP server's
types: a second, faster door will stand in front of the same rooms.
"""

from noctaya.gateway.settings import GatewaySettings

__all__ = ["GatewaySettings"]
