"""How answers are shown: tables and fields to a person at a terminal, plain lines to a program.

What is not a terminal gets every cell in full and no control sequence, so that `cut`, `grep` and
files see the same whatever the width; rich is loaded only for a terminal.
"""

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

_GAP = "  "
# What folds is at least so wide; where not even that fits, each row becomes a paragraph.
_FOLDED_CHARS_MIN = 24
_NOTHING = frozenset({"", "-"})


class Tone(Enum):
    """What a cell means to who looks at it; never the only sign of it."""

    PLAIN = ""
    STRONG = "bold"
    FAINT = "dim"
    GOOD = "green"
    WARN = "yellow"
    BAD = "bold red"


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """A cell with what it means."""

    text: str
    tone: Tone = Tone.PLAIN


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """A column: figures stand at its right, long words may be folded.

    Where a table chooses its columns by the width of the terminal, the highest ranks go first.
    """

    name: str
    is_figure: bool = False
    folds: bool = False
    rank: int = 0


Row = Sequence[str | Cell]


def words(*names: str) -> tuple[Column, ...]:
    """Return columns of short words."""
    return tuple(Column(name=name) for name in names)


def figures(*names: str) -> tuple[Column, ...]:
    """Return columns of figures."""
    return tuple(Column(name=name, is_figure=True) for name in names)


def folding(name: str) -> Column:
    """Return a column of long words."""
    return Column(name=name, folds=True)


def plain(text: str) -> str:
    """Return a text that strangers wrote as one line which a terminal only shows."""
    return "".join(char if char.isprintable() else " " for char in text)


def table(columns: Sequence[Column], rows: Sequence[Row], *, none: str) -> str:
    """Return rows under their headings, or `none` where there are none."""
    if not rows:
        return note(none)
    shown = [[_cell(cell) for cell in row] for row in rows]
    if not sys.stdout.isatty():
        return _lines(columns, shown)
    console = _console()
    telling, shown = _telling(columns, shown)
    if _chars_min(telling, shown) > console.width:
        return "".join(_paragraph(console, telling, row) for row in shown)
    with console.capture() as captured:
        console.print(_rich_table(telling, shown))
    return _stripped(captured.get())


def fields(pairs: Sequence[tuple[str, str | Cell]]) -> str:
    """Return what is known of one thing, a line for each name."""
    width = max((len(name) for name, _ in pairs), default=0)
    shown = [(name, _cell(value)) for name, value in pairs]
    if not sys.stdout.isatty():
        return "".join(f"{name:<{width}}{_GAP}{cell.text}".rstrip() + "\n" for name, cell in shown)
    from rich.table import Table  # noqa: PLC0415 - only a terminal needs it

    grid = Table.grid(padding=(0, 2))
    grid.add_column(no_wrap=True, style=Tone.FAINT.value)
    grid.add_column(overflow="fold")
    for name, cell in shown:
        grid.add_row(name, _text(cell))
    console = _console()
    with console.capture() as captured:
        console.print(grid)
    return _stripped(captured.get())


def note(text: str, *, tone: Tone = Tone.PLAIN) -> str:
    """Return a sentence as a line, folded between words at a terminal."""
    if not sys.stdout.isatty():
        return f"{text}\n"
    console = _console()
    with console.capture() as captured:
        console.print(_text(Cell(text=text, tone=tone)), soft_wrap=False)
    return _stripped(captured.get())


def heading(text: str) -> str:
    """Return a line that begins a part."""
    return note(text, tone=Tone.STRONG)


class Progress(Protocol):
    """How far something long has come."""

    def advance(self, count: int = 1) -> None:
        """Count further parts as done."""
        ...

    def expect(self, total: int) -> None:
        """Say how many parts there are, once that is known."""
        ...


class _NoProgress:
    """Nobody looks."""

    def advance(self, count: int = 1) -> None:
        pass

    def expect(self, total: int) -> None:
        pass


@contextmanager
def progress(
    what: str, *, total: int | None = None, is_bytes: bool = False, is_on: bool = True
) -> Iterator[Progress]:
    """Show on standard error how far something has come, once it has taken half a second.

    What is no terminal is told nothing.
    """
    if not is_on or not sys.stderr.isatty():
        yield _NoProgress()
        return
    # Only for a terminal: it takes a third of the time of a short command.
    from runtime.cli.progress_bar import shown_progress  # noqa: PLC0415

    with shown_progress(what, total=total, is_bytes=is_bytes) as shown:
        yield shown


