"""The overview as a terminal shows it: budgets, what runs, what was denied."""

import shutil
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from governor.amounts import Unit
from runtime.cli.admin_api import date_of
from runtime.cli.money import dollars
from runtime.cli.narrow import narrow_table
from runtime.cli.showing import Cell, Column, Row, Tone, note, table

_BUDGETS = (
    Column(name="budget", folds=True),
    Column(name="whom", folds=True, rank=6),
    Column(name="unit", rank=3),
    Column(name="used", rank=1),
    Column(name="of", is_figure=True, rank=7),
    Column(name="left", is_figure=True, rank=2),
    Column(name="last hour", is_figure=True, rank=5),
    Column(name="empty in", is_figure=True, rank=4),
)
_RUNNING = (
    Column(name="for", is_figure=True),
    Column(name="kind", rank=3),
    Column(name="name", folds=True, rank=1),
    Column(name="session", folds=True, rank=2),
    Column(name="call", rank=4),
)
_DENIED = (
    Column(name="reason"),
    Column(name="times", is_figure=True, rank=1),
    Column(name="last", rank=2),
)
# A part of a screen has its name, its head, and a line between it and the next.
_AROUND = 3
_ROWS_MIN = 3
# A lower screen has its lines for budgets.
_LINES_SHORT = 20
# What stands around the columns of calls a minute; lines that nobody folds are so long.
_AROUND_SPARKS = len("calls a minute  (at most 99999)")
_CHARS_OF_LINES = 1_000
_BAR_CHARS = 10
_MANY = 10_000
_SPARKS = " ▁▂▃▄▅▆▇█"
_STEPS = ((1_000_000_000, "G"), (1_000_000, "M"), (1_000, "k"))
_NEAR, _FULL = 0.8, 1.0
_SECOND_MS, _MINUTE_MS, _HOUR_MS, _DAY_MS = 1_000, 60_000, 3_600_000, 86_400_000


Part = tuple[str, tuple[Column, ...], list[Row]]


def overview_text(answer: Mapping[str, Any]) -> str:
    """Return the overview, all of it."""
    parts = (_part(*part, answer) for part in _parts(answer))
    is_terminal = sys.stdout.isatty()
    chars_max = shutil.get_terminal_size().columns if is_terminal else _CHARS_OF_LINES
    return "\n".join((_head(answer, chars_max=chars_max), *parts))


def overview_screen(
    answer: Mapping[str, Any], *, lines_max: int, chars_max: int, below: str, trouble: str = ""
) -> str:
    """Return the overview in so many lines, none of which folds, with `below` as the last.

    `trouble` says why it is not the latest. What there is no room for is left out: columns, then
    rows, then whole parts from the last on; the head stays.
    """
    head = _head(answer, chars_max=chars_max, is_short=lines_max < _LINES_SHORT) + (
        note(trouble, tone=Tone.BAD) if trouble else ""
    )
    room = lines_max - head.count("\n") - 2
    told = [head.rstrip("\n")]
    for name, columns, rows in _fitted(_parts(answer), room):
        told.append("")
        told.append(_named(name, rows, answer).rstrip("\n"))
        if rows:
            told.append(narrow_table(columns, rows, chars_max=chars_max).rstrip("\n"))
    lines = "\n".join(told).splitlines()[: max(0, lines_max - 1)]
    return "\n".join((*lines, note(below, tone=Tone.FAINT).splitlines()[0])) + "\n"


def _parts(answer: Mapping[str, Any]) -> list[Part]:
    budgets = [
        replace(column, name=_span(answer, "charges_since_ms"))
        if column.name == "last hour"
        else column
        for column in _BUDGETS
    ]
    return [
        ("Budgets", tuple(budgets), [_budget(one, answer["at_ms"]) for one in answer["budgets"]]),
        ("Running", _RUNNING, [_running(one, answer["at_ms"]) for one in answer["running"]]),
        ("Denied in the last hour", _DENIED, [_denied(one) for one in answer["denials"]]),
    ]


def _fitted(parts: Sequence[Part], room: int) -> list[Part]:
    """Return the parts for which there is room: each has a few rows, and what others leave."""
    for rows_min in range(_ROWS_MIN, 0, -1):
        fair = [min(len(rows), rows_min) for _, _, rows in parts]
        around = sum(_AROUND if count else _AROUND - 1 for count in fair)
        if sum(fair) + around <= room:
            break
    else:
        return _fitted(parts[:-1], room) if parts else []
    left = room - sum(fair) - around
    fitted: list[Part] = []
    for at, (name, columns, rows) in enumerate(parts):
        more = min(left, len(rows) - fair[at])
        left -= more
        fitted.append((name, columns, rows[: fair[at] + more]))
    return fitted


