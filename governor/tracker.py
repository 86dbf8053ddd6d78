"""What remains of the budgets, in the few words that a model should read.

The tiers and the advice with them follow the Budget Tracker of "Budget-Aware Tool-Use Enables
Effective Agent Scaling" (arXiv:2511.17006): an agent that sees its budget spends it better.
"""

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import NamedTuple

from governor.amounts import Amounts, Unit

LINE_CHARS_MAX = 199
# What is elapsed of a window must be this much before a pace is more than noise.
_ELAPSED_MIN = 0.02
_MICRO_PER_USD = 1_000_000
_MICRO_PER_CENT = 10_000
_BUDGETS_IN_LINE = 2
_BUDGETS_IN_NOTE = 3
_THOUSANDS = ((1_000_000_000, "G"), (1_000_000, "M"), (10_000, "k"))
_DURATIONS_MS = (
    (172_800_000, 86_400_000, "d"),
    (7_200_000, 3_600_000, "h"),
    (120_000, 60_000, "min"),
    (1_000, 1_000, "s"),
)
_NOUNS = {
    "cost_microusd": "",
    "input_tokens": "input tokens",
    "output_tokens": "output tokens",
    "context_tokens": "context tokens",
    "tool_calls": "tool calls",
    "turns": "turns",
    "wall_ms": "running time",
    "cpu_ms": "processor time",
    "memory_mib_s": "MiB-seconds of memory",
    "io_bytes": "bytes of disk traffic",
    "egress_bytes": "bytes sent",
    "energy_mj": "mJ of energy",
    "probe_1": "counts of probe_1",
    "probe_2": "counts of probe_2",
    "probe_3": "counts of probe_3",
    "probe_4": "counts of probe_4",
    "memory_bytes": "bytes written to memory",
    "memory_writes": "experiences written",
    "memory_read_tokens": "tokens read from memory",
}
_TIMES = ("wall_ms", "cpu_ms")
_NARROWEST_FIRST = ("session", "agent", "tenant")


class Tracker(StrEnum):
    """Whether a line of text about the budgets is put before the model."""

    OFF = "off"
    LINE = "line"
    WHEN_LOW = "when_low"


class Plenty(StrEnum):
    """How much is left of the tightest budget: at least 70 %, 30 %, 10 %, or less."""

    HIGH = "HIGH"
    MEDIUM = "MEDIUM"
    LOW = "LOW"
    CRITICAL = "CRITICAL"

    @property
    def advice(self) -> str:
        """Return what to do about it."""
        return _ADVICE[self]


_LEGEND = "(pace: used share over elapsed share; above 1x the budget runs out before its time)"
_FLOORS = ((0.7, Plenty.HIGH), (0.3, Plenty.MEDIUM), (0.1, Plenty.LOW))
_ADVICE = {
    Plenty.HIGH: "There is room to explore and to compare.",
    Plenty.MEDIUM: "Be selective: take the most promising step first.",
    Plenty.LOW: "Only what the task still needs, one focused call at a time.",
    Plenty.CRITICAL: "Almost nothing is left: finish with what you have.",
}


class BudgetLine(NamedTuple):
    """How one unit of one budget stands; the window's ends are None where it has none.

    A rate has a `burst`, and its limit comes back in every `every_ms`.
    """

    budget_id: str
    scope: str
    unit: Unit
    limit: int
    used: int
    reserved: int
    starts_at_ms: int | None
    resets_at_ms: int | None
    every_ms: int | None = None
    burst: int | None = None

    @property
    def most(self) -> int:
        """Return what there is to use when nothing is used."""
        return self.limit if self.burst is None else self.burst

    @property
    def remaining(self) -> int:
        """Return what may still be used, none after an overrun."""
        return max(0, self.most - self.used - self.reserved)

    @property
    def share_left(self) -> float:
        """Return the remaining part of the limit, 0 to 1."""
        return self.remaining / self.most if self.most else 0.0

    @property
    def plenty(self) -> Plenty:
        """Return how much that is, in one word."""
        share = self.share_left
        for floor, word in _FLOORS:
            if share >= floor:
                return word
        return Plenty.CRITICAL


def pace_of(line: BudgetLine, lines: Sequence[BudgetLine], *, now_ms: int) -> float | None:
    """Return the used share over the elapsed share: above 1 it runs out before its time.

    Time is the window's, or the limit of turns where the window never ends; None where
    neither says how far things are.
    """
    elapsed = _elapsed_share(line, lines, now_ms=now_ms)
    if elapsed is None or elapsed < _ELAPSED_MIN:
        return None
    return (1 - line.share_left) / elapsed


def plenty_of(lines: Sequence[BudgetLine]) -> Plenty | None:
    """Return how much is left of the tightest budget; None where there is no budget."""
    ordered = tightest_first(lines)
    return ordered[0].plenty if ordered else None


def tightest_first(lines: Sequence[BudgetLine]) -> list[BudgetLine]:
    """Return the budgets, the one that runs out first before the others."""
    return sorted(
        lines,
        key=lambda line: (
            line.share_left,
            _NARROWEST_FIRST.index(line.scope) if line.scope in _NARROWEST_FIRST else -1,
            line.budget_id,
            line.unit,
        ),
    )


def line_text(lines: Sequence[BudgetLine], *, now_ms: int, mode: Tracker) -> str | None:
    """Return the line under a tool's result, below 200 characters; None where none is wanted."""
    plenty = plenty_of(lines)
    if plenty is None or not _is_due(plenty, mode):
        return None
    parts: list[str] = []
    for line in tightest_first(lines)[:_BUDGETS_IN_LINE]:
        part = _told(line, lines, now_ms=now_ms, briefly=bool(parts))
        if len(_bracketed(plenty, [*parts, part])) <= LINE_CHARS_MAX:
            parts.append(part)
    return _bracketed(plenty, parts)


