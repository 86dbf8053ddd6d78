"""The turn strategies that are compared: each learns a limit per model from the training half.

A strategy sees a run's model and nothing else of it. The cost so far would be fair to look at in
production; in a replay it is not. The file holds only a run's total, so its cost at a turn is
total x (turn / final turns) ^ growth: whoever looks at it looks at the final turn count. What the
task's text or class adds belongs here once it is shown to predict anything.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

from governor.turns import (
    Growth,
    Outlook,
    PastRun,
    is_kept,
    outlooks,
    percentile_limit,
    priced_limit,
    thriftiest_limit,
)
from runtime.evaluate.runs_file import RecordedRun

LOST_SHARE_MAX = 0.02
# How strongly a model's history leans on all of them: of hundreds of runs little, of a dozen
# most. Ten times as much chose limits within noise of each other.
_BORROWED_RUNS = 30.0
_FOLDS = 5
# Prices of a solve, in runs of mean cost: from one that cuts nearly everything to one that cuts
# nearly nothing, in steps of a tenth.
_PRICES = tuple(0.25 * 1.1**step for step in range(80))

Learner = Callable[[Sequence[RecordedRun], Growth], "Limits"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """A limit per model; None does not limit."""

    by_model: Mapping[str, int] = field(default_factory=dict)
    otherwise: int | None = None

    def of(self, model: str) -> int | None:
        """Return the limit for a model; one without history gets that of all runs together."""
        return self.by_model.get(model, self.otherwise)


def learn_unlimited(_training: Sequence[RecordedRun], _growth: Growth) -> Limits:
    """Return no limits."""
    return Limits()


def learn_percentile(percent: int) -> Learner:
    """Return what learns a percentile of each model's own turns."""

    def learn(training: Sequence[RecordedRun], _growth: Growth) -> Limits:
        return _each(_histories(training), lambda runs: percentile_limit(runs, percent=percent))

    return learn


def learn_fixed_model(lost_share_max: float = LOST_SHARE_MAX) -> Learner:
    """Return what learns, per model, the limit that saves most at an allowed loss."""

    def learn(training: Sequence[RecordedRun], growth: Growth) -> Limits:
        found = outlooks(_histories(training), growth=growth, borrowed_runs=0.0)
        return _of_outlooks(found, partial(thriftiest_limit, lost_share_max=lost_share_max))

    return learn


def learn_dynamic(
    lost_share_max: float = LOST_SHARE_MAX,
    *,
    borrowed_runs: float = _BORROWED_RUNS,
    may_refuse: bool = False,
    folds: int = _FOLDS,
) -> Learner:
    """Return what learns one price of a solve, at which every model's runs are extended.

    The loss is so spent where it buys the most, instead of evenly. The price is the lowest whose
    loss on tasks held out of the training half is allowed: judged on the tasks that the limits
    were learned from (`folds=1`), it would look better than it is.
    """

    def learn(training: Sequence[RecordedRun], growth: Growth) -> Limits:
        def limits_at_prices(runs: Sequence[RecordedRun], prices: Sequence[float]) -> list[Limits]:
            found = outlooks(
                _histories(runs), growth=growth, borrowed_runs=borrowed_runs, may_refuse=may_refuse
            )
            return [_of_outlooks(found, partial(priced_limit, solve_price=p)) for p in prices]

        lost = [0] * len(_PRICES)
        for rest, held in _folds(training, folds):
            solved = [recorded for recorded in held if recorded.run.is_solved]
            for place, limits in enumerate(limits_at_prices(rest, _PRICES)):
                lost[place] += sum(not is_kept(r.run, limit=limits.of(r.model)) for r in solved)
        allowed = lost_share_max * len(training)
        price = next((p for p, n in zip(_PRICES, lost, strict=True) if n <= allowed), _PRICES[-1])
        return limits_at_prices(training, [price])[0]

    return learn


STRATEGIES: Mapping[str, Learner] = {
    "unlimited": learn_unlimited,
    "fixed_p75": learn_percentile(75),
    "fixed_p90": learn_percentile(90),
    "fixed_model": learn_fixed_model(),
    "dynamic": learn_dynamic(),
}


def _histories(runs: Iterable[RecordedRun]) -> dict[str | None, list[PastRun]]:
    """Return the runs of each model, and under None those of all."""
    histories: dict[str | None, list[PastRun]] = defaultdict(list)
    for recorded in runs:
        histories[recorded.model].append(recorded.run)
        histories[None].append(recorded.run)
    return histories


def _each(
    histories: Mapping[str | None, Sequence[PastRun]],
    limit_of: Callable[[Sequence[PastRun]], int],
) -> Limits:
    return Limits(
        by_model={model: limit_of(runs) for model, runs in histories.items() if model is not None},
        otherwise=limit_of(histories[None]),
    )


def _of_outlooks(found: Mapping[str | None, Outlook], limit_of: Callable[[Outlook], int]) -> Limits:
    return Limits(
        by_model={model: limit_of(one) for model, one in found.items() if model is not None},
        otherwise=limit_of(found[None]),
    )


def _folds(
    runs: Sequence[RecordedRun], most: int
) -> Iterable[tuple[list[RecordedRun], list[RecordedRun]]]:
    """Yield (rest, held out) by task; a single fold is its own rest."""
    order = {name: place for place, name in enumerate(sorted({r.instance_id for r in runs}))}
    folds = min(most, len(order))
    for fold in range(folds):
        held = [r for r in runs if order[r.instance_id] % folds == fold]
        rest = [r for r in runs if order[r.instance_id] % folds != fold]
        yield rest or held, held
