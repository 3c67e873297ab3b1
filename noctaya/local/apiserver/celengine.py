"""The CEL evaluator, loaded without its command line.

`import cel` of common-expression-language 0.10 also imports `cel.cli` and with it prompt_toolkit, rich and pygments: about
a second and 20 MB for a program that only evaluates. So its extension module is loaded alone, and the plain import is used
where that cannot be found. The extension cannot be loaded twice in a process: everything that evaluates CEL imports it from here.
"""

from __future__ import annotations

import importlib
from importlib.machinery import EXTENSION_SUFFIXES, ExtensionFileLoader
from importlib.util import find_spec, module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any


def _load() -> Any:
    package = find_spec("cel")
    places = package.submodule_search_locations if package else None
    for place in places or ():
        for suffix in EXTENSION_SUFFIXES:
            path = Path(place) / f"cel{suffix}"
            if path.exists():
                spec = spec_from_file_location("cel", path, loader=ExtensionFileLoader("cel", str(path)))
                if spec is not None and spec.loader is not None:
                    module = module_from_spec(spec)
                    spec.loader.exec_module(module)
                    return module
    return importlib.import_module("cel")


cel = _load()
