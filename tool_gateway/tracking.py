"""What remains of the budgets, where a model sees it: in `_meta`, in a line, in a note."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from governor.amounts import Amounts, Unit
from governor.tracker import (
    BudgetLine,
    Tracker,
    line_text,
    note_text,
    pace_of,
    plenty_of,
    status_text,
)

_UNITS = {unit.value: unit for unit in Unit}
_OBSERVED = "observe"


@dataclass(frozen=True, slots=True, kw_only=True)
class Tracked:
    """How the budgets stand at one moment: `shown` in their JSON, `lines` as values."""

    shown: list[Mapping[str, object]]
    lines: tuple[BudgetLine, ...]
    now_ms: int

    def line(self, mode: Tracker) -> str | None:
        """Return the line under a tool's result, None where none is wanted."""
        return line_text(self.lines, now_ms=self.now_ms, mode=mode)

    def note(self, mode: Tracker) -> str | None:
        """Return the note for a model's instructions, None where none is wanted."""
        return note_text(self.lines, now_ms=self.now_ms, mode=mode)

    def status(self, holds: Mapping[str, Amounts] | None = None) -> str:
        """Return every budget in words; `holds` is by tool what a call of it holds."""
        return status_text(self.lines, now_ms=self.now_ms, holds=holds)

    def as_json(self) -> dict[str, object]:
        """Return the budgets with the word for the tightest of them."""
        plenty = plenty_of(self.lines)
        return {"budgets": self.shown, "left": None if plenty is None else plenty.value}


def tracked(standing: Iterable[Mapping[str, object]], *, now_ms: int) -> Tracked:
    """Return the budgets with the share that is left of each and the pace at which it goes."""
    shown = list(standing)
    lines = {place: line for place, each in enumerate(shown) if (line := _line_of(each))}
    # What a budget only observes, it never refuses: nobody need be told to spare it.
    limiting = tuple(line for place, line in lines.items() if shown[place].get("mode") != _OBSERVED)
    return Tracked(
        shown=[
            each if place not in lines else {**each, **_more(lines[place], limiting, now_ms)}
            for place, each in enumerate(shown)
        ],
        lines=limiting,
        now_ms=now_ms,
    )


def _more(line: BudgetLine, lines: tuple[BudgetLine, ...], now_ms: int) -> dict[str, object]:
    pace = pace_of(line, lines, now_ms=now_ms)
    return {
        "share_left": round(line.share_left, 3),
        "pace": None if pace is None else round(pace, 2),
        "left": line.plenty.value,
    }


def _line_of(shown: Mapping[str, object]) -> BudgetLine | None:
    unit, limit = _UNITS.get(str(shown.get("unit"))), _integer(shown, "limit")
    if unit is None or limit is None:
        return None
    return BudgetLine(
        budget_id=str(shown.get("budget_id", "")),
        scope=str(shown.get("scope", "")),
        unit=unit,
        limit=limit,
        used=_integer(shown, "used") or 0,
        reserved=_integer(shown, "reserved") or 0,
        starts_at_ms=_integer(shown, "starts_at_ms"),
        resets_at_ms=_integer(shown, "resets_at_ms"),
        every_ms=_integer(shown, "every_ms"),
        burst=_integer(shown, "burst"),
    )


def _integer(shown: Mapping[str, object], name: str) -> int | None:
    value = shown.get(name)
    return value if isinstance(value, int) else None
