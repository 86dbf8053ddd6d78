"""How the generated pages are written down."""

from collections.abc import Iterable, Sequence


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table; what would end a cell is escaped."""
    lines = [_row(head), _row(["---"] * len(head))]
    lines.extend(_row([_cell(cell) for cell in row]) for row in rows)
    return "\n".join(lines)


def page(title: str, made_from: str, *parts: str) -> str:
    """Return a page that says of itself how it is made."""
    note = (
        f"*Made by `python -m docs.tools.reference` from {made_from}; "
        "a test fails where it is out of date.*"
    )
    return "\n\n".join([f"# {title}", note, *(part.strip("\n") for part in parts if part)]) + "\n"


def code(text: str) -> str:
    """Return a code span, whatever backticks are in the text."""
    fence = "``" if "`" in text else "`"
    return f"{fence}{text}{fence}"


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _cell(text: str) -> str:
    return text.replace("\n", " ").replace("|", "\\|").strip()