def note_text(lines: Sequence[BudgetLine], *, now_ms: int, mode: Tracker) -> str | None:
    """Return the note for a model's instructions; None where none is wanted."""
    plenty = plenty_of(lines)
    if plenty is None or not _is_due(plenty, mode):
        return None
    told = [_told(line, lines, now_ms=now_ms) for line in tightest_first(lines)[:_BUDGETS_IN_NOTE]]
    return f"Budget {plenty}: {'; '.join(told)}. {plenty.advice}"


def too_small_for(
    lines: Sequence[BudgetLine], holds: Mapping[str, Amounts]
) -> list[tuple[str, BudgetLine, int]]:
    """Return each tool and budget where what a call holds by its rule is more than remains."""
    return [
        (tool, line, held.of(line.unit))
        for tool, held in holds.items()
        for line in tightest_first(lines)
        if held.of(line.unit) > line.remaining
    ]


def status_text(
    lines: Sequence[BudgetLine], *, now_ms: int, holds: Mapping[str, Amounts] | None = None
) -> str:
    """Return every budget in words, the tightest first; `holds` is by tool what a call holds."""
    plenty = plenty_of(lines)
    if plenty is None:
        return "No budget limits this session."
    told = [
        f"- {line.plenty}: {line.scope} budget {line.budget_id}: "
        f"{_told(line, lines, now_ms=now_ms)}"
        for line in tightest_first(lines)
    ]
    unfit = [
        f"- {tool}: by its rule a call holds {amount_words(line.unit, held)} {line.unit}, and "
        f"{line.budget_id} has {amount_words(line.unit, line.remaining)} left: unless it was "
        "learned that such calls need less, the next one is refused"
        for tool, line, held in too_small_for(lines, holds or {})
    ]
    advice = "Not every tool can still be called." if unfit else plenty.advice
    head = advice if unfit and plenty is Plenty.HIGH else f"Budget {plenty}. {advice}"
    return "\n".join([head, *unfit, *told, _LEGEND])


def amount_words(unit: Unit, amount: int) -> str:
    """Return an amount as people write it."""
    if unit is Unit.COST_MICROUSD:
        return _dollars(amount)
    if unit.value in _TIMES:
        return duration_words(amount)
    for size, letter in _THOUSANDS:
        if amount >= size:
            step = size if size > _THOUSANDS[-1][0] else 1_000
            return f"{amount // (step // 10) / 10:g}{letter}"
    return str(amount)


def used_words(unit: Unit, *, used: int, limit: int) -> str:
    """Return how much of a limit is used."""
    noun = _NOUNS.get(unit.value, unit.value)
    told = f"{amount_words(unit, used)} of {amount_words(unit, limit)}"
    return f"{told} {noun} used" if noun else f"{told} used"


def duration_words(span_ms: int) -> str:
    """Return a span of time in its largest fitting unit, rounded down."""
    for least, size, word in _DURATIONS_MS:
        if span_ms >= least:
            return f"{span_ms // size} {word}"
    return f"{span_ms} ms"


def _told(
    line: BudgetLine, lines: Sequence[BudgetLine], *, now_ms: int, briefly: bool = False
) -> str:
    left, limit = amount_words(line.unit, line.remaining), amount_words(line.unit, line.limit)
    noun = _NOUNS.get(line.unit.value, line.unit.value)
    noun = f" {noun}" if noun else ""
    if line.every_ms is not None:
        most, time = amount_words(line.unit, line.most), duration_words(line.every_ms)
        return f"{left} of {most}{noun} may pass now, {limit} in {time}"
    text = f"{left} of {limit}{noun} left ({int(line.share_left * 100)}%)"
    if briefly:
        return text
    pace = pace_of(line, lines, now_ms=now_ms)
    if pace is not None:
        text += f", pace {pace:.1f}x"
    if line.resets_at_ms is not None:
        # Rounded up to the second, so that who waits that long does not come too early.
        wait_ms = -(-max(0, line.resets_at_ms - now_ms) // 1000) * 1000
        text += f", resets in {duration_words(wait_ms)}"
    return text


def _bracketed(plenty: Plenty, parts: Sequence[str]) -> str:
    return f"[budget {plenty}: {'; '.join(parts)}]"


def _is_due(plenty: Plenty, mode: Tracker) -> bool:
    if mode is Tracker.WHEN_LOW:
        return plenty in (Plenty.LOW, Plenty.CRITICAL)
    return mode is Tracker.LINE


def _elapsed_share(line: BudgetLine, lines: Sequence[BudgetLine], *, now_ms: int) -> float | None:
    if line.starts_at_ms is not None and line.resets_at_ms is not None:
        length_ms = line.resets_at_ms - line.starts_at_ms
        return min(1.0, (now_ms - line.starts_at_ms) / length_ms) if length_ms > 0 else None
    if line.resets_at_ms is not None or line.unit is Unit.TURNS:
        return None
    turns = [other for other in lines if other.unit is Unit.TURNS and other.scope == line.scope]
    return 1 - turns[0].share_left if turns else None


def _dollars(microusd: int) -> str:
    """Return an amount of money, rounded down: what is left is never overstated."""
    whole, part = divmod(microusd, _MICRO_PER_USD)
    if whole:
        return f"${whole}.{part // _MICRO_PER_CENT:02d}"
    digits = f"{part:06d}"
    # A cent and more is told in four digits, less than a cent in all six.
    return f"$0.{digits[:4] if part >= _MICRO_PER_CENT else digits}"
