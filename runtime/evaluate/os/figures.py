"""What replays come to, arm by arm, with bootstrap intervals over the mixes."""

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import ceil
from statistics import fmean
from typing import Any

from runtime.evaluate.os.mixes import Role
from runtime.evaluate.os.outcome import Arm, Outcome, SessionOutcome

RESAMPLES = 2_000
_LOWER, _UPPER = 0.025, 0.975
# What depends on how fast the machine is, and how busy with other things.
TIMED = frozenset(
    {"high_p50_ratio", "high_p95_ratio", "high_p99_ratio", "low_slowdown", "throughput_ratio"}
)
METRICS = (
    "survival",
    "high_p50_ratio",
    "high_p95_ratio",
    "high_p99_ratio",
    "low_slowdown",
    "throughput_ratio",
    "wasted_mib_s",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """One mix in one arm, beside the same sessions each alone."""

    outcome: Outcome
    alone: Outcome


def percentile(values: Sequence[float], share: float) -> float:
    """Return the smallest value that at least `share` of the values do not exceed."""
    ordered = sorted(values)
    return ordered[max(0, ceil(share * len(ordered)) - 1)]


def bootstrap(
    pairs: Sequence[Pair], metric: Callable[[Sequence[Pair]], float | None], *, seed: int
) -> list[float] | None:
    """Return the 95 % interval of a metric when mixes are drawn anew; None where it has none."""
    chance = random.Random(seed)  # noqa: S311 - a resample is no secret
    found = [metric(chance.choices(pairs, k=len(pairs))) for _ in range(RESAMPLES)]
    known = sorted(value for value in found if value is not None)
    if not known:
        return None
    last = len(known) - 1
    return [known[round(_LOWER * last)], known[round(_UPPER * last)]]


def shape_of(
    name: str,
    memory_mib: int,
    pairs: Sequence[Pair],
    *,
    seed: int,
    left_out: frozenset[str] = frozenset(),
) -> dict[str, Any]:
    """Return one arm as the evaluation's JSON has it; a metric that is left out is None."""
    metrics = {name: metric for name, metric in _metrics().items() if name not in left_out}
    values = {name: metric(pairs) for name, metric in metrics.items()}
    intervals = {name: bootstrap(pairs, metric, seed=seed) for name, metric in metrics.items()}
    return {
        "name": name,
        "memory_mib": memory_mib,
        "n": len(pairs),
        **{metric: values.get(metric) for metric in METRICS},
        "ci95": {metric: intervals.get(metric) for metric in METRICS},
    }


def paired(outcomes: Sequence[Outcome], arm: Arm, memory_mib: int) -> list[Pair]:
    """Return the mixes that were replayed in an arm and alone, at one size of memory."""
    at_size = [one for one in outcomes if one.memory_mib == memory_mib]
    alone = {one.mix: one for one in at_size if one.arm is Arm.ALONE}
    return [
        Pair(outcome=one, alone=alone[one.mix])
        for one in at_size
        if one.arm is arm and one.mix in alone
    ]


def _metrics() -> Mapping[str, Callable[[Sequence[Pair]], float | None]]:
    return {
        "survival": _survival,
        "high_p50_ratio": lambda pairs: _high_ratio(pairs, 0.5),
        "high_p95_ratio": lambda pairs: _high_ratio(pairs, 0.95),
        "high_p99_ratio": lambda pairs: _high_ratio(pairs, 0.99),
        "low_slowdown": _low_slowdown,
        "throughput_ratio": _throughput,
        "wasted_mib_s": lambda pairs: fmean(pair.outcome.wasted_mib_s for pair in pairs),
    }


def _survival(pairs: Sequence[Pair]) -> float:
    """Return which share of the sessions lost nothing."""
    return fmean(one.survived for pair in pairs for one in pair.outcome.sessions)


def _high_ratio(pairs: Sequence[Pair], share: float) -> float | None:
    """Return a percentile of the HIGH sessions' calls, relative to that when they are alone."""
    walls = [wall for pair in pairs for wall in _of(pair.outcome, Role.HIGH).walls_ms]
    alone = [wall for pair in pairs for wall in _of(pair.alone, Role.HIGH).walls_ms]
    if not walls or not alone:
        return None
    return percentile(walls, share) / percentile(alone, share)


def _low_slowdown(pairs: Sequence[Pair]) -> float | None:
    """Return how much longer the LOW sessions that survived took than alone."""
    ratios = [
        here.session_ms / _of(pair.alone, here.role).session_ms
        for pair in pairs
        for here in pair.outcome.sessions
        if here.role is not Role.HIGH and here.survived
    ]
    return fmean(ratios) if ratios else None


def _throughput(pairs: Sequence[Pair]) -> float:
    """Return how much work was done in a time, relative to one session after another."""
    return _rate([pair.outcome for pair in pairs]) / _rate([pair.alone for pair in pairs])


def _rate(outcomes: Sequence[Outcome]) -> float:
    done = sum(one.done_nominal_ms for outcome in outcomes for one in outcome.sessions)
    return done / sum(outcome.makespan_ms for outcome in outcomes)


def _of(outcome: Outcome, role: Role) -> SessionOutcome:
    return next(one for one in outcome.sessions if one.role is role)
