"""Several scorings of the same texts made one."""

from collections.abc import Iterable, Mapping


def fused(parts: Iterable[tuple[Mapping[int, float], float]]) -> dict[int, float]:
    """Return the weighted sum of scorings, each measured by its own best."""
    bests = ((scores, weight, max(scores.values(), default=0.0)) for scores, weight in parts)
    return added((scores, weight / best) for scores, weight, best in bests if best > 0)


def added(parts: Iterable[tuple[Mapping[int, float], float]]) -> dict[int, float]:
    """Return the weighted sum of scorings that share a scale."""
    total: dict[int, float] = {}
    for scores, weight in parts:
        if not total:
            total = {number: weight * score for number, score in scores.items()}
            continue
        for number, score in scores.items():
            total[number] = total.get(number, 0.0) + weight * score
    return total


def measured(scores: Mapping[int, float]) -> dict[int, float]:
    """Return the scores as shares of the best, which is exactly 1."""
    best = max(scores.values(), default=0.0)
    return {number: score / best for number, score in scores.items()} if best > 0 else {}
