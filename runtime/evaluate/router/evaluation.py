"""The whole evaluation of a router: what is learned, on what it is judged, and every figure."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from governor.learning.blocks import Shares
from governor.learning.linear import Matrix
from governor.learning.smoothing import ROWS_MIN
from governor.learning.tier_model import SHARES
from governor.retrieval.vectors import StaticVectors
from runtime.errors import RuntimeFaultError
from runtime.evaluate.router.bandit_run import bandit_run
from runtime.evaluate.router.certainty import certainty_of
from runtime.evaluate.router.figures import NO_RECOVERY, Interval, Recovery, bootstrap, ranks
from runtime.evaluate.router.figures import recovery as recovered
from runtime.evaluate.router.foretelling import Table, stretch_of, table_of
from runtime.evaluate.router.matched import Judged, matched_spend
from runtime.evaluate.router.rows_file import Recorded
from runtime.evaluate.router.spending import Stretch, budgets_of
from runtime.evaluate.router.splits import Places, Split, folds, group_folds, labelled

# Small files are split several times: how they happen to be split would else be the result.
_REPEATED_ROWS = 2_500
_REPEATS_MAX = 5
_LINES_MIN = 2 * ROWS_MIN
# Each part alone, to show what brings how much.
_PARTS = {
    "meaning": Shares(meaning=4.0, words=0.0, form=0.0, state=0.0),
    "words": Shares(meaning=0.0, words=4.0, form=0.0, state=0.0),
    "form": Shares(meaning=0.0, words=0.0, form=1.0, state=0.0),
    "meaning and form": Shares(meaning=4.0, words=0.0, form=1.0, state=0.0),
    "meaning and words": Shares(meaning=2.0, words=4.0, form=0.0, state=0.0),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """What is to be evaluated beyond the outcomes themselves."""

    labels: int | None = None
    tested: Recorded | None = None
    seed: int = 0
    ablation: bool = False


def evaluate_router(
    recorded: Recorded,
    wish: Wish,
    *,
    vectors: StaticVectors | None,
    begun: Callable[[str], None] = lambda _: None,
) -> dict[str, Any]:
    """Return the JSON of `flyball eval router`.

    Raises:
        RuntimeFaultError: there are too few prompts, or not so many labels.
    """
    _check(recorded, wish)
    begun("reading prompts")
    table = table_of(recorded, vectors)
    bench = _Bench(recorded=recorded, table=table, wish=wish, vectors=vectors, begun=begun)
    judged = bench.judged(SHARES)
    ranked = _Ranked(judged)
    shape = {
        **ranked.shape(seed=wish.seed),
        "apgr_unseen_groups": bench.unseen_groups(),
        **matched_spend(
            judged, budgets_of(table.costs, table.scores), ablation=wish.ablation, seed=wish.seed
        ),
        "certainty": certainty_of(
            table.tiers,
            [
                (stretch.claimed, stretch.test_scores, stretch.test_costs)
                for one in judged
                for stretch in one.stretches
            ],
        ),
        "bandit": bench.bandit(),
        "n": len(judged[0].scores),
        "labels": len(judged[0].stretches[0].train_scores),
        "left_out": recorded.left_out,
        "seed": wish.seed,
        "tiers": _tiers(table.tiers, judged[0]),
    }
    if wish.ablation:
        shape["ablation"] = bench.ablation()
    return shape


def _check(recorded: Recorded, wish: Wish) -> None:
    lines, labels = len(recorded.lines), wish.labels
    least = ROWS_MIN if wish.tested is not None else _LINES_MIN
    if lines < least:
        raise RuntimeFaultError(
            f"eval router: {lines} prompts with an outcome in every tier; it takes {least}"
        )
    most = lines if wish.tested is not None else lines - 1
    if labels is not None and not ROWS_MIN <= labels <= most:
        raise RuntimeFaultError(
            f"eval router: --labels {labels}: give {ROWS_MIN} to {most} for these {lines} prompts"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Bench:
    recorded: Recorded
    table: Table
    wish: Wish
    vectors: StaticVectors | None
    begun: Callable[[str], None]

    def judged(self, shares: Sequence[Shares]) -> list[Judged]:
        """Return every row that is judged on, foretold by a model that did not see it.

        Each entry is one time through; a small file is gone through several times.
        """
        wish = self.wish
        if wish.tested is not None:
            return [self._tested(wish.tested, shares)]
        prompts = [line.prompt for line in self.recorded.lines]
        if wish.labels is not None:
            split = labelled(prompts, wish.labels, seed=wish.seed)
            return [self._split([split], shares, "learning from labels")]
        repeats = max(1, min(_REPEATS_MAX, _REPEATED_ROWS // len(prompts)))
        return [
            self._split(folds(prompts, seed=wish.seed + time), shares, f"time {time + 1}")
            for time in range(repeats)
        ]

    def unseen_groups(self) -> float | None:
        """Return the APGR over groups that nothing was learned of; None without groups."""
        lines, wish = self.recorded.lines, self.wish
        splits = group_folds([line.group for line in lines], seed=wish.seed)
        if wish.labels is not None:
            splits = [self._limited(split, wish.labels) for split in splits]
        splits = [split for split in splits if len(split.train) >= ROWS_MIN]
        if not splits:
            return None
        judged = self._split(splits, SHARES, "unseen groups", is_ranked_only=True)
        return _Ranked([judged]).recovery.apgr

    def bandit(self) -> dict[str, Any]:
        """Return what a bandit learns of the outcomes while it serves them."""
        self.begun("a bandit that is told late")
        run = bandit_run(self.table, seed=self.wish.seed)
        if run is None:
            return {"delay": None, "share_of_full_information": None}
        return {
            "delay": run.delay,
            "share_of_full_information": run.share_of_full_information,
            "gain_pp": run.gain_pp,
            "full_information_gain_pp": run.full_gain_pp,
            "dear_share": run.dear_share,
            "streams": run.streams,
        }

    def ablation(self) -> dict[str, float | None]:
        """Return the APGR of each part of the features alone."""
        return {
            name: _Ranked(self.judged((shares,))).recovery.apgr
            for name, shares in _PARTS.items()
            if shares.meaning == 0 or self.vectors is not None
        }

    def _limited(self, split: Split, labels: int) -> Split:
        lot = np.random.default_rng(self.wish.seed).permutation(len(split.train))[:labels]
        return Split(train=split.train[np.sort(lot)], test=split.test)

    def _tested(self, tested: Recorded, shares: Sequence[Shares]) -> Judged:
        train = self.table
        if self.wish.labels is not None and self.wish.labels < len(train.rows):
            prompts = [line.prompt for line in self.recorded.lines]
            train = train.of(labelled(prompts, self.wish.labels, seed=self.wish.seed).train)
        self.begun("learning")
        test = table_of(tested, self.vectors, like=self.table)
        stretch = stretch_of(train, test, seed=self.wish.seed, shares=shares)
        return _judged([stretch], np.arange(len(test.rows)))

    def _split(
        self,
        splits: Sequence[Split],
        shares: Sequence[Shares],
        what: str,
        *,
        is_ranked_only: bool = False,
    ) -> Judged:
        found = []
        for number, split in enumerate(splits, start=1):
            self.begun(f"{what}: {number} of {len(splits)}")
            train, test = self.table.of(split.train), self.table.of(split.test)
            found.append(
                stretch_of(
                    train, test, seed=self.wish.seed, shares=shares, sees_runs=not is_ranked_only
                )
            )
        places = np.concatenate([split.test for split in splits])
        return _judged(found, places, is_ranked_only=is_ranked_only)


def _judged(
    stretches: Sequence[Stretch], places: Places, *, is_ranked_only: bool = False
) -> Judged:
    order = places.argsort()
    return Judged(
        stretches=tuple(stretches),
        trials=() if is_ranked_only else tuple(stretch.trials() for stretch in stretches),
        places=places,
        scores=np.concatenate([stretch.test_scores for stretch in stretches])[order],
        costs=np.concatenate([stretch.test_costs for stretch in stretches])[order],
    )


class _Ranked:
    """How well prompts are ranked by what a better tier gains, over every time through."""

    def __init__(self, judged: Sequence[Judged]) -> None:
        self._judged = judged
        self._strong = int(judged[0].scores.mean(axis=0).argmax())
        self._rankings = [_ranking(one, self._strong) for one in judged]
        self.recovery = self._mean(None)

    def shape(self, *, seed: int) -> dict[str, Any]:
        """Return the figures with the interval of the first."""
        found = self.recovery
        between: Interval | None = None
        if found.apgr is not None:
            rows = len(self._judged[0].scores)
            between = bootstrap(lambda drawn: self._mean(drawn).apgr, rows, seed=seed)
        perfect = self._perfect()
        return {
            "apgr": found.apgr,
            "cpt50": found.cpt50,
            "cpt80": found.cpt80,
            "apgr_ci95": None if between is None else list(between),
            "apgr_random": None if found.apgr is None else 0.5,
            "apgr_oracle": perfect.apgr,
        }

    def _mean(self, drawn: Any) -> Recovery:
        if self._strong == 0:
            return NO_RECOVERY  # the cheapest tier is the best one
        found = []
        for one, ranking in zip(self._judged, self._rankings, strict=True):
            rows = slice(None) if drawn is None else drawn
            scores = one.scores[rows]
            found.append(recovered(ranking[rows], scores[:, 0], scores[:, self._strong]))
        return Recovery(
            apgr=_averaged([each.apgr for each in found]),
            cpt50=_averaged([each.cpt50 for each in found]),
            cpt80=_averaged([each.cpt80 for each in found]),
        )

    def _perfect(self) -> Recovery:
        if self._strong == 0:
            return NO_RECOVERY
        scores = self._judged[0].scores
        gain = scores[:, self._strong] - scores[:, 0]
        return recovered(gain, scores[:, 0], scores[:, self._strong])


def _ranking(judged: Judged, strong: int) -> Matrix:
    """Return ranks within each part: forecasts of different models are not on one scale."""
    return judged.in_order(
        np.concatenate(
            [
                ranks(stretch.test.quality[:, strong] - stretch.test.quality[:, 0], seed=number)
                for number, stretch in enumerate(judged.stretches)
            ]
        )
    )


def _averaged(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return float(np.mean(known)) if known else None


def _tiers(names: Sequence[str], judged: Judged) -> list[dict[str, Any]]:
    scores, costs = judged.scores.mean(axis=0), judged.costs.mean(axis=0)
    return [
        {
            "name": name,
            "score": float(score),
            "cost": float(cost),
            "cost_of_pass": float(cost / score) if score > 0 else None,
        }
        for name, score, cost in zip(names, scores, costs, strict=True)
    ]
