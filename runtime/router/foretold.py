"""How what models expected of answers compares with what the answers were worth."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from governor.learning.offpolicy import LikelyValue, Logged, on_policy
from runtime.router.off_policy import RatedDecision, estimate_json

BINS = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Bin:
    """Answers of which about the same quality was expected, from `low` to below `high`."""

    low: float
    high: float
    expected: float
    came: LikelyValue


@dataclass(frozen=True, slots=True, kw_only=True)
class Foretold:
    """The forecasts of rated answers in bins, and by how much they are off on average.

    `unforetold` are rated answers whose tiers the rules chose: nothing was expected of those.
    """

    n: int
    unforetold: int
    bins: tuple[Bin, ...]

    @property
    def error(self) -> float | None:
        """Return the mean distance of what was expected from what came; None without any."""
        off = sum(abs(one.expected - one.came.value) * one.came.n for one in self.bins)
        return off / self.n if self.n else None

    def shape(self) -> dict[str, object]:
        """Return it as JSON."""
        error = self.error
        return {
            "n": self.n,
            "unforetold": self.unforetold,
            "error": None if error is None else round(error, 6),
            "bins": [
                {
                    "low": one.low,
                    "high": one.high,
                    "expected": round(one.expected, 6),
                    "came": estimate_json(one.came),
                }
                for one in self.bins
            ],
        }


def foretold_of(rated: Sequence[RatedDecision]) -> Foretold:
    """Return what models expected of the tiers that were taken, beside what came of it.

    As they said it when they chose, so no model is held against what it has learned from.
    """
    known = [one for one in rated if one.model is not None]
    of_bin: dict[int, list[RatedDecision]] = {}
    for one in known:
        at = int(one.options[one.tier].quality * BINS)
        of_bin.setdefault(min(max(at, 0), BINS - 1), []).append(one)
    return Foretold(
        n=len(known),
        unforetold=len(rated) - len(known),
        bins=tuple(_bin(at, of_bin[at]) for at in sorted(of_bin)),
    )


def _bin(at: int, rated: Sequence[RatedDecision]) -> Bin:
    scores = np.array([one.score for one in rated])
    counts = np.array([one.weight for one in rated])
    ones = np.ones_like(scores)
    sessions = {name: number for number, name in enumerate({one.session for one in rated})}
    expected = np.array([one.options[one.tier].quality for one in rated])
    came = on_policy(
        Logged(
            rewards=scores,
            propensities=ones,
            targets=ones,
            modelled=scores,
            modelled_policy=scores,
            groups=np.array([sessions[one.session] for one in rated], dtype=np.int64),
            counts=counts,
        )
    )
    return Bin(
        low=at / BINS,
        high=(at + 1) / BINS,
        expected=float(np.average(expected, weights=counts)),
        came=came,
    )
