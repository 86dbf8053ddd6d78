"""Links and anchors of a page as it is shown where it lies."""

import re
from collections.abc import Iterator

_LINK = re.compile(r"\]\((?P<target>[^)\s]+)\)")
_HEADING = re.compile(r"^#+ (?P<title>.+)$", re.MULTILINE)
_FENCED = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)


def links_of(text: str) -> Iterator[str]:
    """Yield the targets of links to other files."""
    for found in _LINK.finditer(_FENCED.sub("", text)):
        if "://" not in found["target"] and not found["target"].startswith("#"):
            yield found["target"]


def anchors_of(text: str) -> set[str]:
    """Return the anchors of a page's headings."""
    return {
        re.sub(r"[^\w\- ]", "", found["title"].lower()).strip().replace(" ", "-")
        for found in _HEADING.finditer(_FENCED.sub("", text))
    }
