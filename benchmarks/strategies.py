"""Whether cascades and auctions pay on recorded outcomes, against mixes of the fixed tiers.

    python -m benchmarks.strategies FOLDER

The folder holds files of JSON lines as `flyball eval router` reads them. What is compared is the
score at the same mean spend: a strategy against the best mix of fixed tiers, with intervals by
resampling the queries. Where the decision is asked for (`decided`) it is the shipped one, after
it has seen the first half of the queries; everything is told of the second half.

- `run`: a whole run of the cheap tier is judged by its calls and its cost (files that record
  them), with weights that are fitted on the first half.
- `check`: a check of the cheap answer that ranks good above bad with a given chance (AUC), and
  costs a given share of the cheap answer. No recorded check is in the data, so it is simulated.
- `auction`: bids that correlate with the outcome so much, at a given share of the cheap answer.
"""

import argparse
import json
import math
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import NormalDist

import numpy as np
import numpy.typing as npt

from governor.ids import TierName
from governor.learning.auction import Prospect, call_for_bids, trust_in
from governor.learning.cascade import NOTHING_SEEN, CascadeSeen, Rung, climb_from, plan_for
from governor.learning.signs import chance_of, log_odds_of
from governor.learning.strategy import Strategy

SEED = 7
RESAMPLES = 300
QUERIES_MAX = 2_000
GOOD = 0.85
# What a good answer is worth, in what the better tier costs for each further good one.
WORTHS = (0.5, 1.0, 2.0, 4.0)
AUCS = (0.6, 0.75, 0.9)
CHECK_SHARES = (0.1, 2.0)
CORRELATIONS = (0.0, 0.3, 0.6)
BID_SHARES = (0.2,)

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class Outcomes:
    """One file: for the cheapest and the dearest tier their scores and costs in micro-dollars."""

    name: str
    scores: Floats
    costs: Floats
    calls: Floats | None

    def half(self, *, second: bool) -> "Outcomes":
        """Return every other query."""
        at = slice(1 if second else 0, None, 2)
        calls = None if self.calls is None else self.calls[at]
        return Outcomes(name=self.name, scores=self.scores[at], costs=self.costs[at], calls=calls)

    @property
    def rungs(self) -> tuple[Rung, Rung]:
        """Return both tiers as they are on average."""
        low, high = (
            Rung(chance=float(self.scores[:, at].mean()), cost_microusd=round(cost))
            for at, cost in enumerate(self.costs.mean(axis=0).tolist())
        )
        return low, high

    @property
    def worth_one(self) -> float:
        """Return what a further good answer costs when the better tier answers always."""
        low, high = self.rungs
        gain = max(high.chance - low.chance, 0.01)
        return max(high.cost_microusd - low.cost_microusd, 1) / gain


@dataclass(frozen=True, kw_only=True)
class Played:
    """What a strategy came to on each query."""

    strategy: str
    detail: str
    worth: float
    scores: Floats
    costs: Floats
    climbs: float


def read(path: Path) -> Outcomes:
    """Return the outcomes in a file."""
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line]
    chance = np.random.default_rng(SEED)
    chosen = sorted(chance.permutation(len(rows))[:QUERIES_MAX].tolist())
    kept = [rows[at] for at in chosen]
    names = sorted(
        kept[0]["tiers"], key=lambda name: sum(row["tiers"][name]["cost"] for row in kept)
    )
    ends = (names[0], names[-1])
    table = [[row["tiers"][name] for name in ends] for row in kept]
    calls = None
    if all(ends[0] in row.get("features", {}) for row in kept):
        calls = np.array([row["features"][ends[0]]["calls"] for row in kept], dtype=np.float64)
    return Outcomes(
        name=path.stem,
        scores=np.array([[tier["score"] for tier in row] for row in table]),
        costs=np.array([[tier["cost"] * 1e6 for tier in row] for row in table]),
        calls=calls,
    )


def over_the_mix(played: Played, outcomes: Outcomes) -> float:
    """Return the score above the mix of fixed tiers that costs the same on average."""
    low, high = outcomes.costs.mean(axis=0)
    share = (played.costs.mean() - low) / max(high - low, 1e-9)
    ends = outcomes.scores.mean(axis=0)
    mixed = ends[0] + min(max(share, 0.0), 1.0) * (ends[1] - ends[0])
    return float(played.scores.mean() - mixed)


def interval(played: Played, outcomes: Outcomes, chance: np.random.Generator) -> list[float]:
    """Return the middle 95 % of the same figure over resampled queries."""
    found = []
    for _ in range(RESAMPLES):
        at = chance.integers(0, len(played.scores), len(played.scores))
        again = Played(
            strategy="",
            detail="",
            worth=0,
            scores=played.scores[at],
            costs=played.costs[at],
            climbs=0,
        )
        picked = Outcomes(name="", scores=outcomes.scores[at], costs=outcomes.costs[at], calls=None)
        found.append(over_the_mix(again, picked))
    return [float(edge) for edge in np.percentile(found, [2.5, 97.5])]


