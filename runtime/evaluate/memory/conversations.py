"""Reading conversations and questions about them, in the format of LoCoMo.

Protocol `locomo-turn-v1`: an item is one turn, its text with the caption of the image that it
shares; a question's evidence are the turns it names, mended where the file names them oddly
("D:11:26", "D30:05", several in one). Questions without any that is there are left out.
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

from governor.retrieval.moments import MS_PER_DAY, moment_in
from runtime.errors import RuntimeFaultError

FILE_BYTES_MAX = 200_000_000
# Of the five kinds of question, the fifth asks for what was never said.
MAIN_KINDS = (1, 2, 3, 4)
_EPOCH = date(1970, 1, 1)
_SESSION = re.compile(r"session_(\d+)")
_TURN = re.compile(r"D:?(\d+):0*(\d+)")
_WORD = re.compile("[a-z0-9]+")
_TOKENS_PER_WORD = 1.35


class ConversationsFileError(RuntimeFaultError):
    """A file of conversations is not usable; the message says where."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """What one speaker said at once; `tokens` is what it adds to a context with its speaker."""

    turn_id: str
    speaker: str
    session: str
    text: str
    tokens: int
    at_ms: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """A question, of which kind it is, and the turns that hold its answer."""

    text: str
    kind: int
    evidence: frozenset[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Conversation:
    """Turns in their order and questions about them."""

    name: str
    turns: tuple[Turn, ...]
    questions: tuple[Question, ...]


def read_conversations(path: Path) -> tuple[Conversation, ...]:
    """Return the conversations of a file with at least one question that can be judged.

    Raises:
        ConversationsFileError: the file cannot be read, or is not of LoCoMo's format.
    """
    found = [
        _conversation(sample, f"{path}, conversation {at}")
        for at, sample in enumerate(_list(_json(path), str(path)), start=1)
    ]
    if not any(conversation.questions for conversation in found):
        raise ConversationsFileError(f"{path}: has no question whose evidence is there")
    return tuple(found)


def read_json(path: Path) -> object:
    """Return what a JSON file of an evaluation holds.

    Raises:
        ConversationsFileError: it cannot be read, is too large, or is no JSON.
    """
    return _json(path)


def tokens_of(text: str) -> int:
    """Return what a text adds to a context: 1.35 tokens a word, and one at least."""
    return max(1, round(len(_WORD.findall(text.lower())) * _TOKENS_PER_WORD))


def _json(path: Path) -> object:
    try:
        if path.stat().st_size > FILE_BYTES_MAX:
            raise ConversationsFileError(f"{path}: is larger than {FILE_BYTES_MAX} bytes")
        return json.loads(path.read_bytes())
    except OSError as error:
        raise ConversationsFileError(f"{path}: cannot be read: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise ConversationsFileError(f"{path}: is no JSON: {error}") from error


def _conversation(sample: object, where: str) -> Conversation:
    fields = _mapping(sample, where)
    spoken = _mapping(fields.get("conversation"), f"{where}: conversation")
    keys = sorted(
        (int(match[1]), key) for key in spoken if (match := _SESSION.fullmatch(key)) is not None
    )
    turns = tuple(
        _turn(turn, str(number), at_ms, f"{where}: {key}, turn {at}")
        for number, key in keys
        for at_ms in [_day_ms(spoken.get(f"{key}_date_time"))]
        for at, turn in enumerate(_list(spoken[key], f"{where}: {key}"), start=1)
    )
    known = frozenset(turn.turn_id for turn in turns)
    questions = (
        _question(question, known, f"{where}: qa {at}")
        for at, question in enumerate(_list(fields.get("qa"), f"{where}: qa"), start=1)
    )
    return Conversation(
        name=str(fields.get("sample_id", "")),
        turns=turns,
        questions=tuple(question for question in questions if question.evidence),
    )


def _turn(turn: object, session: str, at_ms: int, where: str) -> Turn:
    fields = _mapping(turn, where)
    speaker, text = _text(fields, "speaker", where), _text(fields, "text", where)
    if fields.get("blip_caption"):
        text += f" [image: {fields['blip_caption']}]"
    return Turn(
        turn_id=_text(fields, "dia_id", where),
        speaker=speaker,
        session=session,
        text=text,
        tokens=tokens_of(f"{speaker}: {text}"),
        at_ms=at_ms,
    )


def _day_ms(said: object) -> int:
    """Return the beginning of the day that a session's time names, 0 where it names none."""
    moment = moment_in(said) if isinstance(said, str) else None
    if moment is None or moment.year is None:
        return 0
    month, day = moment.month or 1, moment.day or 1
    try:
        return (date(moment.year, month, day) - _EPOCH).days * MS_PER_DAY
    except ValueError:  # the 31st of June
        return 0


def _question(question: object, known: frozenset[str], where: str) -> Question:
    fields = _mapping(question, where)
    kind = fields.get("category")
    if not isinstance(kind, int):
        raise ConversationsFileError(f"{where}: category is no whole number")
    named = _list(fields.get("evidence") or [], f"{where}: evidence")
    mended = {turn for name in named for turn in _turns_named(str(name))}
    return Question(
        text=_text(fields, "question", where), kind=kind, evidence=frozenset(mended & known)
    )


def _turns_named(names: str) -> list[str]:
    found = (_TURN.fullmatch(name) for name in re.split(r"[;,\s]+", names))
    return [f"D{int(match[1])}:{int(match[2])}" for match in found if match]


def _mapping(value: object, where: str) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise ConversationsFileError(f"{where}: is no object")
    return value


def _list(value: object, where: str) -> Sequence[Any]:
    if not isinstance(value, list):
        raise ConversationsFileError(f"{where}: is no list")
    return value


def _text(fields: Mapping[str, Any], name: str, where: str) -> str:
    value = fields.get(name)
    if not isinstance(value, str):
        raise ConversationsFileError(f"{where}: {name} is no text")
    return value