def _head(answer: Mapping[str, Any], *, chars_max: int, is_short: bool = False) -> str:
    calls = counted(sum(answer["calls"].values()), "call")
    sessions = counted(answer["sessions_open"], "session")
    waiting = answer["approvals_waiting"]
    told = note(
        f"{date_of(answer['at_ms'])}  {answer['running_total']} running, "
        f"{sessions} open  {_span(answer)}: {calls}, "
        f"{dollars(answer['cost_microusd'])}",
        tone=Tone.STRONG,
    )
    # The latest of them, on one line.
    shown = max(1, chars_max - _AROUND_SPARKS)
    pace = sparks([minute["calls"] for minute in answer["minutes"]][-shown:])
    if pace and not is_short:
        told += note(f"calls a minute {pace}", tone=Tone.FAINT)
    if waiting:
        calls_wait = "1 call waits" if waiting == 1 else f"{waiting} calls wait"
        told += note(f"{calls_wait} for a person: `flyball approve` shows them", tone=Tone.WARN)
    return told


def _span(answer: Mapping[str, Any], since: str = "since_ms") -> str:
    """Return what the figures are of: less than an hour where very many calls ended."""
    span_ms = answer["at_ms"] - answer.get(since, answer["since_ms"])
    return "last hour" if span_ms >= _HOUR_MS else f"last {lasting(span_ms)}"


def sparks(counts: Sequence[int], *, unit: str = "") -> str:
    """Return a line of columns, the highest for the most; nothing where there is nothing."""
    most = max(counts, default=0)
    if not most:
        return ""
    top = len(_SPARKS) - 1
    return (
        "".join(_SPARKS[-(-count * top // most)] for count in counts) + f" (at most {most}{unit})"
    )


def _part(
    name: str, columns: tuple[Column, ...], rows: list[Row], answer: Mapping[str, Any]
) -> str:
    return _named(name, rows, answer) + (table(columns, rows, none="") if rows else "")


def _named(name: str, rows: list[Row], answer: Mapping[str, Any]) -> str:
    """Return the line over a part, which says where not all of it is shown."""
    if not rows:
        return note(f"{name}: none", tone=Tone.FAINT)
    totals = {
        "Running": answer["running_total"],
        "Budgets": len(answer["budgets"]),
        "Denied in the last hour": len(answer["denials"]),
    }
    more = f" ({len(rows)} of {totals[name]})" if totals[name] > len(rows) else ""
    return note(f"{name}{more}", tone=Tone.STRONG)


def _budget(one: Mapping[str, Any], now_ms: int) -> Row:
    most = one["limit"] if one["burst"] is None else one["burst"]
    taken = most - one["remaining"]
    share = 1.0 if most <= 0 else taken / most
    tone = Tone.BAD if share >= _FULL else Tone.WARN if share >= _NEAR else Tone.GOOD
    last_hour = one.get("last_hour")
    marks = "" if one["mode"] == "enforce" else f" ({one['mode']})"
    return [
        f"{one['budget_id']}{marks}",
        one["session_name"] or one["subject"],
        one["unit"],
        Cell(text=bar(share), tone=tone),
        shown_amount(one["unit"], most),
        Cell(text=shown_amount(one["unit"], one["remaining"]), tone=tone),
        "-" if last_hour is None else shown_amount(one["unit"], last_hour),
        _emptying(one, now_ms),
    ]


def _emptying(one: Mapping[str, Any], now_ms: int) -> str | Cell:
    if one["remaining"] <= 0:
        return Cell(text="empty", tone=Tone.BAD)
    if one["empties_at_ms"] is None:
        return "-"
    return Cell(text=lasting(one["empties_at_ms"] - now_ms), tone=Tone.WARN)


def _running(one: Mapping[str, Any], now_ms: int) -> Row:
    return [
        lasting(now_ms - one["started_at_ms"]),
        one["kind"],
        one["name"] if one["forwarded"] else f"{one['name']} (waits)",
        one["session_name"] or one["session"],
        one["call_id"],
    ]


def _denied(one: Mapping[str, Any]) -> Row:
    return [one["reason"], str(one["count"]), date_of(one["last_at_ms"])]


def bar(share: float) -> str:
    """Return how much of something is used, as a bar and in hundredths."""
    # Only what is used up is a full bar.
    full = max(0, min(_BAR_CHARS, int(share * _BAR_CHARS)))
    return f"{'█' * full}{'░' * (_BAR_CHARS - full)} {100 * share:3.0f} %"


def shown_amount(unit: str, amount: int) -> str:
    """Return an amount in few characters; money in dollars."""
    if unit == Unit.COST_MICROUSD:
        return f"-{dollars(-amount)}" if amount < 0 else dollars(amount)
    if abs(amount) < _MANY:
        return str(amount)
    for step, name in _STEPS:
        if abs(amount) >= step:
            return f"{amount / step:.1f} {name}"
    return str(amount)


def lasting(span_ms: int) -> str:
    """Return a time in its two largest units."""
    span_ms = max(0, span_ms)
    if span_ms < _MINUTE_MS:
        return f"{span_ms / _SECOND_MS:.1f} s"
    if span_ms < _HOUR_MS:
        return f"{span_ms // _MINUTE_MS} min {span_ms % _MINUTE_MS // _SECOND_MS} s"
    if span_ms < _DAY_MS:
        return f"{span_ms // _HOUR_MS} h {span_ms % _HOUR_MS // _MINUTE_MS} min"
    return f"{span_ms // _DAY_MS} d {span_ms % _DAY_MS // _HOUR_MS} h"


def counted(count: int, noun: str) -> str:
    """Return how many there are of something, in words."""
    return f"1 {noun}" if count == 1 else f"{count} {noun}s"