def failing_model(half: Outcomes) -> Callable[[Outcomes], Floats]:
    """Return what tells the chance of a good run by its calls and cost: logistic regression."""
    signs, target = _signs(half), (half.scores[:, 0] >= GOOD).astype(np.float64)
    weights = np.zeros(signs.shape[1])
    for _ in range(30):
        good = 1.0 / (1.0 + np.exp(-signs @ weights))
        slope = signs.T @ (target - good) - 0.1 * weights
        bend = (signs * (good * (1 - good))[:, None]).T @ signs + 0.1 * np.eye(len(weights))
        weights = weights + np.linalg.solve(bend, slope)
    return lambda other: np.asarray(1.0 / (1.0 + np.exp(-_signs(other) @ weights)))


def _signs(half: Outcomes) -> Floats:
    assert half.calls is not None, "only runs have calls"
    calls, cost = np.log(half.calls + 1), np.log(half.costs[:, 0] + 1)
    ones = np.ones_like(calls)
    return np.stack([ones, calls - 3.0, cost - 10.0], axis=1)


def checked(half: Outcomes, *, auc: float, chance: np.random.Generator) -> Floats:
    """Return the beliefs that a simulated check of that AUC leaves in the cheap answers."""
    apart = math.sqrt(2.0) * NormalDist().inv_cdf(auc)
    good = half.scores[:, 0] >= GOOD
    seen = chance.normal(0, 1, len(good)) + np.where(good, apart / 2, -apart / 2)
    prior = log_odds_of(float(good.mean()))
    return np.array([chance_of(prior + apart * one) for one in seen.tolist()])


def cascade(
    half: Outcomes, beliefs: Floats, *, rungs: tuple[Rung, Rung], worth: int, check: float
) -> tuple[Floats, Floats, npt.NDArray[np.bool_]]:
    """Return the scores, the costs and the climbs of a cascade by the shipped decision."""
    low, high = rungs
    climbs = np.array(
        [
            climb_from(
                belief, high, draft_chance=low.chance, value_microusd=worth, left_microusd=None
            ).is_worth_it
            for belief in beliefs.tolist()
        ]
    )
    scores = np.where(climbs, half.scores[:, 1], half.scores[:, 0])
    costs = half.costs[:, 0] + check + np.where(climbs, half.costs[:, 1], 0.0)
    return scores, costs, climbs


def taught(
    half: Outcomes, beliefs: Floats, *, rungs: tuple[Rung, Rung], worth: int, check: float
) -> CascadeSeen:
    """Return what the shipped memory knows after cascades over half of the queries."""
    scores, _, climbs = cascade(half, beliefs, rungs=rungs, worth=worth, check=check)
    seen = NOTHING_SEEN
    for at, climbed in enumerate(climbs.tolist()):
        draft, dear = (round(cost) for cost in half.costs[at].tolist())
        seen = seen.paid(
            was_kept=not climbed,
            draft_microusd=round(draft + check),
            climb_microusd=dear if climbed else None,
        ).scored(was_kept=not climbed, score=float(scores[at]))
    return seen


def play_cascade(
    first: Outcomes, second: Outcomes, beliefs: tuple[Floats, Floats], *, detail: str, check: float
) -> list[Played]:
    """Return a forced cascade, and what the decision made of it, at each worth of an answer."""
    rungs, played = first.rungs, []
    for times in WORTHS:
        worth = round(first.worth_one * times)
        scores, costs, climbs = cascade(second, beliefs[1], rungs=rungs, worth=worth, check=check)
        forced = Played(
            strategy="cascade",
            detail=detail,
            worth=times,
            scores=scores,
            costs=costs,
            climbs=float(climbs.mean()),
        )
        seen = taught(first, beliefs[0], rungs=rungs, worth=worth, check=check)
        plan = plan_for(rungs, check_microusd=round(check), value_microusd=worth, seen=seen)
        played.append(forced)
        played.append(
            _decided(forced, second, is_taken=plan.strategy is Strategy.CASCADE, start=plan.start)
        )
    return played


def _decided(forced: Played, half: Outcomes, *, is_taken: bool, start: int) -> Played:
    name = forced.strategy if is_taken else f"single {('low', 'high')[start]}"
    return Played(
        strategy=f"decided: {name}",
        detail=forced.detail,
        worth=forced.worth,
        scores=forced.scores if is_taken else half.scores[:, start],
        costs=forced.costs if is_taken else half.costs[:, start],
        climbs=forced.climbs if is_taken else float(start),
    )


