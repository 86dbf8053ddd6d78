"""Where a session stands: what it has kept, as a bounded workspace that a reader is given."""

import json
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from governor.experience.answer import Answer
from governor.experience.experience import Experience
from governor.experience.keepsake import LIST_MEDIA_TYPE
from governor.experience.kinds import ExperienceKind, TrustLane, least_trusted
from governor.experience.piece import Piece, PieceKind
from governor.experience.rendering import Role, Shown, rendered, role_of, shown
from governor.experience.tokens import tokens_of
from governor.experience.workspace import Workspace, WorkspaceTerms, workspace_of
from governor.ids import ExperienceId, NamespaceId

PINNED = "pinned"
_NOTHING_YET = "This session has kept nothing yet."
_LAST_TURNS = 4
_TRIES_MAX = 6
_TOKENS_MIN = 64
_SPEAKERS = {"user": PieceKind.USER, "agent": PieceKind.AGENT}


@dataclass(frozen=True, slots=True, kw_only=True)
class Remembered:
    """An experience of a session; `text` is its content, None where only its summary is read."""

    experience: Experience
    text: str | None = None

    @property
    def words(self) -> str:
        """Return what is read of it."""
        return self.experience.summary if self.text is None else self.text


def standpoint(
    remembered: Sequence[Remembered],
    found: Sequence[Remembered],
    *,
    own: Collection[NamespaceId],
    tokens_max: int,
    key: bytes,
) -> Answer:
    """Return where a session stands, in at most `tokens_max` tokens.

    `remembered` is what it kept, in its order, `found` what else there is about what it asks for.
    What may instruct the reader, whose own namespaces are `own`, stands by itself; all the rest
    is quoted.
    """
    if not remembered and not found:
        structured: dict[str, object] = {"rooms": {}, "tokens": 0}
        return Answer(text=_NOTHING_YET, structured=structured, tokens=0)
    room = tokens_max
    for _ in range(_TRIES_MAX):
        answer = _answer(remembered, found, own=own, tokens_max=room, key=key)
        if answer.tokens <= tokens_max or room <= _TOKENS_MIN:
            break
        room = max(_TOKENS_MIN, room * tokens_max // answer.tokens - _TOKENS_MIN // 8)
    return answer


def _answer(
    remembered: Sequence[Remembered],
    found: Sequence[Remembered],
    *,
    own: Collection[NamespaceId],
    tokens_max: int,
    key: bytes,
) -> Answer:
    instructing = _instructing(remembered, own)
    known = _instructing(found, own)
    first = _told_first((*known[::-1], *instructing), own=own, tokens_max=tokens_max // 3)
    told = {one.index for one in first}
    rest = [one for one in remembered if one.experience.experience_id not in told]
    # What others may instruct and did not fit is not quoted: as data it is to be ignored.
    quotable = [one for one in found if one not in known]
    lists = [one for one in rest if one.experience.media_type == LIST_MEDIA_TYPE]
    contents = lists[-1].experience.experience_id if lists else None
    pieces = [
        _piece(one, turn)
        for turn, one in enumerate(rest, 1)
        if one.experience.media_type != LIST_MEDIA_TYPE
    ]
    left = tokens_max - tokens_of(rendered(first, key=key).text) - _frame_tokens(key)
    workspace = workspace_of(
        pieces,
        WorkspaceTerms(max_tokens=left, last_turns=_LAST_TURNS, contents=contents),
        found=[_piece(one, 0) for one in quotable],
    )
    lanes = tuple(piece.lane for piece in pieces)
    lanes += tuple(one.experience.lane for one in quotable)
    data = _quoted(workspace.text, least_trusted(lanes) if lanes else TrustLane.AGENT)
    text = rendered((*first, data), key=key).text
    structured = _structured(first, workspace)
    tokens = max(tokens_of(text), tokens_of(json.dumps(structured, ensure_ascii=False)))
    return Answer(
        text=text,
        structured={**structured, "tokens": tokens},
        tokens=tokens,
        indices=_indices(first, workspace),
    )


def _instructing(given: Sequence[Remembered], own: Collection[NamespaceId]) -> list[Remembered]:
    return [one for one in given if role_of(one.experience, own=own) is Role.INSTRUCTION]


def _told_first(
    instructing: Sequence[Remembered], *, own: Collection[NamespaceId], tokens_max: int
) -> list[Shown]:
    """Return of what may instruct what fits, the last first: whole, else in its summary."""
    taken: list[Shown] = []
    left = tokens_max
    for one in reversed(instructing):
        for words in dict.fromkeys((one.words, one.experience.summary)):
            piece = shown(one.experience, words, own=own)
            if tokens_of(piece.text) <= left:
                left -= tokens_of(piece.text)
                taken.append(piece)
                break
    return taken[::-1]


def _piece(one: Remembered, turn: int) -> Piece:
    experience = one.experience
    if experience.kind is ExperienceKind.TOOL_RESULT:
        kind = PieceKind.RESULT
    else:
        kind = _SPEAKERS.get(experience.actor, PieceKind.NOTE)
    return Piece(
        kind=kind,
        turn=turn,
        text=one.words,
        tokens=experience.tokens,
        lane=experience.lane,
        index=experience.experience_id,
        name=experience.actor,
        is_pinned=PINNED in experience.tags and experience.lane is not TrustLane.WEB,
    )


def _quoted(text: str, lane: TrustLane) -> Shown:
    return Shown(index="workspace", role=Role.DATA, lane=lane, text=text)


def _frame_tokens(key: bytes) -> int:
    return tokens_of(rendered((_quoted("", TrustLane.WEB),), key=key).text)


def _structured(first: Sequence[Shown], workspace: Workspace) -> dict[str, object]:
    left_out = workspace.left_out
    return {
        "instructions": [{"index": one.index, "text": one.text} for one in first],
        "rooms": {
            room.value: [line.text for line in lines] for room, lines in workspace.rooms.items()
        },
        "contents": workspace.contents,
        "left_out": {
            "count": left_out.entries,
            "tokens": left_out.tokens,
            "indices": list(left_out.indices),
        },
    }


def _indices(first: Sequence[Shown], workspace: Workspace) -> frozenset[ExperienceId]:
    named = {line.index for lines in workspace.rooms.values() for line in lines}
    return frozenset(
        {ExperienceId(one.index) for one in first} | {one for one in named if one is not None}
    )
