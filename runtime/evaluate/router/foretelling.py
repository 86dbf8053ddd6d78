"""What models foretell of rows: before a tier has run, and after the cheapest one has."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from governor.learning.blocks import Shares, Widths
from governor.learning.likeness import Rows
from governor.learning.linear import Matrix
from governor.learning.tier_model import SHARES, Forecasts, Outcomes, learned_from
from governor.retrieval.vectors import StaticVectors
from runtime.evaluate.router.certainty import claimed
from runtime.evaluate.router.plans import View
from runtime.evaluate.router.rows_file import Recorded
from runtime.evaluate.router.spending import Stretch
from runtime.evaluate.router.splits import Places
from runtime.router.features import PromptReader
from runtime.router.predictor import ROWS_MAX

_SEEN_MAX = 16
_KNOWN_MIN = 0.5
_TINY = 1e-12
# Below a tenth of what is usual, what was seen of a run is told apart no finer.
_FINE = 0.1
# How a run went says more of what is left to gain than what was asked.
LATER_SHARES = (
    Shares(meaning=0.0, words=0.0, form=0.0, state=0.5),
    Shares(meaning=0.0, words=0.0, form=0.3, state=0.5),
    Shares(meaning=1.0, words=0.5, form=0.3, state=1.0),
    Shares(meaning=0.0, words=0.0, form=0.0, state=2.0),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """Recorded outcomes as numbers, the tiers in the order of their mean cost.

    `seen` is what was seen of the cheapest tier's run, NaN where nothing was. It is kept apart
    from `rows`, so that nothing that chooses before that run can look at it. `keys` say what its
    columns are.
    """

    tiers: tuple[str, ...]
    rows: Rows
    widths: Widths
    keys: tuple[str, ...]
    seen: Matrix
    scores: Matrix
    costs: Matrix

    def of(self, places: Places) -> "Table":
        """Return the table of some of the rows."""
        return replace(
            self,
            rows=self.rows[places],
            seen=self.seen[places],
            scores=self.scores[places],
            costs=self.costs[places],
        )


def table_of(
    recorded: Recorded, vectors: StaticVectors | None, *, like: Table | None = None
) -> Table:
    """Return the table of recorded outcomes, its columns those of `like` where that is given."""
    scores, costs = recorded.scores(), recorded.costs()
    order = np.lexsort((-scores.mean(axis=0), costs.mean(axis=0)))
    if like is not None:
        order = np.array([recorded.tiers.index(tier) for tier in like.tiers])
    reader = PromptReader(vectors)
    tiers = tuple(recorded.tiers[at] for at in order)
    runs = [line.features.get(tiers[0], {}) for line in recorded.lines]
    keys = _keys(runs) if like is None else like.keys
    return Table(
        tiers=tiers,
        rows=np.stack([reader.read(line.prompt) for line in recorded.lines]),
        widths=reader.widths,
        keys=keys,
        seen=_seen(runs, keys),
        scores=scores[:, order],
        costs=costs[:, order],
    )


def stretch_of(
    train: Table,
    test: Table,
    *,
    seed: int,
    shares: Sequence[Shares] = SHARES,
    sees_runs: bool = True,
) -> Stretch:
    """Return what a model of `train` foretells of `test`, and of `train` row by row unseen.

    No more rows are learned from than a router is fitted to.
    """
    if len(train.rows) > ROWS_MAX:
        lot = np.random.default_rng(seed).permutation(len(train.rows))[:ROWS_MAX]
        train = train.of(np.sort(lot))
    before = learned_from(
        train.rows, _outcomes(train), train.widths, seed=seed, shares_tried=shares
    )
    now = before.model.forecasts(test.rows)
    known, foretold = before.left_out, _Later(train, seed=seed, sees_runs=sees_runs)
    return Stretch(
        train=_view(known, foretold.train),
        train_scores=train.scores,
        train_costs=train.costs,
        test=_view(now, foretold.of(test)),
        test_scores=test.scores,
        test_costs=test.costs,
        claimed=claimed(before.model, now),
    )


class _Later:
    """What is foretold once the cheapest tier has run; nothing where no run was seen."""

    def __init__(self, train: Table, *, seed: int, sees_runs: bool) -> None:
        self.train: Forecasts | None = None
        if not sees_runs:
            return
        sizes = np.abs(train.seen)
        self._used = np.mean(np.isfinite(sizes), axis=0) >= _KNOWN_MIN
        if not self._used.any() or len(train.tiers) == 1:
            return
        self._sizes = np.maximum(np.nanmean(sizes[:, self._used], axis=0), _TINY)
        self._usual = np.nanmean(self._leveled(train.seen), axis=0)
        rows, widths = self._rows(train)
        learned = learned_from(rows, _outcomes(train), widths, seed=seed, shares_tried=LATER_SHARES)
        self.train, self._model = learned.left_out, learned.model

    def of(self, table: Table) -> Forecasts | None:
        """Return what is foretold of rows whose first run was seen."""
        return None if self.train is None else self._model.forecasts(self._rows(table)[0])

    def _rows(self, table: Table) -> tuple[Rows, Widths]:
        """Return rows whose session state is what was seen of the run."""
        levels = self._leveled(table.seen)
        seen = np.where(np.isfinite(levels), levels, self._usual).astype(np.float32)
        before = table.rows[:, : table.widths.total - table.widths.state]
        widths = replace(table.widths, state=seen.shape[1])
        return np.concatenate([before, seen], axis=1), widths

    def _leveled(self, seen: Matrix) -> Matrix:
        """Return what was seen on a scale of orders of magnitude about what is usual."""
        parts = seen[:, self._used] / self._sizes
        found: Matrix = np.sign(parts) * np.log1p(np.abs(parts) / _FINE)
        return found


def _view(before: Forecasts, later: Forecasts | None) -> View:
    return View(
        quality=before.quality,
        cost=before.cost,
        later_quality=None if later is None else later.quality,
        later_cost=None if later is None else later.cost,
    )


def _outcomes(table: Table) -> Outcomes:
    return Outcomes(scores=table.scores, costs=table.costs, weights=np.ones_like(table.scores))


def _keys(runs: Sequence[Mapping[str, float]]) -> tuple[str, ...]:
    return tuple(sorted({key for run in runs for key in run})[:_SEEN_MAX])


def _seen(runs: Sequence[Mapping[str, float]], keys: Sequence[str]) -> Matrix:
    """Return what was seen of runs, a column for each key; NaN where it was not."""
    found = [[run.get(key, float("nan")) for key in keys] for run in runs]
    return np.array(found).reshape(len(runs), len(keys))