def play_auction(
    first: Outcomes,
    second: Outcomes,
    *,
    correlation: float,
    share: float,
    chance: np.random.Generator,
) -> list[Played]:
    """Return an auction that is always held, and what the decision made of it."""
    rungs, played = first.rungs, []
    bid = share * rungs[0].cost_microusd, share * rungs[1].cost_microusd
    claims = [_claims(half, correlation=correlation, chance=chance) for half in (first, second)]
    pairs = [
        (float(claim - rung.chance), float(score - rung.chance))
        for at, rung in enumerate(rungs)
        for claim, score in zip(claims[0][-100:, at], first.scores[-100:, at], strict=True)
    ]
    trust = trust_in(pairs)
    for times in WORTHS:
        worth = first.worth_one * times
        told = trust * claims[1] + (1 - trust) * np.array([rung.chance for rung in rungs])
        utility = worth * told - np.array([rung.cost_microusd for rung in rungs])
        taken = utility.argmax(axis=1)
        at = np.arange(len(taken))
        forced = Played(
            strategy="auction",
            detail=f"r {correlation}, bids {share:.0%}",
            worth=times,
            scores=second.scores[at, taken],
            costs=second.costs[at, taken] + sum(bid),
            climbs=float(taken.mean()),
        )
        calling = call_for_bids(
            [
                Prospect(
                    tier=TierName(name),
                    chance=rung.chance,
                    spread=float(spread),
                    cost_microusd=rung.cost_microusd,
                )
                for name, rung, spread in zip(
                    ("low", "high"), rungs, first.scores.std(axis=0), strict=True
                )
            ],
            bid_microusd={TierName("low"): round(bid[0]), TierName("high"): round(bid[1])},
            trust=trust,
            value_microusd=round(worth),
        )
        single = max((0, 1), key=lambda at: worth * rungs[at].chance - rungs[at].cost_microusd)
        played += [forced, _decided(forced, second, is_taken=calling.is_worth_it, start=single)]
    return played


def _claims(half: Outcomes, *, correlation: float, chance: np.random.Generator) -> Floats:
    """Return claims between 0 and 1 that correlate so with each tier's own outcome."""
    centred = (half.scores - half.scores.mean(axis=0)) / np.maximum(half.scores.std(axis=0), 1e-9)
    noise = chance.normal(0, 1, half.scores.shape)
    mixed = correlation * centred + math.sqrt(1 - correlation**2) * noise
    spread = np.maximum(half.scores.std(axis=0), 1e-9)
    return np.asarray(np.clip(half.scores.mean(axis=0) + spread * mixed, 0.0, 1.0))


def play(outcomes: Outcomes) -> list[Played]:
    """Return everything that is played on one file."""
    chance = np.random.default_rng(SEED)
    first, second = outcomes.half(second=False), outcomes.half(second=True)
    played: list[Played] = []
    if outcomes.calls is not None:
        model = failing_model(first)
        beliefs = model(first), model(second)
        played += play_cascade(first, second, beliefs, detail="run", check=0.0)
    for auc in AUCS:
        beliefs = (
            checked(first, auc=auc, chance=chance),
            checked(second, auc=auc, chance=chance),
        )
        for share in CHECK_SHARES:
            played += play_cascade(
                first,
                second,
                beliefs,
                detail=f"check AUC {auc}, {share:.0%}",
                check=share * first.rungs[0].cost_microusd,
            )
    for correlation in CORRELATIONS:
        for share in BID_SHARES:
            played += play_auction(
                first, second, correlation=correlation, share=share, chance=chance
            )
    return played


def lines_of(outcomes: Outcomes) -> Iterator[dict[str, object]]:
    """Yield what every strategy came to on one file."""
    second, chance = outcomes.half(second=True), np.random.default_rng(SEED)
    for one in play(outcomes):
        yield {
            "set": outcomes.name,
            "strategy": one.strategy,
            "detail": one.detail,
            "worth": one.worth,
            "score": round(float(one.scores.mean()), 4),
            "cost_microusd": round(float(one.costs.mean())),
            "climbs": round(one.climbs, 3),
            "over_the_mix_pp": round(100 * over_the_mix(one, second), 2),
            "ci95_pp": [round(100 * edge, 2) for edge in interval(one, second, chance)],
        }


def main(arguments: Sequence[str] | None = None) -> None:
    """Print a line for each strategy, or one JSON object."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--json", action="store_true")
    stated = parser.parse_args(arguments)
    found = [
        line for path in sorted(stated.folder.glob("*.jsonl")) for line in lines_of(read(path))
    ]
    if stated.json:
        json.dump({"seed": SEED, "n_max": QUERIES_MAX, "results": found}, sys.stdout, indent=1)
        return
    for line in found:
        print("\t".join(str(value) for value in line.values()))


if __name__ == "__main__":
    main()
