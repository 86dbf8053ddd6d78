"""How far a share is known by what was counted (Wilson's interval, which holds for few as well)."""

from dataclasses import dataclass
from math import sqrt

_NORMAL_95 = 1.959964


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """The lowest and the highest share that what was counted leaves likely."""

    low: float
    high: float


def bounds_of(good: float, total: float, *, z: float = _NORMAL_95) -> Bounds:
    """Return the bounds of a share; counts may be fractions, as of what lies back."""
    if total <= 0:
        return Bounds(low=0.0, high=1.0)
    assert 0 <= good <= total, "there are no more good ones than there are"
    share, square = good / total, z * z
    middle = (share + square / (2 * total)) / (1 + square / total)
    half = (z / (1 + square / total)) * sqrt(
        share * (1 - share) / total + square / (4 * total * total)
    )
    return Bounds(low=max(0.0, middle - half), high=min(1.0, middle + half))
