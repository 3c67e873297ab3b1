"""Where a role finds its certificate for the control link, and whether it speaks TLS at all."""

from __future__ import annotations

import logging
from pathlib import Path

from noctaya.settings import SettingsGroup
from noctaya.wire.material import MountedMaterial, Source

log = logging.getLogger(__name__)


class TlsSettings(SettingsGroup):
    """Mutual TLS on the control link."""

    directory: str = ""
    """Where tls.crt, tls.key and ca.crt are mounted; read again when they change. Empty: the control link is plaintext."""


def mounted(settings: TlsSettings) -> MountedMaterial | None:
    """What is mounted; None, and said aloud, where the link is plaintext by setting."""
    if settings.directory:
        return MountedMaterial(Path(settings.directory))
    log.warning(
        "THE CONTROL LINK IS PLAINTEXT: whoever reaches it reads key digests and speaks for anybody. Set NOCTAYA_TLS__DIRECTORY "
        "unless this is one machine's loopback"
    )
    return None


def problem_of(source: Source | None) -> str | None:
    """What is wrong with the newest certificate of `source`, looked at now; None when nothing is, or the link is plaintext."""
    if source is None:
        return None
    source.current()
    return source.problem
