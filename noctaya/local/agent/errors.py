"""Why the agent could not do something for a pod; each becomes a waiting reason, an event or a stopped start."""

from noctaya.errors import NoctayaError


class AgentError(NoctayaError):
    """The root of the node agent's errors."""


class NotStarted(AgentError):
    """A container was not started. `reason` is what kubectl shows as the container's waiting reason."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason
        self.message = message


class VolumeNotReady(AgentError):
    """A volume of the pod cannot be made yet; it is tried again, as a kubelet does after `FailedMount`."""


class LogNotFound(AgentError):
    """Somebody asked for the log of a container that never ran here."""
