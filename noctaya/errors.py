"""The root of every error that Noctaya raises on purpose.

A message says what happened, to which object, and what to do next. Each package has its own `errors.py` below this root;
anything else that escapes is a defect.
"""


class NoctayaError(Exception):
    """Something that Noctaya understands went wrong; the message is fit for a person."""


class UserError(NoctayaError):
    """A person's mistake (a spec, a flag, a setting): shown once, never retried hot."""
