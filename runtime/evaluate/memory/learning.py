"""What supervision buys: a ranker learned from the other conversations, tried on the one left out.

Learning begins with the shipped ranker and moves away from it as far as the lists are worth it.
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

# As many lists as what was there before is worth; results hardly change between 10 and 300.
PULL = 100.0
_HARDLY = 1e-6


def left_out_rankings(shelves: Sequence[Shelved], *, before: LinearRanker) -> list[list[Ranking]]:
    """Return the rankings of each conversation by a ranker learned from all the others."""
    lists = [lists_of(one) for one in shelves]
    return [
        one.rankings(
            ranker_of(
                [each for at, some in enumerate(lists) if at != out for each in some],
                before=before,
            )
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


def ranker_of(lists: Sequence[Ranked], *, before: LinearRanker) -> LinearRanker:
    """Return the ranker that lists teach, for questions like theirs: with a vector or without.

    Without a list it is the one that was there before.
    """
    if not lists:
        return before
    total = len(lists[0].rows)
    weights = before.weights_of(total).astype(np.float64)
    # What a softmax makes of scores depends on their size, which a ranking does not.
    scored = [
        Ranked(rows=np.asarray([weights @ one.rows], dtype=np.float32), right=one.right)
        for one in lists
    ]
    towards = float(fitted(scored, pull=_HARDLY)[0]) * weights
    learned = fitted(lists, pull=PULL, towards=towards).tolist()
    named = dict(zip(FEATURES[:total], learned, strict=True))
    if total == len(FEATURES):
        return LinearRanker(with_meaning=named, by_words={})
    return LinearRanker(with_meaning={}, by_words=named)
