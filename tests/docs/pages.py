"""What the documentation says: its pages, the commands and names in them, and where its links lead.

Names are looked for in code only (fenced blocks and `spans`), except metrics and variables, which are unmistakable anywhere.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[2]
RUNBOOKS = ROOT / "docs" / "runbooks"
INDEX = RUNBOOKS / "README.md"
RULES = ROOT / "deploy" / "kustomize" / "components" / "prometheus" / "rules.yaml"

FENCE = re.compile(r"^```[^\n]*\n(.*?)^```", re.DOTALL | re.MULTILINE)
SPAN = re.compile(r"`([^`\n]+)`")
LINK = re.compile(r"\]\(([^)\s]+)\)")
HEADING = re.compile(r"^#+ +(.+)$", re.MULTILINE)


def pages() -> dict[str, Path]:
    """Every page by its path from the root."""
    found = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    return {path.relative_to(ROOT).as_posix(): path for path in found}


def alerts() -> list[dict[str, Any]]:
    """Every alert of the prometheus component."""
    groups = yaml.safe_load(RULES.read_text())["spec"]["groups"]
    return [rule for group in groups for rule in group["rules"] if "alert" in rule]


def code_of(text: str) -> str:
    """What a page shows as code: its fenced blocks, then its spans, one a line."""
    return "\n".join([*FENCE.findall(text), *SPAN.findall(FENCE.sub("", text))])


def links_of(text: str) -> Iterator[tuple[str, str]]:
    """(path, anchor) of every link that stays in the project; an empty path is the page itself."""
    for link in LINK.findall(FENCE.sub("", text)):
        if not re.match(r"[a-z][a-z0-9+.-]*:", link):
            path, _, anchor = link.partition("#")
            yield path, anchor


def anchors_of(text: str) -> set[str]:
    """The anchors that a page's headings make, as its host writes them."""
    headings = HEADING.findall(FENCE.sub("", text))
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}
