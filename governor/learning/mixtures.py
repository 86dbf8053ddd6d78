"""What fixed tiers reach without learning: the best of their mixtures at a rate of spending."""

import numpy as np

from governor.learning.linear import Matrix


def best_mixture(costs: Matrix, scores: Matrix, budget: float) -> Matrix:
    """Return how often to take each tier for the best mean score within a mean cost.

    Where even the cheapest tier costs more, it is the cheapest.
    """
    shares, best = np.zeros(len(costs)), -np.inf
    for low in range(len(costs)):
        for high in range(len(costs)):
            if costs[low] > budget or (high != low and costs[high] <= budget):
                continue
            dearer = costs[high] - costs[low]
            part = 0.0 if high == low else (budget - costs[low]) / dearer
            score = (1 - part) * scores[low] + part * scores[high]
            if score > best + 1e-12:
                best, shares = score, np.zeros(len(costs))
                shares[low] += 1 - part
                shares[high] += part
    if not np.isfinite(best):
        cheapest = costs == costs.min()
        shares[int(np.argmax(np.where(cheapest, scores, -np.inf)))] = 1.0
    return shares
