"""Replaying recorded runs under turn limits that were learned from other tasks.

A replay cuts a run where its limit lies. It cannot show that an agent which was told its limit
finishes sooner, so every saving here is a lower bound and every loss an upper one. Half the tasks
teach, the other half is judged, twenty times; each model counts the same, so that a cheap one's
savings are not lost in a dear one's bill.
"""

import random
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import fmean
from typing import Any

from governor.turns import Growth, is_kept, spent_microusd
from runtime.evaluate.runs_file import RecordedRun, RunsFileError
from runtime.evaluate.strategies import (
    STRATEGIES,
    Learner,
    Limits,
    learn_dynamic,
    learn_fixed_model,
)

SPLITS = 20
# What `fixed_model` may lose per model, so that its saving can be read off at another loss.
_CAPS = (0.0025, 0.005, 0.0075, 0.01, 0.0125, 0.015, 0.0175, 0.02, 0.025, 0.03, 0.04)


@dataclass(frozen=True, slots=True, kw_only=True)
class Score:
    """What a strategy did to runs: means over splits, each a mean over models."""

    cost_saved: float
    solve_rate_delta_pp: float
    cost_of_pass_ratio: float | None
    dollars_saved: float


@dataclass(frozen=True, slots=True, kw_only=True)
class GrowthResult:
    """Every strategy under one assumption, and what explains the difference."""

    growth: Growth
    strategies: Mapping[str, Score]
    ablation: Mapping[str, Score]
    fixed_model_at_dynamic_loss: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnsEvaluation:
    """The whole comparison."""

    seed: int
    splits: int
    results: Sequence[GrowthResult]

    def shape(self) -> dict[str, Any]:
        """Return the JSON of `flyball eval turns`, with a report of what explains it."""
        return {
            "seed": self.seed,
            "splits": self.splits,
            "results": [
                {
                    "growth": result.growth.value,
                    "strategies": [
                        {
                            "name": name,
                            "cost_saved": score.cost_saved,
                            "solve_rate_delta_pp": score.solve_rate_delta_pp,
                            "cost_of_pass_ratio": score.cost_of_pass_ratio,
                        }
                        for name, score in result.strategies.items()
                    ],
                }
                for result in self.results
            ],
            "report": {r.growth.value: _report(r) for r in self.results},
        }


def evaluate_turns(
    runs: Sequence[RecordedRun],
    *,
    seed: int = 0,
    splits: int = SPLITS,
    begun: Callable[[str], None] = lambda _: None,
) -> TurnsEvaluation:
    """Return how the strategies fare on `runs`, averaged over seeded splits by task.

    `begun` is told what is compared next: it takes a minute where the runs are thousands.

    Raises:
        RunsFileError: fewer than two tasks, or nothing was spent.
    """
    tasks = sorted({recorded.instance_id for recorded in runs})
    if not tasks[1:]:
        raise RunsFileError("column instance_id names one task only: a split needs two at least")
    if not any(recorded.run.cost_microusd for recorded in runs):
        raise RunsFileError("column cost_usd is 0 in every line: nothing was spent")
    halves = [_halves(runs, tasks, seed=seed, split=split) for split in range(splits)]
    results = [_growth_result(halves, growth, begun) for growth in Growth]
    return TurnsEvaluation(seed=seed, splits=splits, results=results)


Half = list[RecordedRun]


