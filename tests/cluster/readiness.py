"""Asking over HTTP whether something is ready. Anything but a 200 is "not yet"; how long to ask is the caller's affair."""

import ssl
import urllib.error
import urllib.request
from pathlib import Path

from tests.cluster.certificates import Pair

ANSWER_SECONDS = 2.0


def trusting(authority: Path, identity: Pair | None = None) -> ssl.SSLContext:
    """A client's TLS context that trusts one authority, with a client certificate when given."""
    context = ssl.create_default_context(cafile=str(authority))
    if identity is not None:
        context.load_cert_chain(identity.certificate, identity.key)
    return context


def answers(url: str, context: ssl.SSLContext | None = None) -> bool:
    """The page is there."""
    try:
        with urllib.request.urlopen(url, timeout=ANSWER_SECONDS, context=context) as response:
            return bool(response.status == 200)
    except urllib.error.HTTPError as refused:
        refused.close()
        return False
    except OSError:
        return False
