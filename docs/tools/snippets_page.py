"""The page that counts the snippets of the documentation by what a test does with them."""

from collections import Counter
from pathlib import Path

from docs.tools.markdown import code, page, table
from docs.tools.snippets import DOCS, PARSE, ROOT, RUN, pages, snippets_of

NAME = "snippets.md"


def snippets_page() -> str:
    """Return the page."""
    counts = {path: Counter(found.tag for found in snippets_of(path)) for path in pages()}
    rows = [
        (_shown(path), str(count[RUN]), str(count[PARSE]))
        for path, count in counts.items()
        if count
    ]
    total = sum(counts.values(), Counter[str]())
    rows.append(("**all**", f"**{total[RUN]}**", f"**{total[PARSE]}**"))
    intro = (
        f"{total[RUN]} snippets of these pages are executed by `tests/docs` and {total[PARSE]} are "
        "checked without being executed.\n\n"
        "*run*: commands and programs are executed page by page against a real sidecar with a "
        "scripted model behind its tiers; where a snippet shows what a command prints, that is "
        "compared, and … stands for what differs from time to time.\n\n"
        "*parse*: a TOML snippet is read as a whole `flyball.toml` by the code that reads yours, "
        "JSON, YAML, Python and shell have to be well-formed. What takes an engine, a cluster or "
        "another maker's program is *parse*."
    )
    return page("Snippets", "the pages", intro, table(("page", "run", "parse"), rows))


def _shown(path: Path) -> str:
    if path.is_relative_to(DOCS):
        name = path.relative_to(DOCS).as_posix()
        return f"[{name}](../{name})"
    return code(path.relative_to(ROOT).as_posix())
