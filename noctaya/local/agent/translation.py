"""What a container is told: `$(VAR)` references, as Kubernetes resolves them, then mount paths.

Programs run without a file system of their own, so a volume never appears at its mountPath. Instead every command word,
argument and env value of the pod (not the image's own) that *is* a mountPath, or starts with one at a path boundary, is rewritten to the real directory; the same after a `=`
(`--model=/models/x`) and, for values that list several, after a `:` or `,` between absolute paths. A program that has a
mount path compiled in does not find its volume here. `/dev/shm` is left alone: it is the machine's own. The container's
terminationMessagePath is rewritten in the same way.
"""

import re
from collections.abc import Mapping
from pathlib import Path

REFERENCE = re.compile(r"\$(?:\$|\(([^()$\s]+)\))")


def expand(text: str, variables: Mapping[str, str]) -> str:
    """Replace `$(NAME)` by its value; an unknown name stays as written, `$$` becomes `$`."""

    def value(found: re.Match[str]) -> str:
        name = found.group(1)
        if name is None:
            return "$"
        return variables.get(name, found.group(0))

    return REFERENCE.sub(value, text)


class PathTranslation:
    """Mount paths of one container and the real directories behind them."""

    def __init__(self, paths: Mapping[str, Path]) -> None:
        self._paths = {mounted: str(real) for mounted, real in paths.items() if mounted != "/dev/shm"}
        longest_first = sorted(self._paths, key=len, reverse=True)
        choices = "|".join(re.escape(path) for path in longest_first)
        self._pattern = (
            re.compile(rf"(?P<before>^|[=:,])(?P<path>{choices})(?=/|$|[:,])") if choices else None
        )

    def __call__(self, text: str) -> str:
        """`text` with every mount path replaced."""
        if self._pattern is None:
            return text
        return self._pattern.sub(lambda found: found.group("before") + self._paths[found.group("path")], text)
