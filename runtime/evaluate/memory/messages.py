"""Reading messages and questions about them, in the format of MemDaily, and measuring those.

Messages that were told long after one another are no one conversation: a session ends where
nothing was said for as long as it takes for one to be closed.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from statistics import fmean
from typing import Any

from governor.retrieval.ranker import Ranker
from governor.retrieval.vectors import StaticVectors
from runtime.evaluate.memory.conversations import Conversation, Question, Turn, tokens_of
from runtime.evaluate.memory.samples_file import (
    ConversationsFileError,
    list_of,
    mapping_of,
    read_samples,
    text_of,
)
from runtime.evaluate.memory.shelves import shelved

CUT = 5
# As long as sessions stay open by default where nothing is said.
IDLE_MS = 1_800_000
_TIME = re.compile(r"(\d{4})\D(\d{1,2})\D(\d{1,2})(?:\D.*?(\d{1,2}):(\d\d))?")


def read_messages(path: Path) -> tuple[Conversation, ...]:
    """Return each trajectory of a file as a conversation of one session.

    Raises:
        ConversationsFileError: the file cannot be read, or is not of MemDaily's format.
    """
    found = tuple(
        _trajectory(mapping_of(one, where), where)
        for at, one in enumerate(read_samples(path, member="message_list"), start=1)
        for where in [f"{path}, trajectory {at}"]
    )
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


def _trajectory(one: Mapping[str, Any], where: str) -> Conversation:
    turns = tuple(_turns(_rows(one, "message_list", where), where))
    known = frozenset(turn.turn_id for turn in turns)
    questions = (
        _question(mapping_of(question, place), known, place)
        for at, question in enumerate(_rows(one, "question_list", where), start=1)
        for place in [f"{where}: question {at}"]
    )
    return Conversation(
        name=str(one.get("tid", "")),
        turns=turns,
        questions=tuple(question for question in questions if question.evidence),
    )


def _rows(one: Mapping[str, Any], name: str, where: str) -> Sequence[Any]:
    return list_of(one.get(name), f"{where}: {name}")


def _turns(messages: Sequence[Any], where: str) -> Iterator[Turn]:
    session, before_ms = 1, 0
    for at, message in enumerate(messages, start=1):
        place = f"{where}: message {at}"
        fields = mapping_of(message, place)
        at_ms = _at_ms(fields.get("time"))
        session += bool(at_ms and before_ms) and abs(at_ms - before_ms) > IDLE_MS
        before_ms = at_ms
        yield _turn(fields, session=str(session), at_ms=at_ms, where=place)


def _turn(message: Mapping[str, Any], *, session: str, at_ms: int, where: str) -> Turn:
    if "mid" not in message:
        raise ConversationsFileError(f"{where}: mid is not there")
    text = text_of(message, "message", where)
    return Turn(
        turn_id=str(message["mid"]),
        speaker="",
        session=session,
        text=text,
        tokens=tokens_of(text),
        at_ms=at_ms,
    )


def _at_ms(said: object) -> int:
    """Return when a message was told, 0 where that is not said or is no time."""
    match = _TIME.search(said) if isinstance(said, str) else None
    if match is None:
        return 0
    year, month, day, hour, minute = (int(part or 0) for part in match.groups())
    try:
        told = datetime(year, month, day, hour, minute, tzinfo=UTC)
    except ValueError:  # the 31st of June
        return 0
    return int(told.timestamp()) * 1_000


def _question(question: Mapping[str, Any], known: frozenset[str], where: str) -> Question:
    targets = _rows(question, "target_step_id", where)
    return Question(
        text=text_of(question, "question", where),
        kind=1,
        evidence=known.intersection(map(str, targets)),
    )
