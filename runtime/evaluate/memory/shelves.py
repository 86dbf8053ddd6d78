"""Conversations put on shelves as the product puts what it keeps, and searched as it searches."""

from collections.abc import Sequence
from dataclasses import dataclass

from governor.retrieval.analysis import index_terms, traits_of
from governor.retrieval.query import QueryParts, query_parts
from governor.retrieval.ranker import Ranker
from governor.retrieval.shelf import Shelf, ShelfEntry
from governor.retrieval.vectors import StaticVectors
from runtime.evaluate.memory.conversations import Conversation
from runtime.evaluate.memory.figures import DEPTH, Ranking


@dataclass(frozen=True, slots=True, kw_only=True)
class Shelved:
    """A conversation on a shelf, and its questions as they are asked; without vectors by words."""

    conversation: Conversation
    shelf: Shelf
    asked: tuple[QueryParts, ...]

    def rankings(self, ranker: Ranker) -> list[Ranking]:
        """Return the ids of turns for each question, the best first, none of them twice."""
        turns = self.conversation.turns
        return [
            list(
                dict.fromkeys(
                    turns[number].turn_id
                    for number, _ in self.shelf.search(parts, most=DEPTH, ranker=ranker)
                )
            )
            for parts in self.asked
        ]


def shelved(conversation: Conversation, vectors: StaticVectors | None) -> Shelved:
    """Return a conversation on a shelf of its own, its turns numbered from 0 on."""
    shelf = Shelf(axes=vectors.axes if vectors else 0)
    shelf.add(entries_of(conversation, vectors))
    return Shelved(
        conversation=conversation,
        shelf=shelf,
        asked=tuple(query_parts(question.text, vectors) for question in conversation.questions),
    )


def entries_of(conversation: Conversation, vectors: StaticVectors | None) -> Sequence[ShelfEntry]:
    """Return the turns of a conversation as a shelf takes them."""
    return [
        ShelfEntry(
            number=number,
            session=turn.session,
            actor=turn.speaker,
            at_ms=turn.at_ms,
            terms=index_terms(turn.text),
            traits=traits_of(turn.text),
            vector=vectors.embed(turn.text) if vectors else None,
        )
        for number, turn in enumerate(conversation.turns)
    ]