@contextmanager
def stages(first: str = "") -> Iterator[Callable[[str], None]]:
    """Show on standard error which stage something long is at; it is told what begins."""
    if not sys.stderr.isatty():
        yield lambda _what: None
        return
    from runtime.cli.progress_bar import shown_stages  # noqa: PLC0415 - only for a terminal

    with shown_stages(first) as tell:
        yield tell


def _cell(cell: str | Cell) -> Cell:
    if isinstance(cell, str):
        return Cell(text=plain(cell))
    return Cell(text=plain(cell.text), tone=cell.tone)


def _lines(columns: Sequence[Column], rows: Sequence[Sequence[Cell]]) -> str:
    """Return every row in a line, each column as wide as it must be."""
    names = [column.name for column in columns]
    texts = [names, *([cell.text for cell in row] for row in rows)]
    widths = [max(map(len, each)) for each in zip(*texts, strict=True)]
    return "".join(
        _GAP.join(
            text.rjust(width) if column.is_figure else text.ljust(width)
            for column, text, width in zip(columns, row, widths, strict=True)
        ).rstrip()
        + "\n"
        for row in texts
    )


def _telling(
    columns: Sequence[Column], rows: Sequence[Sequence[Cell]]
) -> tuple[list[Column], list[list[Cell]]]:
    """Return what says something: the first column, and those that are not empty in every row."""
    kept = [0]
    kept += [
        at for at in range(1, len(columns)) if any(row[at].text not in _NOTHING for row in rows)
    ]
    return [columns[at] for at in kept], [[row[at] for at in kept] for row in rows]


def _chars_min(columns: Sequence[Column], rows: Sequence[Sequence[Cell]]) -> int:
    """Return how wide a terminal must be for a table."""
    widths = (
        _folded_min(column, longest) if column.folds else longest
        for at, column in enumerate(columns)
        for longest in (max(len(column.name), *(len(row[at].text) for row in rows)),)
    )
    return sum(widths) + len(_GAP) * (len(columns) - 1)


def _folded_min(column: Column, longest: int) -> int:
    return max(len(column.name), min(_FOLDED_CHARS_MIN, longest))


def _console() -> "Console":
    """Return the terminal as rich sees it: NO_COLOR, TERM and its width are looked at there."""
    from rich.console import Console  # noqa: PLC0415 - only for a terminal

    return Console(file=sys.stdout, highlight=False)


def _text(cell: Cell) -> "Text":
    from rich.text import Text  # noqa: PLC0415 - only for a terminal

    return Text(cell.text, style=cell.tone.value, overflow="fold")


def _rich_table(columns: Sequence[Column], rows: Sequence[Sequence[Cell]]) -> "Table":
    from rich import box  # noqa: PLC0415 - only for a terminal
    from rich.table import Table  # noqa: PLC0415

    made = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0), show_edge=False)
    for at, column in enumerate(columns):
        longest = max(len(column.name), *(len(row[at].text) for row in rows))
        made.add_column(
            column.name,
            justify="right" if column.is_figure else "left",
            no_wrap=not column.folds,
            min_width=_folded_min(column, longest) if column.folds else longest,
            overflow="fold",
        )
    for row in rows:
        made.add_row(*map(_text, row))
    return made


def _paragraph(console: "Console", columns: Sequence[Column], row: Sequence[Cell]) -> str:
    """Return a row as its first cell, with the others named under it, as many a line as fit."""
    from rich.padding import Padding  # noqa: PLC0415 - only for a terminal
    from rich.text import Text  # noqa: PLC0415

    first, *others = row
    pairs = [
        Text.assemble((f"{column.name} ", Tone.FAINT.value), (cell.text, cell.tone.value))
        for column, cell in zip(columns[1:], others, strict=True)
        if cell.text not in _NOTHING
    ]
    lines: list[Text] = []
    for pair in pairs:
        if lines and len(lines[-1]) + len(_GAP) + len(pair) <= console.width - len(_GAP):
            lines[-1] = Text(_GAP).join((lines[-1], pair))
        else:
            lines.append(pair)
    with console.capture() as captured:
        head = first.text
        # A figure by itself says nothing; a name tells what it is.
        if columns[0].is_figure:
            head = f"{columns[0].name} {head}"
        console.print(Text(head, style=first.tone.value or Tone.STRONG.value))
        console.print(Padding(Text("\n").join(lines), (0, 0, 0, len(_GAP))))
    return _stripped(captured.get())


def _stripped(text: str) -> str:
    """Return lines without the blanks that rich fills them up with."""
    return "".join(f"{line.rstrip()}\n" for line in text.splitlines())
