"""The fenced blocks of the documentation: where they stand, and what a test does with each."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"

RUN, PARSE = "run", "parse"
_OPENING = re.compile(r"^(?P<indent> *)(?P<fence>`{3,})(?P<words>.*)$")


@dataclass(frozen=True, slots=True, kw_only=True)
class Snippet:
    """One fenced block. `words` are what stands after its language and tag."""

    path: Path
    line: int
    language: str
    tag: str
    words: tuple[str, ...]
    text: str

    @property
    def place(self) -> str:
        """Return where it stands, for messages."""
        return f"{self.path.relative_to(ROOT)}:{self.line}"


def pages() -> list[Path]:
    """Return the front page of the repository and every page of the site that is written here."""
    return [ROOT / "README.md", *sorted(DOCS.rglob("*.md"))]


def snippets_of(path: Path) -> list[Snippet]:
    """Return the fenced blocks of a page, in its order."""
    return list(_found(path, path.read_text(encoding="utf-8")))


def _found(path: Path, text: str) -> Iterator[Snippet]:
    opened: tuple[int, re.Match[str]] | None = None
    held: list[str] = []
    for number, line in enumerate(text.splitlines(), start=1):
        if opened is None:
            opening = _OPENING.match(line)
            if opening is not None:
                opened, held = (number, opening), []
            continue
        at, opening = opened
        if line.strip() == opening["fence"]:
            said = str(opening["words"]).split()
            yield Snippet(
                path=path,
                line=at,
                language=said[0] if said else "",
                tag=said[1] if said[1:] else "",
                words=tuple(said[2:]),
                text="\n".join(held) + "\n",
            )
            opened = None
        else:
            held.append(line.removeprefix(opening["indent"]))