def _halves(
    runs: Sequence[RecordedRun], tasks: Sequence[str], *, seed: int, split: int
) -> tuple[Half, Half]:
    shuffled = list(tasks)
    random.Random(f"{seed}/{split}").shuffle(shuffled)  # noqa: S311 - a split is no secret
    taught = set(shuffled[: len(shuffled) // 2])
    training = [recorded for recorded in runs if recorded.instance_id in taught]
    return training, [recorded for recorded in runs if recorded.instance_id not in taught]


def _growth_result(
    halves: Sequence[tuple[Half, Half]], growth: Growth, begun: Callable[[str], None]
) -> GrowthResult:
    def scored(name: str, learn: Learner) -> Score:
        begun(f"{growth.value}: {name}")
        return _mean([score(test, learn(training, growth), growth) for training, test in halves])

    strategies = {name: scored(name, learn) for name, learn in STRATEGIES.items()}
    frontier = [scored(f"fixed_model at {cap}", learn_fixed_model(cap)) for cap in _CAPS]
    others = {
        "dynamic_without_borrowing": learn_dynamic(borrowed_runs=0.0),
        "dynamic_that_may_refuse": learn_dynamic(may_refuse=True),
    }
    # Limits that already know the half they are judged on: none per model can do better.
    clairvoyant = learn_dynamic(borrowed_runs=0.0, folds=1)
    known = _mean([score(test, clairvoyant(test, growth), growth) for _, test in halves])
    return GrowthResult(
        growth=growth,
        strategies=strategies,
        ablation={
            **{name: scored(name, learn) for name, learn in others.items()},
            "ceiling_taught_on_test_half": known,
        },
        fixed_model_at_dynamic_loss=_read_off(frontier, strategies["dynamic"].solve_rate_delta_pp),
    )


def score(runs: Sequence[RecordedRun], limits: Limits, growth: Growth) -> Score:
    """Return what limits do to runs, each model counting the same."""
    by_model: dict[str, list[RecordedRun]] = defaultdict(list)
    for recorded in runs:
        by_model[recorded.model].append(recorded)
    saved, deltas, rates = [], [], []
    whole_spent = whole_cost = 0
    for model, own in by_model.items():
        limit = limits.of(model)
        cost = sum(r.run.cost_microusd for r in own)
        spent = sum(spent_microusd(r.run, limit=limit, growth=growth) for r in own)
        solved = sum(r.run.is_solved for r in own)
        kept = sum(is_kept(r.run, limit=limit) for r in own)
        whole_spent, whole_cost = whole_spent + spent, whole_cost + cost
        deltas.append((kept - solved) / len(own))
        rates.append(solved / len(own))
        if cost:  # of nothing, no share can be saved
            saved.append(1 - spent / cost)
    cost_saved = fmean(saved) if saved else 0.0
    rate, delta = fmean(rates), fmean(deltas)
    return Score(
        cost_saved=cost_saved,
        solve_rate_delta_pp=100 * delta,
        cost_of_pass_ratio=(1 - cost_saved) * rate / (rate + delta) if rate + delta > 0 else None,
        dollars_saved=1 - whole_spent / whole_cost if whole_cost else 0.0,
    )


def _mean(scores: Sequence[Score]) -> Score:
    ratios = [s.cost_of_pass_ratio for s in scores if s.cost_of_pass_ratio is not None]
    return Score(
        cost_saved=fmean(s.cost_saved for s in scores),
        solve_rate_delta_pp=fmean(s.solve_rate_delta_pp for s in scores),
        # Where some split solves nothing, a mean over the others would flatter.
        cost_of_pass_ratio=fmean(ratios) if len(ratios) == len(scores) else None,
        dollars_saved=fmean(s.dollars_saved for s in scores),
    )


def _read_off(frontier: Sequence[Score], delta_pp: float) -> float | None:
    """Return the frontier's saving at a loss, None outside of what it spans."""
    ordered = sorted(frontier, key=lambda s: -s.solve_rate_delta_pp)
    for gentler, harsher in pairwise(ordered):
        if gentler.solve_rate_delta_pp >= delta_pp >= harsher.solve_rate_delta_pp:
            width = gentler.solve_rate_delta_pp - harsher.solve_rate_delta_pp
            way = (gentler.solve_rate_delta_pp - delta_pp) / width if width else 0.0
            return gentler.cost_saved + way * (harsher.cost_saved - gentler.cost_saved)
    return None


def _report(result: GrowthResult) -> dict[str, Any]:
    both = {**result.strategies, **result.ablation}
    return {
        "fixed_model_cost_saved_at_dynamic_loss": result.fixed_model_at_dynamic_loss,
        "dollars_saved": {name: score.dollars_saved for name, score in both.items()},
        "ablation": [
            {
                "name": name,
                "cost_saved": score.cost_saved,
                "solve_rate_delta_pp": score.solve_rate_delta_pp,
            }
            for name, score in result.ablation.items()
        ],
    }
