"""Rankings of conversations by the shipped ranker, with and without a model, and by a learned one.

Nothing of the conversations reaches the shipped ranker: each is put on a shelf of its own and
asked its questions.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from governor.retrieval.ranker import LinearRanker
from governor.retrieval.vectors import StaticVectors
from runtime.errors import RuntimeFaultError
from runtime.evaluate.memory.conversations import Conversation
from runtime.evaluate.memory.figures import Figures, main_of, score
from runtime.evaluate.memory.learning import left_out_rankings
from runtime.evaluate.memory.shelves import Shelved, shelved

_CONVERSATIONS_MIN = 2


class TooFewConversationsError(RuntimeFaultError):
    """One conversation cannot be left out of less than two; give a file with more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Learned:
    """How rankers do that were learned from the other conversations."""

    with_meaning: Figures
    by_words: Figures


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryEvaluation:
    """How the shipped ranker does with vectors and by words alone, and what learning adds."""

    with_meaning: Figures
    by_words: Figures
    learned: Learned | None

    def shape(self) -> dict[str, Any]:
        """Return the JSON of `flyball eval memory`."""
        shape: dict[str, Any] = {
            "main": main_of(self.with_meaning).means(),
            "no_model": main_of(self.by_words).means(),
        }
        if self.learned is not None:
            shape["learned"] = main_of(self.learned.with_meaning).means()
            shape["learned_no_model"] = main_of(self.learned.by_words).means()
        return {**shape, "n": len(main_of(self.with_meaning).scored)}


def evaluate(
    conversations: Sequence[Conversation],
    *,
    ranker: LinearRanker,
    vectors: StaticVectors | None,
    learned: bool,
) -> MemoryEvaluation:
    """Return how well the evidence of the conversations' questions is found.

    Raises:
        TooFewConversationsError: learning needs others than the one that is tried.
    """
    if learned and len(conversations) < _CONVERSATIONS_MIN:
        raise TooFewConversationsError
    whole = [shelved(conversation, vectors) for conversation in conversations]
    words = [shelved(conversation, None) for conversation in conversations]
    return MemoryEvaluation(
        with_meaning=_by(ranker, whole),
        by_words=_by(ranker, words),
        learned=_learned(whole, words, before=ranker) if learned else None,
    )


def _by(ranker: LinearRanker, shelves: Sequence[Shelved]) -> Figures:
    return score([one.conversation for one in shelves], [one.rankings(ranker) for one in shelves])


def _learned(
    whole: Sequence[Shelved], words: Sequence[Shelved], *, before: LinearRanker
) -> Learned:
    conversations = [one.conversation for one in whole]
    return Learned(
        with_meaning=score(conversations, left_out_rankings(whole, before=before)),
        by_words=score(conversations, left_out_rankings(words, before=before)),
    )
