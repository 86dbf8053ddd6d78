"""The overview as a terminal shows it: budgets, what runs, what was denied."""

from collections.abc import Mapping, Sequence
from typing import Any

from governor.amounts import Unit
from runtime.cli.admin_api import date_of
from runtime.cli.money import dollars
from runtime.cli.showing import Cell, Column, Row, Tone, figures, folding, note, table, words

_BUDGETS = (
    folding("budget"),
    folding("whom"),
    *words("unit", "used"),
    *figures("of", "left", "an hour", "empty in"),
)
_RUNNING = (*figures("for"), *words("kind"), folding("name"), folding("session"), *words("call"))
_DENIED = (*words("reason"), *figures("times"), *words("last"))
# A part has its name, its head, a rule and a line between it and the next.
_AROUND = 4
_ROWS_MIN = 3
_BAR_CHARS = 10
_MANY = 10_000
_SPARKS = " ▁▂▃▄▅▆▇█"
_STEPS = ((1_000_000_000, "G"), (1_000_000, "M"), (1_000, "k"))
_NEAR, _FULL = 0.8, 1.0
_SECOND_MS, _MINUTE_MS, _HOUR_MS, _DAY_MS = 1_000, 60_000, 3_600_000, 86_400_000


def overview_text(
    answer: Mapping[str, Any], *, trouble: str = "", lines_max: int | None = None
) -> str:
    """Return the overview, in at most so many lines.

    `trouble` says why it is not the latest.
    """
    parts: list[Part] = [
        ("Budgets", _BUDGETS, [_budget(one, answer["at_ms"]) for one in answer["budgets"]]),
        ("Running", _RUNNING, [_running(one, answer["at_ms"]) for one in answer["running"]]),
        ("Denied in the last hour", _DENIED, [_denied(one) for one in answer["denials"]]),
    ]
    head = _head(answer) + (note(trouble, tone=Tone.BAD) if trouble else "")
    if lines_max is not None:
        room = lines_max - head.count("\n") - _AROUND * len(parts)
        parts = _fitted(parts, room)
    told = "\n".join((head, *(_part(*part, answer) for part in parts)))
    return told if lines_max is None else _cut(told, lines_max)


Part = tuple[str, tuple[Column, ...], list[Row]]


def _fitted(parts: Sequence[Part], room: int) -> list[Part]:
    """Return parts that share a room: each has a few rows, and takes what others leave."""
    fair = [min(len(rows), _ROWS_MIN) for _, _, rows in parts]
    left = max(0, room - sum(fair))
    fitted: list[Part] = []
    for at, (name, columns, rows) in enumerate(parts):
        more = min(left, len(rows) - fair[at])
        left -= more
        fitted.append((name, columns, rows[: fair[at] + more]))
    return fitted


def _cut(text: str, lines_max: int) -> str:
    """Return what fits: where rows became paragraphs, the last of them do not."""
    return "\n".join(text.splitlines()[: max(1, lines_max)]) + "\n"


def _head(answer: Mapping[str, Any]) -> str:
    calls = sum(answer["calls"].values())
    waiting = answer["approvals_waiting"]
    told = note(
        f"{date_of(answer['at_ms'])}   {answer['running_total']} running, "
        f"{answer['sessions_open']} sessions open   {_span(answer)}: {calls} calls, "
        f"{dollars(answer['cost_microusd'])}",
        tone=Tone.STRONG,
    )
    if pace := sparks([minute["calls"] for minute in answer["minutes"]]):
        told += note(f"calls a minute {pace}", tone=Tone.FAINT)
    if waiting:
        calls_wait = "1 call waits" if waiting == 1 else f"{waiting} calls wait"
        told += note(f"{calls_wait} for a person: `flyball approve` shows them", tone=Tone.WARN)
    return told


def _span(answer: Mapping[str, Any]) -> str:
    """Return what the figures are of: less than an hour where very many calls ended."""
    span_ms = answer["at_ms"] - answer["since_ms"]
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
    if not rows:
        return note(f"{name}: none", tone=Tone.FAINT)
    total = {"Running": answer["running_total"]}.get(name, len(rows))
    more = f" ({len(rows)} of {total})" if total > len(rows) else ""
    return note(f"{name}{more}", tone=Tone.STRONG) + table(columns, rows, none="")


def _budget(one: Mapping[str, Any], now_ms: int) -> Row:
    most = one["limit"] if one["burst"] is None else one["burst"]
    taken = most - one["remaining"]
    share = 1.0 if most <= 0 else taken / most
    tone = Tone.BAD if share >= _FULL else Tone.WARN if share >= _NEAR else Tone.GOOD
    per_hour = one["per_hour"]
    marks = "" if one["mode"] == "enforce" else f" ({one['mode']})"
    return [
        f"{one['budget_id']}{marks}",
        one["session_name"] or one["subject"],
        one["unit"],
        Cell(text=bar(share), tone=tone),
        shown_amount(one["unit"], most),
        Cell(text=shown_amount(one["unit"], one["remaining"]), tone=tone),
        "-" if per_hour is None else shown_amount(one["unit"], per_hour),
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
