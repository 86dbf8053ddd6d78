"""Several scorings of the same texts made one."""

from collections import defaultdict
from collections.abc import Iterable, Mapping


def fused(parts: Iterable[tuple[Mapping[int, float], float]]) -> dict[int, float]:
    """Return the weighted sum of scorings, each measured by its own best."""
    total: dict[int, float] = defaultdict(float)
    for scores, weight in parts:
        best = max(scores.values(), default=0.0)
        if best > 0:
            for number, score in scores.items():
                total[number] += weight * score / best
    return total


def added(parts: Iterable[tuple[Mapping[int, float], float]]) -> dict[int, float]:
    """Return the weighted sum of scorings that share a scale."""
    total: dict[int, float] = defaultdict(float)
    for scores, weight in parts:
        for number, score in scores.items():
            total[number] += weight * score
    return total
