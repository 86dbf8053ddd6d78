"""How well rankings put the evidence of questions first.

Recall at k is the share of a question's evidence among the first k; recall in so many tokens is
the share that fits where whatever no longer fits is passed over. Intervals are bootstraps over
conversations, which is what the questions of one have in common.
"""

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import log2
from statistics import fmean

from runtime.evaluate.memory.conversations import MAIN_KINDS, Conversation, Question

DEPTH = 200
TOKENS = 512
RESAMPLES = 2_000
_CUT, _MRR_CUT = 10, 50
KEYS = ("recall@5", "recall@10", "ndcg@10", "mrr", f"recall@{TOKENS}tokens")

Ranking = Sequence[str]
Interval = tuple[float, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Scored:
    """The figures of one question, by `KEYS`, with its kind and its conversation."""

    conversation: int
    kind: int
    figures: Mapping[str, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """What was scored, question by question."""

    scored: tuple[Scored, ...]

    def of_kinds(self, *kinds: int) -> "Figures":
        """Return the questions of some kinds alone."""
        return Figures(scored=tuple(one for one in self.scored if one.kind in kinds))

    def means(self) -> dict[str, float]:
        """Return the mean of each figure; there must be a question."""
        return {key: fmean(one.figures[key] for one in self.scored) for key in KEYS}

    def interval(self, key: str, *, seed: int) -> Interval:
        """Return the 95 % interval of a mean, by a bootstrap over conversations."""
        by_conversation: dict[int, list[float]] = {}
        for one in self.scored:
            by_conversation.setdefault(one.conversation, []).append(one.figures[key])
        groups, chance = list(by_conversation.values()), random.Random(seed)  # noqa: S311
        means = sorted(_resampled(groups, chance.choices) for _ in range(RESAMPLES))
        return means[int(0.025 * RESAMPLES)], means[int(0.975 * RESAMPLES) - 1]


def _resampled(groups: list[list[float]], choices: Callable[..., list[list[float]]]) -> float:
    return fmean(value for group in choices(groups, k=len(groups)) for value in group)


def score(conversations: Sequence[Conversation], rankings: Sequence[Sequence[Ranking]]) -> Figures:
    """Return how the rankings of each conversation's questions do: ids of turns, best first."""
    return Figures(
        scored=tuple(
            Scored(conversation=at, kind=question.kind, figures=_figures(question, ranking, tokens))
            for at, (conversation, ranked) in enumerate(zip(conversations, rankings, strict=True))
            for tokens in [{turn.turn_id: turn.tokens for turn in conversation.turns}]
            for question, ranking in zip(conversation.questions, ranked, strict=True)
        )
    )


def main_of(figures: Figures) -> Figures:
    """Return the questions that count: all but those about what was never said."""
    return figures.of_kinds(*MAIN_KINDS)


def _figures(question: Question, ranking: Ranking, tokens: Mapping[str, int]) -> dict[str, float]:
    evidence = question.evidence
    ranks = [at for at, turn in enumerate(ranking[:_MRR_CUT], start=1) if turn in evidence]
    within = [rank for rank in ranks if rank <= _CUT]
    ideal = sum(1 / log2(rank + 1) for rank in range(1, min(len(evidence), _CUT) + 1))
    return {
        "recall@5": sum(rank <= 5 for rank in ranks) / len(evidence),  # noqa: PLR2004
        "recall@10": len(within) / len(evidence),
        "ndcg@10": sum(1 / log2(rank + 1) for rank in within) / ideal,
        "mrr": 1 / ranks[0] if ranks else 0.0,
        f"recall@{TOKENS}tokens": _fitting(evidence, ranking, tokens) / len(evidence),
    }


def _fitting(evidence: frozenset[str], ranking: Ranking, tokens: Mapping[str, int]) -> int:
    left, found = TOKENS, 0
    for turn in ranking:
        if tokens[turn] <= left:
            left -= tokens[turn]
            found += turn in evidence
    return found
