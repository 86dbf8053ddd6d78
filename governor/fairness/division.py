"""Max-min fair division of whole units among weighted demands."""

from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from heapq import heapify, heappop, heapreplace
from typing import TypeVar

from governor.errors import InvalidAmountError

Who = TypeVar("Who", bound=Hashable)


@dataclass(frozen=True, slots=True, kw_only=True)
class Demand:
    """How many units somebody wants, and how much it counts beside the others.

    Raises:
        InvalidAmountError: the demand is negative, or the weight is not positive.
    """

    wanted: int
    weight: int = 1

    def __post_init__(self) -> None:
        """Refuse what cannot be divided by."""
        if self.wanted < 0:
            raise InvalidAmountError(f"wanted: {self.wanted} is negative")
        if self.weight <= 0:
            raise InvalidAmountError(f"weight: {self.weight} is not positive")


def divide(capacity: int, demands: Mapping[Who, Demand]) -> dict[Who, int]:
    """Return what each gets of `capacity`: nobody more than wanted, the total exact.

    The division is max-min fair: one unit more for somebody who wants it could only come
    from somebody who has, by weight, no more. It is what handing out unit after unit gives,
    each to the one with the least by weight; of equals the one named first.

    Raises:
        InvalidAmountError: the capacity is negative.
    """
    if capacity < 0:
        raise InvalidAmountError(f"capacity: {capacity} is negative")
    if sum(demand.wanted for demand in demands.values()) <= capacity:
        return {who: demand.wanted for who, demand in demands.items()}
    # Rounding up gives each at most one unit more than the exact level: with so many units
    # kept back, the level below is reached by the whole division and nothing is taken back.
    level = _level(max(0, capacity - len(demands)), demands)
    got = {who: min(demand.wanted, int(level * demand.weight)) for who, demand in demands.items()}
    _hand_out(capacity - sum(got.values()), got, demands)
    return got


def short_of_one(demands: Mapping[Who, Demand]) -> Who:
    """Return who gets one unit less than wanted when all but one unit is there.

    It is the one whose last unit weighs the least; of equals the one named last. Somebody
    must want something.
    """
    wanting = [(who, demand) for who, demand in demands.items() if demand.wanted]
    assert wanting, "where nothing is wanted nobody is short"
    loser, most = wanting[0]
    for who, demand in wanting[1:]:
        if (demand.wanted - 1) * most.weight >= (most.wanted - 1) * demand.weight:
            loser, most = who, demand
    return loser


def _level(capacity: int, demands: Mapping[Who, Demand]) -> Fraction:
    """Return how high the water stands, per weight, when `capacity` is poured in."""
    rising = sorted(demands.values(), key=lambda demand: Fraction(demand.wanted, demand.weight))
    left, weight = capacity, sum(demand.weight for demand in rising)
    for demand in rising:
        if demand.wanted * weight > left * demand.weight:
            return Fraction(left, weight)
        left -= demand.wanted
        weight -= demand.weight
    raise AssertionError("more is wanted than there is")


def _hand_out(units: int, got: dict[Who, int], demands: Mapping[Who, Demand]) -> None:
    """Add `units`, one by one, each to the one that has the least by weight."""
    line = [
        (Fraction(got[who], demand.weight), place, who)
        for place, (who, demand) in enumerate(demands.items())
        if got[who] < demand.wanted
    ]
    heapify(line)
    for _ in range(units):
        _, place, who = line[0]
        got[who] += 1
        if got[who] < demands[who].wanted:
            heapreplace(line, (Fraction(got[who], demands[who].weight), place, who))
        else:
            heappop(line)
