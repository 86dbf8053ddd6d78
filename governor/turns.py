"""How many turns a run may take: fixed limits, and extensions granted while success still pays.

All of it is learned from finished runs of the past by counting. A limit is judged by two shares:
what it would have saved of their cost, and how many of them would have been cut before they
solved their task. Nothing here sees the run that is to be limited.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from statistics import fmean, median_low
from typing import TypeVar, assert_never

Key = TypeVar("Key")

# Turns are pooled between histories relative to the median of each, in steps of this fraction:
# finer steps than a run's own noise cost time and change no limit.
_STEPS_PER_MEDIAN = 20


class Growth(StrEnum):
    """How a run's cost is assumed to have grown with its turns, where only the total is known."""

    LINEAR = "linear"
    QUADRATIC = "quadratic"

    @property
    def exponent(self) -> int:
        """Return the power of the turn that the cost follows."""
        match self:
            case Growth.LINEAR:
                return 1
            case Growth.QUADRATIC:
                return 2
        assert_never(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class PastRun:
    """A finished run: how long it went, what it cost, whether it solved its task."""

    turns: int
    cost_microusd: int
    is_solved: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Cut:
    """A limit with what it would have done to a history."""

    limit: int
    saved_share: float
    lost_share: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Outlook:
    """What every sensible limit would have done to a history.

    `cuts` ascend by limit and hold only the turns at which some run was solved: between two of
    them a longer limit costs more and solves nothing more. `efficient` are those of them that are
    best at some price of a solve.
    """

    base_turns: int
    cuts: tuple[Cut, ...]
    efficient: tuple[Cut, ...]


def spent_microusd(run: PastRun, *, limit: int | None, growth: Growth) -> int:
    """Return what a run would have cost had it been stopped after `limit` turns."""
    if limit is None or run.turns <= limit:
        return run.cost_microusd
    power = growth.exponent
    return int(run.cost_microusd * limit**power // run.turns**power)


def is_kept(run: PastRun, *, limit: int | None) -> bool:
    """Tell whether a run would still have solved its task under `limit`."""
    return run.is_solved and (limit is None or run.turns <= limit)


def percentile_limit(history: Sequence[PastRun], *, percent: int) -> int:
    """Return the turns within which `percent` of a history ended (nearest rank)."""
    turns = sorted(run.turns for run in history)
    return max(1, turns[max(0, -(-percent * len(turns) // 100) - 1)])


def thriftiest_limit(outlook: Outlook, *, lost_share_max: float) -> int:
    """Return the limit that saves the most among those that lose no more than allowed."""
    # The longest sensible limit loses nothing, so there is always one. The tiny slack is for
    # shares such as 5/250, which binary fractions do not hit.
    allowed = [cut for cut in outlook.cuts if cut.lost_share <= lost_share_max + 1e-9]
    return max(allowed, key=lambda cut: cut.saved_share).limit


def priced_limit(outlook: Outlook, *, solve_price: float) -> int:
    """Return where extensions end when a solve is worth `solve_price` runs of mean cost."""
    return max(outlook.efficient, key=lambda cut: (_worth(cut, solve_price), cut.limit)).limit


def extension_turns(outlook: Outlook, *, turn: int, solve_price: float) -> int:
    """Return how many turns more a run deserves that has used `turn` of them unsolved.

    It gets those up to the horizon at which the solves still to be expected outweigh most the
    cost still to be expected, or none if no horizon pays. The first of them is the base
    allowance: below the quickest solve known, no run is judged.
    """
    if turn < outlook.base_turns:
        return outlook.base_turns - turn
    here = _reached(outlook, turn)
    later = [cut for cut in outlook.cuts if cut.limit > turn]
    if not later:
        return 0
    best = max(later, key=lambda cut: (_worth(cut, solve_price), cut.limit))
    pays = _worth(best, solve_price) >= _worth(here, solve_price)
    return best.limit - turn if pays else 0


def outlooks(
    histories: Mapping[Key, Sequence[PastRun]],
    *,
    growth: Growth,
    borrowed_runs: float,
    may_refuse: bool = False,
) -> dict[Key, Outlook]:
    """Return the outlook of each history, shrunk towards all of them together.

    A few hundred runs leave a hazard of success that jumps from turn to turn, and the best of many
    limits is then partly luck. So each history borrows the weight of `borrowed_runs` runs from
    the whole, with turns relative to its median, cost to its mean and solves to its own rate.
    A run gets at least the turns of the quickest solve known, unless it may be refused altogether.
    """
    pool = _pooled(histories.values())
    return {
        key: _outlook(
            history, growth=growth, pool=pool, borrowed_runs=borrowed_runs, may_refuse=may_refuse
        )
        for key, history in histories.items()
        if history
    }


@dataclass(slots=True)
class _Mass:
    """The runs that ended at one turn, as weights: runs, cost in mean runs, solves."""

    runs: float = 0.0
    cost: float = 0.0
    solves: float = 0.0

    def add(self, runs: float, cost: float, solves: float) -> None:
        self.runs += runs
        self.cost += cost
        self.solves += solves


def _pooled(histories: Iterable[Sequence[PastRun]]) -> dict[int, _Mass]:
    pool: dict[int, _Mass] = defaultdict(_Mass)
    for history in histories:
        if not history:
            continue
        median, mean_cost = _scales(history)
        for run in history:
            step = round(run.turns * _STEPS_PER_MEDIAN / median)
            pool[step].add(1.0, run.cost_microusd / mean_cost, float(run.is_solved))
    return pool


def _scales(history: Sequence[PastRun]) -> tuple[int, float]:
    median = max(1, median_low(run.turns for run in history))
    # A history without any cost saves nothing at any limit; 1 keeps the division defined.
    return median, fmean(run.cost_microusd for run in history) or 1.0


def _outlook(
    history: Sequence[PastRun],
    *,
    growth: Growth,
    pool: Mapping[int, _Mass],
    borrowed_runs: float,
    may_refuse: bool,
) -> Outlook:
    median, mean_cost = _scales(history)
    ended: dict[int, _Mass] = defaultdict(_Mass)
    for run in history:
        ended[run.turns].add(1.0, run.cost_microusd / mean_cost, float(run.is_solved))
    solved_turns = [run.turns for run in history if run.is_solved]
    if borrowed_runs > 0:
        # The half run keeps a history without a solve from being hopeless for good.
        weight = borrowed_runs / sum(mass.runs for mass in pool.values())
        rate = (len(solved_turns) + 0.5) / (len(history) + 1)
        pool_rate = sum(m.solves for m in pool.values()) / sum(m.runs for m in pool.values())
        # Where nobody solved anything there is nothing to borrow but cost.
        solve_weight = weight * min(rate / pool_rate, 1 / pool_rate) if pool_rate else 0.0
        for step, mass in pool.items():
            turns = max(1, round(step * median / _STEPS_PER_MEDIAN))
            ended[turns].add(mass.runs * weight, mass.cost * weight, mass.solves * solve_weight)
    base_turns = 0 if may_refuse else min(solved_turns, default=1)
    cuts = _cuts(ended, base_turns=base_turns, power=growth.exponent)
    return Outlook(base_turns=base_turns, cuts=cuts, efficient=_efficient(cuts))


def _cuts(ended: Mapping[int, _Mass], *, base_turns: int, power: int) -> tuple[Cut, ...]:
    limits = {t for t, mass in ended.items() if mass.solves > 0 and t > base_turns} | {base_turns}
    runs = sum(mass.runs for mass in ended.values())
    whole_cost = sum(mass.cost for mass in ended.values()) or 1.0
    # Walked from the longest limit down, so that what lies beyond a limit is a running sum.
    beyond_cost = beyond_pace = beyond_solves = 0.0
    cuts: list[Cut] = []
    for turns in sorted(ended.keys() | limits, reverse=True):
        if turns in limits:
            saved = (beyond_cost - beyond_pace * turns**power) / whole_cost
            cuts.append(Cut(limit=turns, saved_share=saved, lost_share=beyond_solves / runs))
        if turns > 0 and turns in ended:
            mass = ended[turns]
            beyond_cost += mass.cost
            beyond_pace += mass.cost / turns**power
            beyond_solves += mass.solves
    return tuple(reversed(cuts))


def _efficient(cuts: Sequence[Cut]) -> tuple[Cut, ...]:
    """Return the upper hull of saving over loss: what is best at some price."""
    hull: list[Cut] = []
    for cut in reversed(cuts):
        while len(hull) > 1 and not _is_left_turn(hull[-2], hull[-1], cut):
            hull.pop()
        hull.append(cut)
    return tuple(reversed(hull))


def _is_left_turn(first: Cut, middle: Cut, last: Cut) -> bool:
    rise = (middle.saved_share - first.saved_share) * (last.lost_share - middle.lost_share)
    return rise > (last.saved_share - middle.saved_share) * (middle.lost_share - first.lost_share)


def _worth(cut: Cut, solve_price: float) -> float:
    return cut.saved_share - solve_price * cut.lost_share


def _reached(outlook: Outlook, turn: int) -> Cut:
    """Return what stopping right now would do: no solve was due since the last cut, cost was."""
    before = [cut for cut in outlook.cuts if cut.limit <= turn][-1]
    after = next((cut for cut in outlook.cuts if cut.limit > turn), before)
    if after is before:
        return before
    way = (turn - before.limit) / (after.limit - before.limit)
    saved = before.saved_share + way * (after.saved_share - before.saved_share)
    return Cut(limit=turn, saved_share=saved, lost_share=before.lost_share)
