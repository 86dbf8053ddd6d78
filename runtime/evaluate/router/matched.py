"""Matched spend: what routing scores within a budget, beside the best mixture and the oracle."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from governor.learning.linear import Matrix
from runtime.evaluate.router.figures import bootstrap, mixture_scores, oracle_score
from runtime.evaluate.router.plans import Trial
from runtime.evaluate.router.spending import Streamed, Stretch, streamed
from runtime.evaluate.router.splits import Places

# A stream draws lots between two prices: small files are streamed often enough to even that out.
_STREAMED_ROWS = 20_000
_STREAMS_MAX = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """Rows to judge on, in the stretches that each model foretells, one behind the other.

    `places` says where in the file each row of the stretches is; `scores` and `costs` are in the
    order of the file, so that the same row can be found each time that a file is gone through.
    """

    stretches: tuple[Stretch, ...]
    trials: tuple[list[Trial], ...]
    places: Places
    scores: Matrix
    costs: Matrix

    def in_order(self, values: Matrix) -> Matrix:
        """Return values of the stretches' rows in the order of the file."""
        found = np.empty_like(values)
        found[self.places.argsort().argsort()] = values
        return found


def matched_spend(
    judged: Sequence[Judged], budgets: Sequence[float], *, ablation: bool, seed: int
) -> dict[str, Any]:
    """Return what is scored at each budget, and the most that routing costs anywhere."""
    found = [_at_budget(judged, budget, ablation=ablation, seed=seed) for budget in budgets]
    gains = [entry["gain_pp"] for entry in found]
    return {"matched_spend": found, "do_no_harm_pp": min(gains)}


def _at_budget(
    judged: Sequence[Judged], budget: float, *, ablation: bool, seed: int
) -> dict[str, Any]:
    runs = _runs(judged, budget, seed=seed)
    scores = np.mean([run.scores for run in runs], axis=0)
    score, cost = float(scores.mean()), float(np.mean([run.costs.mean() for run in runs]))
    mixed = mixture_scores(judged[0].costs, judged[0].scores, budget)
    mixture = float(mixed.mean())
    oracle = oracle_score(judged[0].costs, judged[0].scores, budget)
    between = bootstrap(lambda drawn: float((scores - mixed)[drawn].mean()), len(scores), seed=seed)
    plans = Counter(plan for run in runs for plan in run.plans)
    entry: dict[str, Any] = {
        "budget": budget,
        "score": score,
        "best_mix_score": mixture,
        "spend_ratio": cost / budget if budget > 0 else 1.0,
        "gain_pp": 100 * (score - mixture),
        "gain_ci95_pp": None if between is None else [100 * side for side in between],
        "oracle_score": oracle,
        "cost_of_pass": cost / score if score > 0 else None,
        "best_mix_cost_of_pass": budget / mixture if mixture > 0 else None,
        "plan": plans.most_common(1)[0][0],
    }
    if ablation:
        entry["gain_pp_of_plan"] = _of_each_plan(judged, budget, mixture, seed=seed)
    return entry


def _of_each_plan(
    judged: Sequence[Judged], budget: float, mixture: float, *, seed: int
) -> dict[str, float]:
    """Return what each way of choosing gains when it is used throughout."""
    found = {}
    for number, trial in enumerate(judged[0].trials[0]):
        alone = [
            Judged(
                stretches=one.stretches,
                trials=tuple([trials[number]] for trials in one.trials),
                places=one.places,
                scores=one.scores,
                costs=one.costs,
            )
            for one in judged
        ]
        runs = _runs(alone, budget, seed=seed)
        found[trial.plan.name] = 100 * (float(np.mean([r.scores.mean() for r in runs])) - mixture)
    return found


def _runs(judged: Sequence[Judged], budget: float, *, seed: int) -> list[Streamed]:
    rows = sum(len(one.scores) for one in judged)
    times = max(1, min(_STREAMS_MAX, _STREAMED_ROWS // rows))
    count = times * len(judged)
    found: list[Streamed] = []
    for one in judged:
        parts = list(zip(one.stretches, one.trials, strict=True))
        for time in range(times):
            # Evenly spread lots: few streams spend as much as many would on average.
            lot = (len(found) + 0.5) / count
            run = streamed(parts, budget, seed=seed + 1_000 * time, lot=lot)
            scores, costs = one.in_order(run.scores), one.in_order(run.costs)
            found.append(Streamed(scores=scores, costs=costs, plans=run.plans))
    return found
