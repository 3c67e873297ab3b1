"""Logging for every role: one line an event, text for people or JSON for machines, and never a secret.

Values go into `extra={"context": {...}}`, not into the message, so that a log store can search them. A logger is
`logging.getLogger(__name__)`; only this module configures handlers.
"""

import json
import logging
import sys
import time
from typing import Any, TextIO

from noctaya.settings import InvalidSettings, LogSettings

LEVELS = {"debug": logging.DEBUG, "info": logging.INFO, "warning": logging.WARNING, "error": logging.ERROR}


def context(**values: object) -> dict[str, Any]:
    """The `extra=` of a log call: `log.info("gateway joined", extra=context(pod=pod))`."""
    return {"context": values}


class TextFormatter(logging.Formatter):
    """`12:34:56.789 info  workers.reconcile  applied  name=ai/qwen kind=Deployment`."""

    def format(self, record: logging.LogRecord) -> str:
        clock = time.strftime("%H:%M:%S", time.localtime(record.created)) + f".{int(record.msecs):03d}"
        values = " ".join(f"{key}={value}" for key, value in getattr(record, "context", {}).items())
        name = record.name.removeprefix("noctaya.")
        line = f"{clock} {record.levelname.lower():7} {name}  {record.getMessage()}  {values}".rstrip()
        return f"{line}\n{self.formatException(record.exc_info)}" if record.exc_info else line


class JsonFormatter(logging.Formatter):
    """One JSON object a line: time (RFC 3339, UTC), level, logger, message, and the context's keys."""

    def format(self, record: logging.LogRecord) -> str:
        seconds = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
        entry: dict[str, object] = {
            "time": f"{seconds}.{int(record.msecs):03d}Z",
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            **getattr(record, "context", {}),
        }
        if record.exc_info:
            entry["exception"] = self.formatException(record.exc_info)
        return json.dumps(entry, default=str)


def configure(settings: LogSettings, stream: TextIO = sys.stderr) -> None:
    """Send every logger of this process to `stream`; call once, first thing in `main`.

    Raises:
        InvalidSettings: unknown level or format.
    """
    if settings.level not in LEVELS:
        raise InvalidSettings(f"NOCTAYA_LOG__LEVEL is {settings.level!r}; choose one of {', '.join(LEVELS)}.")
    formats = {"text": TextFormatter, "json": JsonFormatter}
    chosen = settings.format if settings.format != "auto" else ("text" if stream.isatty() else "json")
    if chosen not in formats:
        raise InvalidSettings(f"NOCTAYA_LOG__FORMAT is {settings.format!r}; choose auto, text or json.")
    handler = logging.StreamHandler(stream)
    handler.setFormatter(formats[chosen]())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(LEVELS[settings.level])
