"""Reading messages and questions about them, in the format of MemDaily, and measuring those."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean

from governor.retrieval.ranker import Ranker
from governor.retrieval.vectors import StaticVectors
from runtime.evaluate.memory.conversations import (
    Conversation,
    ConversationsFileError,
    Question,
    Turn,
    read_json,
    tokens_of,
)
from runtime.evaluate.memory.shelves import shelved

CUT = 5


def read_messages(path: Path) -> tuple[Conversation, ...]:
    """Return each trajectory of a file as a conversation of one session.

    Raises:
        ConversationsFileError: the file cannot be read, or is not of MemDaily's format.
    """
    try:
        found = tuple(_trajectory(one) for one in _rows(read_json(path)))
    except (KeyError, TypeError, ValueError) as error:
        raise ConversationsFileError(f"{path}: is not of MemDaily's format: {error!r}") from error
    if not any(conversation.questions for conversation in found):
        raise ConversationsFileError(f"{path}: has no question whose evidence is there")
    return found


def recall_of(
    conversations: Sequence[Conversation], *, ranker: Ranker, vectors: StaticVectors | None
) -> float:
    """Return the mean share of a question's messages among the first five."""
    return fmean(
        len(question.evidence.intersection(ranking[:CUT])) / len(question.evidence)
        for conversation in conversations
        for question, ranking in zip(
            conversation.questions, shelved(conversation, vectors).rankings(ranker), strict=True
        )
    )


def _rows(value: object) -> Sequence[Mapping[str, object]]:
    if not isinstance(value, list):
        raise TypeError("no list")
    return [row for row in value if isinstance(row, dict)]


def _trajectory(one: Mapping[str, object]) -> Conversation:
    turns = tuple(_turn(message) for message in _rows(one["message_list"]))
    known = frozenset(turn.turn_id for turn in turns)
    questions = (_question(question, known) for question in _rows(one["question_list"]))
    return Conversation(
        name=str(one["tid"]),
        turns=turns,
        questions=tuple(question for question in questions if question.evidence),
    )


def _turn(message: Mapping[str, object]) -> Turn:
    text = str(message["message"])
    return Turn(
        turn_id=str(message["mid"]), speaker="", session="1", text=text, tokens=tokens_of(text)
    )


def _question(question: Mapping[str, object], known: frozenset[str]) -> Question:
    targets = question["target_step_id"]
    if not isinstance(targets, list):
        raise TypeError("target_step_id is no list")
    return Question(
        text=str(question["question"]), kind=1, evidence=known.intersection(map(str, targets))
    )
