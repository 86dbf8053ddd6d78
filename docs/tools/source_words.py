"""What the source says of each field of a class: the comments that stand above it."""

import ast
import inspect
import textwrap
from functools import cache


@cache
def comments_of(kind: type) -> dict[str, str]:
    """Return the comment above, or beside, each annotated field that a class itself declares."""
    source = textwrap.dedent(inspect.getsource(kind))
    lines = source.splitlines()
    (declared,) = ast.parse(source).body
    found: dict[str, str] = {}
    for node in getattr(declared, "body", ()):
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            words = _above(lines, node.lineno - 1) or _beside(lines[(node.end_lineno or 1) - 1])
            if words:
                found[node.target.id] = words
    return found


def _above(lines: list[str], index: int) -> str:
    first = index
    while first > 0 and lines[first - 1].strip().startswith("#"):
        first -= 1
    words = " ".join(line.strip().lstrip("# ").strip() for line in lines[first:index])
    return words if words.endswith((".", ";", ":")) or not words else f"{words}."


def _beside(line: str) -> str:
    _, mark, words = line.partition("  # ")
    return words.strip() if mark and not words.startswith(("noqa", "type:")) else ""
