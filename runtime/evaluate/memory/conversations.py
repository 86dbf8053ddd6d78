"""Reading conversations and questions about them, in the format of LoCoMo.

Protocol `locomo-turn-v1`: an item is one turn, its text with the caption of the image that it
shares; a question's evidence are the turns it names, mended where the file names them oddly
("D:11:26", "D30:05", several in one). Questions without any that is there are left out.
"""

import re
from dataclasses import dataclass
from datetime import date
from pathlib import Path

from governor.retrieval.moments import MS_PER_DAY, moment_in
from runtime.evaluate.memory.samples_file import (
    ConversationsFileError,
    list_of,
    mapping_of,
    read_samples,
    text_of,
)

# Of the five kinds of question, the fifth asks for what was never said.
MAIN_KINDS = (1, 2, 3, 4)
_EPOCH = date(1970, 1, 1)
_SESSION = re.compile(r"session_(\d+)")
_TURN = re.compile(r"D:?(\d+):0*(\d+)")
_WORD = re.compile("[a-z0-9]+")
_TOKENS_PER_WORD = 1.35


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
    """Return the conversations of a file with at least one main question that can be judged.

    Raises:
        ConversationsFileError: the file cannot be read, or is not of LoCoMo's format.
    """
    found = [
        _conversation(sample, f"{path}, conversation {at}")
        for at, sample in enumerate(read_samples(path, member="conversation"), start=1)
    ]
    if not any(one.kind in MAIN_KINDS for each in found for one in each.questions):
        raise ConversationsFileError(
            f"{path}: has no question of the categories 1 to 4 whose evidence is there"
        )
    return tuple(found)


def tokens_of(text: str) -> int:
    """Return what a text adds to a context: 1.35 tokens a word, and one at least."""
    return max(1, round(len(_WORD.findall(text.lower())) * _TOKENS_PER_WORD))


def _conversation(sample: object, where: str) -> Conversation:
    fields = mapping_of(sample, where)
    spoken = mapping_of(fields.get("conversation"), f"{where}: conversation")
    keys = sorted(
        (int(match[1]), key) for key in spoken if (match := _SESSION.fullmatch(key)) is not None
    )
    turns = tuple(
        _turn(turn, str(number), at_ms, f"{where}: {key}, turn {at}")
        for number, key in keys
        for at_ms in [_day_ms(spoken.get(f"{key}_date_time"))]
        for at, turn in enumerate(list_of(spoken[key], f"{where}: {key}"), start=1)
    )
    known = frozenset(turn.turn_id for turn in turns)
    questions = (
        _question(question, known, f"{where}: qa {at}")
        for at, question in enumerate(list_of(fields.get("qa"), f"{where}: qa"), start=1)
    )
    return Conversation(
        name=str(fields.get("sample_id", "")),
        turns=turns,
        questions=tuple(question for question in questions if question.evidence),
    )


def _turn(turn: object, session: str, at_ms: int, where: str) -> Turn:
    fields = mapping_of(turn, where)
    speaker, caption = text_of(fields, "speaker", where), fields.get("blip_caption")
    # Who shares an image may say nothing with it.
    text = "" if caption and fields.get("text") is None else text_of(fields, "text", where)
    if caption:
        text += f" [image: {caption}]"
    return Turn(
        turn_id=text_of(fields, "dia_id", where),
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
    fields = mapping_of(question, where)
    named = fields.get("evidence") or []
    names = [named] if isinstance(named, str) else list_of(named, f"{where}: evidence")
    mended = {turn for name in names for turn in _turns_named(str(name))}
    return Question(
        text=text_of(fields, "question", where),
        kind=_kind(fields.get("category"), where),
        evidence=frozenset(mended & known),
    )


def _kind(category: object, where: str) -> int:
    match category:
        case bool():
            pass
        case int():
            return category
        case str() if category.isdecimal():
            return int(category)
    raise ConversationsFileError(f"{where}: category is no whole number")


def _turns_named(names: str) -> list[str]:
    found = (_TURN.fullmatch(name) for name in re.split(r"[;,\s]+", names))
    return [f"D{int(match[1])}:{int(match[2])}" for match in found if match]
