"""Rewrites protoc's absolute imports between generated modules to relative ones, so that they live inside a package.

Run by `make proto`: `python tests/wire/relative_imports.py noctaya/wire/gen`.
"""

import re
import sys
from pathlib import Path

ABSOLUTE = re.compile(r"^import (\w+_pb2) as (\w+)$", re.MULTILINE)


def rewrite(directory: Path) -> list[Path]:
    """Rewrite every generated module below `directory`; returns the files that changed."""
    changed = []
    for path in sorted(directory.glob("*_pb2*.py")):
        text = path.read_text()
        relative = ABSOLUTE.sub(r"from . import \1 as \2", text)
        if relative != text:
            path.write_text(relative)
            changed.append(path)
    return changed


if __name__ == "__main__":
    rewrite(Path(sys.argv[1]))
