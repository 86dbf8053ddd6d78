"""Turn control of a live session: how many turns it may take, and when it is given more.

What a run deserves is decided by the functions of `governor.turns`, which a replay judges too.
Here they meet what only a live session has: progress that can be seen, and budgets that bound it.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import assert_never

from governor.amounts import Unit
from governor.denial import DenialReason, Denied, Remedy, RemedyAction
from governor.turn_policy import TurnMode, TurnTerms
from governor.turn_progress import Progress
from governor.turns import Growth, Outlook, PastRun, extension_turns, outlooks, percentile_limit

EXTEND_TOOL = "governor_extend"
# How strongly a class's history leans on itself smoothed: one history has nobody to borrow from.
_BORROWED_RUNS = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class FinishedSession:
    """A session of the past; `is_solved` is None where nobody said how it went."""

    turns: int
    cost_microusd: int = 0
    is_solved: bool | None = None
    was_cut: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnStanding:
    """Where a session stands; `base` None does not limit."""

    base: int | None
    used: int
    extended: int = 0
    extensions: int = 0

    @property
    def limit(self) -> int | None:
        """Return how many turns the session may take as things stand."""
        return None if self.base is None else self.base + self.extended

    @property
    def remaining(self) -> int | None:
        """Return how many turns it may still begin."""
        return None if self.limit is None else max(0, self.limit - self.used)


def base_turns(terms: TurnTerms, history: Sequence[FinishedSession]) -> int | None:
    """Return the turns that a new session starts with; None does not limit."""
    match terms.mode:
        case TurnMode.UNLIMITED:
            return None
        case TurnMode.FIXED | TurnMode.DYNAMIC:
            return terms.turns
        case TurnMode.PERCENTILE:
            if len(history) < terms.history_min:
                return terms.turns
            return _percentile(history, percent=terms.percent)
    assert_never(terms.mode)


def _percentile(history: Sequence[FinishedSession], *, percent: int) -> int:
    """Return the percentile, where a session that was cut counts among the longest.

    Nobody knows how long it would have gone on. Taken at its limit, each limit would be the
    history of a shorter one.
    """
    longest = max(session.turns for session in history)
    runs = [
        PastRun(turns=longest if s.was_cut else s.turns, cost_microusd=0, is_solved=False)
        for s in history
    ]
    return percentile_limit(runs, percent=percent)


def outlook_of(terms: TurnTerms, history: Sequence[FinishedSession]) -> Outlook | None:
    """Return what a class's history says about going on; None while it says too little.

    Only sessions whose outcome was reported count. The cost within them is taken to have grown
    evenly: of the two assumptions the one that grants more.
    """
    runs = [
        PastRun(turns=s.turns, cost_microusd=s.cost_microusd, is_solved=s.is_solved)
        for s in history
        if s.is_solved is not None and not s.was_cut
    ]
    if terms.solve_price is None or len(runs) < terms.history_min:
        return None
    found = outlooks({None: runs}, growth=Growth.LINEAR, borrowed_runs=_BORROWED_RUNS)
    return found[None]


class ExtensionRefusal(StrEnum):
    """Why a session is not given more turns. The words are stable; programs match on them."""

    NOT_EXTENSIBLE = "not_extensible"
    NOT_NEEDED = "not_needed"
    SPENT = "extensions_spent"
    LOOPING = "looping"
    NO_PROGRESS = "no_progress"
    NOT_WORTH_IT = "not_worth_it"
    BUDGET = "budget"


@dataclass(frozen=True, slots=True, kw_only=True)
class Extended:
    """A decision to give a session more turns."""

    turns: int


@dataclass(frozen=True, slots=True, kw_only=True)
class NotExtended:
    """A decision not to, with a sentence for the model."""

    reason: ExtensionRefusal
    text: str


_REFUSALS = {
    ExtensionRefusal.NOT_EXTENSIBLE: "The turns of this session are not extended on request.",
    ExtensionRefusal.NOT_NEEDED: "Enough turns remain; ask again when few are left.",
    ExtensionRefusal.SPENT: "No further extension is allowed. Finish with what you have.",
    ExtensionRefusal.LOOPING: "The last calls repeat earlier ones. Try something else first.",
    ExtensionRefusal.NO_PROGRESS: (
        "Nothing new came of the turns since the last extension. Finish with what you have."
    ),
    ExtensionRefusal.NOT_WORTH_IT: (
        "Sessions that went on for this long hardly ever succeeded. Finish with what you have."
    ),
    ExtensionRefusal.BUDGET: "The budgets allow no further turns. Finish with what you have.",
}


def decide_extension(
    terms: TurnTerms,
    standing: TurnStanding,
    *,
    progress: Progress,
    affordable: int | None,
    outlook: Outlook | None = None,
    asked: int | None = None,
) -> Extended | NotExtended:
    """Return how many turns a session is given, or why none.

    `affordable` is how many turns its budgets still allow, those that remain included.
    """
    obstacle = _obstacle(terms, standing, progress)
    if obstacle is not None:
        return _refused(obstacle)
    remaining = standing.remaining or 0
    turns = terms.extension if asked is None else max(1, min(asked, terms.extension))
    turns = min(turns, terms.extended_max - standing.extended)
    if outlook is not None and terms.solve_price is not None:
        worth = extension_turns(outlook, turn=standing.used, solve_price=terms.solve_price)
        if worth <= remaining:
            return _refused(ExtensionRefusal.NOT_WORTH_IT)
        turns = min(turns, worth - remaining)
    if affordable is not None:
        turns = min(turns, affordable - remaining)
    return Extended(turns=turns) if turns > 0 else _refused(ExtensionRefusal.BUDGET)


def _obstacle(
    terms: TurnTerms, standing: TurnStanding, progress: Progress
) -> ExtensionRefusal | None:
    """Return what forbids an extension of any size."""
    if terms.mode is not TurnMode.DYNAMIC or standing.remaining is None:
        return ExtensionRefusal.NOT_EXTENSIBLE
    # Nobody hoards turns: they are for the end, when it is known what for.
    if standing.remaining >= terms.extension:
        return ExtensionRefusal.NOT_NEEDED
    if not can_extend(terms, standing):
        return ExtensionRefusal.SPENT
    if progress.is_looping:
        return ExtensionRefusal.LOOPING
    if progress.new_results < terms.progress_min:
        return ExtensionRefusal.NO_PROGRESS
    return None


def _refused(reason: ExtensionRefusal) -> NotExtended:
    return NotExtended(reason=reason, text=_REFUSALS[reason])


def affordable_turns(
    remaining: Iterable[tuple[Unit, int]], *, used: int, cost_microusd: int
) -> int | None:
    """Return how many turns the budgets still allow at the session's mean cost of a turn.

    `remaining` is what is left of each budget. None where no budget bounds the turns.
    """
    mean_cost = -(-cost_microusd // used) if used else 0
    allowed: list[int] = []
    for unit, left in remaining:
        if unit is Unit.TURNS:
            allowed.append(max(0, left))
        elif unit is Unit.COST_MICROUSD and left <= 0:
            allowed.append(0)
        elif unit is Unit.COST_MICROUSD and mean_cost:
            allowed.append(left // mean_cost)
    return min(allowed, default=None)


def turn_limit_denied(terms: TurnTerms, standing: TurnStanding) -> Denied:
    """Return the denial of a turn beyond the limit."""
    may_extend = can_extend(terms, standing)
    way_out = (
        f"Call {EXTEND_TOOL} with a reason, or finish with what you have."
        if may_extend
        else "Finish with what you have, or ask an administrator for more turns."
    )
    return Denied(
        reason=DenialReason.TURN_LIMIT,
        remedy=Remedy(
            action=RemedyAction.ASK_FOR_EXTENSION
            if may_extend
            else RemedyAction.FINISH_WITH_WHAT_YOU_HAVE,
            text=f"This session has used all of its {standing.limit} turns. {way_out}",
        ),
    )


def can_extend(terms: TurnTerms, standing: TurnStanding) -> bool:
    """Tell whether asking for more turns can help at all."""
    return (
        terms.mode is TurnMode.DYNAMIC
        and standing.extensions < terms.extensions_max
        and standing.extended < terms.extended_max
    )


def reminder(terms: TurnTerms, standing: TurnStanding) -> str | None:
    """Return the sentence that reminds of the limit, where one is due at what remains."""
    remaining = standing.remaining
    if remaining is None or remaining not in terms.remind_at:
        return None
    count = {0: "No turn remains", 1: "1 turn remains"}.get(remaining, f"{remaining} turns remain")
    way_out = f", or call {EXTEND_TOOL} with a reason" if can_extend(terms, standing) else ""
    return f"{count} after this one, of {standing.limit}; finish with what you have{way_out}."
