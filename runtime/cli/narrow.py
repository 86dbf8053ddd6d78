"""Tables that fit a terminal whose lines must not fold: columns go, then the ends of words."""

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from runtime.cli.showing import Cell, Column, Row, Tone, plain

if TYPE_CHECKING:
    from rich.text import Text

_GAP = "  "
# A column of long words is cut to this before another column goes.
_CUT_CHARS_MIN = 14


@dataclass(frozen=True, slots=True, kw_only=True)
class _Placed:
    """A column with its cells and the width that it gets."""

    column: Column
    cells: Sequence[Cell]
    width: int

    @property
    def chars_min(self) -> int:
        """Return the width below which the column would rather go."""
        return min(self.width, _CUT_CHARS_MIN) if self.column.folds else self.width


def narrow_table(columns: Sequence[Column], rows: Sequence[Row], *, chars_max: int) -> str:
    """Return a line of headings and a line for each row, none longer than it may be."""
    from rich.text import Text  # noqa: PLC0415 - only for a terminal

    placed = _fitted([_placed(column, rows, at) for at, column in enumerate(columns)], chars_max)
    lines = [Text(_GAP).join(_heading(one) for one in placed)]
    lines += [
        Text(_GAP).join(_shown(one, one.cells[number]) for one in placed)
        for number in range(len(rows))
    ]
    return "".join(f"{ansi_of(line, chars_max=chars_max)}\n" for line in lines)


def ansi_of(text: "Text", *, chars_max: int) -> str:
    """Return one line as a terminal shows it, cut at its edge."""
    from rich.console import Console  # noqa: PLC0415 - only for a terminal

    text.truncate(chars_max, overflow="ellipsis")
    console = Console(file=sys.stdout, highlight=False, width=max(1, chars_max))
    with console.capture() as captured:
        console.print(text, end="", no_wrap=True, overflow="ignore", crop=False)
    return captured.get()


def _placed(column: Column, rows: Sequence[Row], at: int) -> _Placed:
    cells = []
    for row in rows:
        cell = row[at]
        shown = Cell(text=cell) if isinstance(cell, str) else cell
        cells.append(Cell(text=plain(shown.text), tone=shown.tone))
    width = max(len(column.name), *(len(cell.text) for cell in cells))
    return _Placed(column=column, cells=cells, width=width)


def _fitted(placed: list[_Placed], chars_max: int) -> list[_Placed]:
    """Return the columns for which there is room, those of long words as wide as is left."""
    while len(placed) > 1 and _chars_min(placed) > chars_max:
        last = max(range(1, len(placed)), key=lambda at: (placed[at].column.rank, at))
        placed = [one for at, one in enumerate(placed) if at != last]
    left = chars_max - _chars_min(placed)
    fitted = []
    for one in placed:
        more = max(0, min(left, one.width - one.chars_min))
        left -= more
        width = one.chars_min + more
        fitted.append(_Placed(column=one.column, cells=one.cells, width=width))
    return fitted


def _chars_min(placed: Sequence[_Placed]) -> int:
    return sum(one.chars_min for one in placed) + len(_GAP) * (len(placed) - 1)


def _heading(one: _Placed) -> "Text":
    return _shown(one, Cell(text=one.column.name, tone=Tone.FAINT))


def _shown(one: _Placed, cell: Cell) -> "Text":
    from rich.text import Text  # noqa: PLC0415 - only for a terminal

    text = cell.text if len(cell.text) <= one.width else f"{cell.text[: one.width - 1]}…"
    padded = text.rjust(one.width) if one.column.is_figure else text.ljust(one.width)
    return Text(padded, style=cell.tone.value)
