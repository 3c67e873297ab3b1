"""What can be wrong with the certificates that this process was given."""

from __future__ import annotations

from noctaya.errors import NoctayaError


class MaterialInvalid(NoctayaError):
    """A certificate, its key and the CAs to trust do not make sense together; never quotes any of them."""

    def __init__(self, entry: str, problem: str) -> None:
        super().__init__(f"{entry} {problem}")
        self.entry = entry


class MaterialMissing(NoctayaError):
    """No certificate has been there yet, so nothing can be said securely; and nothing is said otherwise."""

    def __init__(self, problem: str) -> None:
        super().__init__(
            f"no certificate for the control link yet: {problem}. The leading worker makes it; nothing goes over plaintext "
            "meanwhile."
        )
