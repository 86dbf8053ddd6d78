"""Make the ranker of memory that Flyball ships, out of made-up dialogues and weights by reason.

The dialogues are `memory_dialogues.py`'s, the runs of agents `memory_runs.py`'s: nothing is taken
from any data set. Weights are fitted to them under a pull to zero that is as strong as a third of
the lists, only where they have the sign that reason gives them, and then averaged with those of
`PLAIN_RANKER`, both measured by the sum of their sizes: whatever is odd about made-up dialogues
counts half. The same seed gives the same file, but for the last digit that another library of
linear algebra may round otherwise.

Usage: python -m benchmarks.train_memory_ranker OUT [--dialogues 30] [--runs 6] [--seed 1]
"""

import argparse
import json
from collections.abc import Mapping, Sequence
from itertools import chain
from pathlib import Path

import numpy as np

from benchmarks.memory_dialogues import dialogues
from benchmarks.memory_runs import runs
from governor.learning.listwise import Ranked, fitted
from governor.retrieval.features import BY_MEANING, FEATURES
from governor.retrieval.ranker import PLAIN_RANKER
from governor.retrieval.vectors import StaticVectors
from runtime.evaluate.memory.learning import lists_of
from runtime.evaluate.memory.shelves import shelved
from runtime.word_vectors import word_vectors

PULL_SHARE = 0.3
# What reason gives a sign: all speak for a text but that it is itself a question. The others are
# left out: next to these they only take away what these say too much.
FITTED = (
    *("item", "with_before", "window", "wide", "session", "session_best", "cover_window"),
    *("actor", "moment", "question", "self", "time_when", "number_many", "length", "image"),
    *("answers", "answers_words"),
    *("near", "near_before", "near_wide", "near_session", "near_even"),
)
AGAINST = ("question",)


def lists(total: int, others: int, *, seed: int, vectors: StaticVectors | None) -> list[Ranked]:
    """Return what is learned from: the questions of dialogues and of runs."""
    made = chain(dialogues(total, seed=seed), runs(others, seed=seed))
    return [one for conversation in made for one in lists_of(shelved(conversation, vectors))]


def signed(made: Sequence[Ranked], names: Sequence[str]) -> dict[str, float]:
    """Return the weights of the features that keep the sign which reason gives them."""
    kept = [name for name in names if name in FITTED]
    while True:
        places = [names.index(name) for name in kept]
        cut = [Ranked(rows=one.rows[places], right=one.right) for one in made]
        weights = dict(zip(kept, fitted(cut, pull=PULL_SHARE * len(made)).tolist(), strict=True))
        wrong = {name for name, weight in weights.items() if (weight > 0) == (name in AGAINST)}
        if not wrong:
            return weights
        kept = [name for name in kept if name not in wrong]


def averaged(*parts: Mapping[str, float]) -> dict[str, float]:
    """Return the mean of weights, each measured by the sum of its sizes, rounded."""
    sizes = [sum(map(abs, part.values())) for part in parts]
    names = [name for name in FEATURES if any(part.get(name) for part in parts)]
    return {
        name: round(
            float(
                np.mean(
                    [10 * part.get(name, 0) / size for part, size in zip(parts, sizes, strict=True)]
                )
            ),
            4,
        )
        for name in names
    }


def main() -> None:
    """Write the ranker."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path)
    parser.add_argument("--dialogues", type=int, default=30)
    parser.add_argument("--runs", type=int, default=6)
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()
    whole = lists(asked.dialogues, asked.runs, seed=asked.seed, vectors=word_vectors())
    words = lists(asked.dialogues, asked.runs, seed=asked.seed, vectors=None)
    plain = FEATURES[: len(FEATURES) - len(BY_MEANING)]
    ranker = {
        "with_meaning": averaged(signed(whole, FEATURES), PLAIN_RANKER.with_meaning),
        "by_words": averaged(signed(words, plain), PLAIN_RANKER.by_words),
    }
    asked.out.write_text(json.dumps(ranker, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
