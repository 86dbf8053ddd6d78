"""What supervision buys: a ranker learned from the other conversations, tried on the one left out.

Nothing of a conversation is seen by the ranker that it is ranked with, and nothing is written.
"""

from collections.abc import Sequence

import numpy as np

from governor.learning.listwise import Ranked, fitted
from governor.retrieval.features import FEATURES
from governor.retrieval.ranker import LinearRanker
from runtime.evaluate.memory.conversations import MAIN_KINDS
from runtime.evaluate.memory.figures import Ranking
from runtime.evaluate.memory.shelves import Shelved

# As many lists as the penalty outweighs; results hardly change between 3 and 30.
PULL = 10.0


def left_out_rankings(shelves: Sequence[Shelved]) -> list[list[Ranking]]:
    """Return the rankings of each conversation by a ranker learned from all the others."""
    lists = [lists_of(one) for one in shelves]
    return [
        one.rankings(
            ranker_of([each for at, some in enumerate(lists) if at != out for each in some])
        )
        for out, one in enumerate(shelves)
    ]


def lists_of(shelf: Shelved) -> list[Ranked]:
    """Return what can be learned from: each main question's candidates and which are evidence."""
    found = []
    for question, parts in zip(shelf.conversation.questions, shelf.asked, strict=True):
        numbers, rows = shelf.shelf.features(parts)
        turns = shelf.conversation.turns
        right = np.array([turns[at].turn_id in question.evidence for at in numbers.tolist()])
        if question.kind in MAIN_KINDS and right.any():
            found.append(Ranked(rows=rows, right=right / right.sum()))
    return found


def ranker_of(lists: Sequence[Ranked]) -> LinearRanker:
    """Return the ranker that lists teach, for questions like theirs: with a vector or without."""
    weights = dict(zip(FEATURES, fitted(lists, pull=PULL).tolist(), strict=False))
    if len(weights) == len(FEATURES):
        return LinearRanker(with_meaning=weights, by_words={})
    return LinearRanker(with_meaning={}, by_words=weights)
