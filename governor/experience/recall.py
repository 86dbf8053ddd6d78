"""What a plan makes of what was gathered for it: one order, what stands around, what fits.

The passages are found elsewhere; here is decided what counts of them, stage by stage.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from governor.experience.passages import (
    Left,
    Passage,
    Words,
    covering,
    further_words,
    nearly_once,
    once,
    rarity_of,
)
from governor.experience.search import MemoryTier
from governor.experience.stages import Plan

# How much wider is searched than is shown: copies give way, and the order is made anew.
POOL_FACTOR = 3
_FEEDBACK_PASSAGES = 5
_FURTHER_WORDS = 6
_SECOND_COUNTS = 0.5
# Only what surely belongs to the answer is worth its surroundings.
_EXPANDED_MAX = 5
_AROUND: Mapping[MemoryTier, int] = {MemoryTier.LOW: 0, MemoryTier.MID: 1, MemoryTier.HIGH: 3}


@dataclass(frozen=True, slots=True, kw_only=True)
class Ordered:
    """Passages in the order in which they are shown, and what is not shown.

    For each of `left` another passage stands; those `beyond` are more than the plan shows.
    """

    passages: tuple[Passage, ...]
    left: tuple[Left, ...] = ()
    beyond: tuple[Passage, ...] = ()


def shown_most(plan: Plan, most: int) -> int:
    """Return how many passages a plan shows where a caller asks for so many."""
    match plan.filter:
        case MemoryTier.LOW:
            return max(1, -(-most * 3 // 10))
        case MemoryTier.MID:
            return most
        case MemoryTier.HIGH:
            return most * 2


def pool_of(plan: Plan, most: int) -> int:
    """Return how many passages to search for, so that there is something to choose from."""
    return shown_most(plan, most) * POOL_FACTOR


def reads_words(plan: Plan) -> bool:
    """Tell whether a plan goes by the words of the passages that were found."""
    return MemoryTier.HIGH in {plan.filter, plan.retrieve, plan.rerank}


def asks_again(plan: Plan) -> bool:
    """Tell whether a second search is made with the words of what the first one found."""
    return plan.retrieve is MemoryTier.HIGH


def words_again(question: Words, found: Sequence[Passage]) -> Words:
    """Return the words of the second search, none where the first one found nothing."""
    best = found[:_FEEDBACK_PASSAGES]
    return further_words(question, best, rarity_of(found), most=_FURTHER_WORDS)


def ordered(
    plan: Plan,
    question: Words,
    found: Sequence[Passage],
    *,
    again: Sequence[Passage] = (),
    most: int,
) -> Ordered:
    """Return passages in the order of a plan where a caller asks for so many.

    `again` is what the second search found. What is found beyond them is `beyond`.
    """
    pool = fused(found, again) if again else list(found)
    fold = nearly_once if plan.filter is MemoryTier.HIGH else once
    pool, left = fold(pool)
    shown = shown_most(plan, most)
    if plan.rerank is MemoryTier.HIGH:
        pool = covering(question, pool, most=shown)
    return Ordered(passages=tuple(pool[:shown]), left=tuple(left), beyond=tuple(pool[shown:]))


def fused(first: Sequence[Passage], second: Sequence[Passage]) -> list[Passage]:
    """Return what two searches found, by the sum of their scores over the best of each."""
    scores: dict[int, float] = {}
    passages: dict[int, Passage] = {}
    for found, counts in ((first, 1.0), (second, _SECOND_COUNTS)):
        best = max((passage.score for passage in found), default=0.0)
        for passage in found:
            share = passage.score / best if best > 0 else 1.0
            scores[passage.number] = scores.get(passage.number, 0.0) + counts * share
            passages.setdefault(passage.number, passage)
    order = sorted(scores, key=lambda number: (-scores[number], number))
    return [replace(passages[number], score=scores[number]) for number in order]


def around(plan: Plan) -> int:
    """Return how many passages before and after each of the best are shown with it."""
    return _AROUND[plan.expand]


def expanded_of(plan: Plan, order: Ordered) -> tuple[Passage, ...]:
    """Return the passages whose surroundings are wanted."""
    return order.passages[:_EXPANDED_MAX] if around(plan) else ()


def with_surroundings(
    order: Ordered, surroundings: Mapping[int, Sequence[Passage]]
) -> tuple[Passage, ...]:
    """Return the passages, each followed by what stands around it and was not found itself."""
    seen = {passage.number for passage in order.passages}
    shown: list[Passage] = []
    for passage in order.passages:
        shown.append(passage)
        for near in surroundings.get(passage.number, ()):
            if near.number not in seen:
                seen.add(near.number)
                shown.append(near)
    return tuple(shown)
