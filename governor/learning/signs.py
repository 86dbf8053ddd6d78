"""What checks of an answer say of the chance that it is good, in log-odds that add up.

A check that proves an answer unusable decides alone. All others are weighed: each is weak,
and none may bring the chance to certainty.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from math import exp, log

CHANCE_MIN = 0.01
CHANCE_MAX = 0.99
_UNUSABLE = 0.02
_SHAPE_HELD = 0.4
_CUT_SHORT = -2.0
_EMPTY = -4.0
_JUDGE_WEIGHT = 2.5
_AGREEMENT_WEIGHT = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Sign:
    """What one check found: how much it moves the odds, or that the answer is unusable."""

    says: str
    log_odds: float = 0.0
    is_unusable: bool = False


def chance_after(prior: float, signs: Iterable[Sign]) -> float:
    """Return the chance that an answer is good, after what the checks found."""
    odds = log_odds_of(prior)
    for sign in signs:
        if sign.is_unusable:
            return _UNUSABLE
        odds += sign.log_odds
    return chance_of(odds)


def log_odds_of(chance: float) -> float:
    """Return the log-odds of a chance, which is never taken for certain."""
    held = min(max(chance, CHANCE_MIN), CHANCE_MAX)
    return log(held / (1.0 - held))


def chance_of(log_odds: float) -> float:
    """Return the chance with these log-odds, within what is taken for possible."""
    bounded = min(max(log_odds, -30.0), 30.0)
    return min(max(1.0 / (1.0 + exp(-bounded)), CHANCE_MIN), CHANCE_MAX)


def shape_sign(fault: str | None) -> Sign:
    """Return what it says that an answer has the shape that was asked for, or its fault."""
    if fault is None:
        return Sign(says="it has the shape that was asked for", log_odds=_SHAPE_HELD)
    return Sign(says=fault, is_unusable=True)


def ending_sign(*, is_cut: bool, is_empty: bool) -> Sign | None:
    """Return what the end of an answer says; None where it ended as answers do."""
    if is_empty:
        return Sign(says="it is empty", log_odds=_EMPTY)
    if is_cut:
        return Sign(says="it was cut short", log_odds=_CUT_SHORT)
    return None


def agreement_sign(alike: int, samples: int) -> Sign | None:
    """Return what it says that of `samples` further answers so many are alike; None for none.

    One is added to each side, so that two answers that agree do not prove each other.
    """
    if samples <= 0:
        return None
    assert 0 <= alike <= samples, "only what was sampled can agree"
    return Sign(
        says=f"{alike} of {samples} samples agree",
        log_odds=_AGREEMENT_WEIGHT * log((alike + 1) / (samples - alike + 1)),
    )


def judge_sign(score: float | None) -> Sign | None:
    """Return what a judge's score from 0 to 1 says; None where the judge gave none."""
    if score is None:
        return None
    held = min(max(score, 0.0), 1.0)
    return Sign(says=f"a judge gave {held:.2f}", log_odds=_JUDGE_WEIGHT * (2.0 * held - 1.0))
