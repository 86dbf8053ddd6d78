"""A bounded workspace of what went before: what stays before the model of a long session."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum

from governor.experience.gist import gist_of, is_atom, one_line
from governor.experience.kinds import TrustLane
from governor.experience.known import Known, known_in
from governor.experience.piece import Piece, PieceKind
from governor.experience.tokens import tokens_of
from governor.ids import ExperienceId

READ_TOOL = "memory_read"
# A workspace of more than this part of what it stands for is hardly one. Smaller ones made more
# searches necessary than they saved room: see the table of bounds in the benchmarks' results.
PARTS = 6
_QUESTION = re.compile(r"[^.!?\n]*[^.!?\s\n][^.!?\n]*\?")
_QUESTIONS_MAX = 4
_TASK_CHARS_MAX = 1_200
_SAID_CHARS_MAX = 400
_CALL_CHARS_MAX = 120
_INDICES_NAMED_MAX = 3
_PER_LINE = 1
_PER_VALUE = 2
_PER_ROOM = 3
# A result of fewer tokens is shown itself: its index would take more.
_INDEX_TOKENS = 16


class Room(StrEnum):
    """The rooms of a workspace, in the order in which they are shown."""

    TASK = "task"
    PINS = "pinned"
    SAID = "said"
    OPEN = "open"
    KNOWN = "known"
    KEPT = "kept"
    FOUND = "found"
    LAST = "last"


# What of the tokens each room may fill before what is left over is given out, in this order.
_SHARES: Mapping[Room, float] = {
    Room.TASK: 0.15,
    Room.PINS: 0.30,
    Room.LAST: 0.20,
    Room.OPEN: 0.05,
    Room.SAID: 0.20,
    Room.KEPT: 0.20,
    Room.FOUND: 0.20,
    Room.KNOWN: 1.0,
}


# Their lines are no pieces of the session.
_BESIDE = frozenset({Room.KNOWN, Room.FOUND})


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkspaceTerms:
    """How large a workspace is, and what it shows.

    `last_turns` are shown word for word as far as they fit. `gist_chars_max` bounds what is said
    of one result. `quotes_results` off shows nothing of a result but names and numbers: its words
    could pass for somebody's who may instruct. `contents` is the index of the list of everything.
    """

    max_tokens: int
    last_turns: int = 1
    gist_chars_max: int = 240
    quotes_results: bool = True
    contents: ExperienceId | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One entry of a room; `order` is where it stood in the session."""

    order: int
    text: str
    lane: TrustLane
    index: ExperienceId | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NotShown:
    """What did not fit: how many entries, their tokens, and the indices of the first few."""

    entries: int = 0
    tokens: int = 0
    indices: tuple[ExperienceId, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Workspace:
    """What is shown of a session; `stands_for` are the turns and tokens that it is instead of."""

    rooms: Mapping[Room, tuple[Line, ...]]
    left_out: NotShown
    turns: int
    stands_for_tokens: int
    contents: ExperienceId | None

    @property
    def head(self) -> str:
        """Return the line that says what it is."""
        return _head(self)

    @property
    def text(self) -> str:
        """Return all of it as a model reads it."""
        return "\n".join([self.head, *shown_rooms(self.rooms)])


@dataclass(slots=True)
class _Filling:
    """Rooms on their way: the best of their lines are taken until the tokens are used up."""

    left: int
    waiting: dict[Room, list[Line]]
    taken: dict[Room, list[Line]] = field(default_factory=dict)

    def fill(self, room: Room, tokens: int) -> None:
        """Take of a room's lines what fits into `tokens`, the best first, and no line twice."""
        left, waits = min(tokens, self.left), []
        for line in self.waiting.get(room, ()):
            cost = tokens_of(line.text) + _PER_LINE + (0 if room in self.taken else _PER_ROOM)
            if cost > left:
                waits.append(line)
                continue
            left, self.left = left - cost, self.left - cost
            self.taken.setdefault(room, []).append(line)
        self.waiting[room] = waits

    def seen(self) -> str:
        """Return everything that was taken."""
        return "\n".join(line.text for lines in self.taken.values() for line in lines)


def workspace_of(
    pieces: Sequence[Piece], terms: WorkspaceTerms, *, found: Sequence[Piece] = ()
) -> Workspace:
    """Return the workspace of a session's pieces, which stand in their order.

    `found` is what there is besides of other sessions, the best first. It is a function of
    nothing else: the same pieces make the same words.
    """
    stands_for = sum(piece.tokens for piece in pieces)
    whole = Workspace(
        rooms={},
        left_out=NotShown(),
        turns=len({piece.turn for piece in pieces}),
        stands_for_tokens=stands_for,
        contents=terms.contents,
    )
    filling = _Filling(left=terms.max_tokens - tokens_of(_head(whole)), waiting={})
    filling.waiting = _lines_of(pieces, terms)
    filling.waiting[Room.FOUND] = [_found(place, piece) for place, piece in enumerate(found)]
    for room, share in _SHARES.items():
        if room is Room.KNOWN:
            filling.waiting[room] = _known(pieces, filling, terms)
        filling.fill(room, int(share * terms.max_tokens))
    for room in _SHARES:
        filling.fill(room, filling.left)
    _lengthen(filling, pieces, terms)
    rooms = {room: tuple(sorted(lines, key=_order)) for room, lines in filling.taken.items()}
    return Workspace(
        rooms=rooms,
        left_out=_left_out(pieces, rooms),
        turns=whole.turns,
        stands_for_tokens=stands_for,
        contents=terms.contents,
    )


def _order(line: Line) -> int:
    return line.order


def _lines_of(pieces: Sequence[Piece], terms: WorkspaceTerms) -> dict[Room, list[Line]]:
    """Return the lines of every room but the known values, the best first."""
    from_turn = _first_of_last(pieces, terms.last_turns)
    lines: dict[Room, list[Line]] = {room: [] for room in Room}
    for order in range(len(pieces) - 1, -1, -1):
        piece = pieces[order]
        if piece.is_pinned:
            lines[Room.PINS].append(_line(order, piece, piece.text))
        elif piece.kind is PieceKind.TASK:
            text = one_line(piece.text, chars_max=_TASK_CHARS_MAX)
            lines[Room.TASK].append(_line(order, piece, text))
        elif piece.turn >= from_turn and piece.kind is not PieceKind.RESULT:
            lines[Room.LAST].append(_line(order, piece, _speaker(piece) + piece.text))
        elif piece.kind in (PieceKind.USER, PieceKind.NOTE):
            text = one_line(piece.text, chars_max=_SAID_CHARS_MAX)
            lines[Room.SAID].append(_line(order, piece, text))
        if piece.kind is PieceKind.RESULT and not piece.is_pinned and piece.text:
            lines[Room.KEPT].append(_line(order, piece, _kept(piece, pieces, order, terms)))
    lines[Room.KEPT] = list({line.text: line for line in lines[Room.KEPT]}.values())
    lines[Room.OPEN] = list(_questions(pieces))
    return lines


def _line(order: int, piece: Piece, text: str) -> Line:
    return Line(order=order, text=text, lane=piece.lane, index=piece.index)


def _found(place: int, piece: Piece) -> Line:
    said = one_line(piece.text, chars_max=_SAID_CHARS_MAX)
    return _line(place, piece, f"{piece.index} {said}")


def _speaker(piece: Piece) -> str:
    return f"{piece.kind.value}: "


def _first_of_last(pieces: Sequence[Piece], last_turns: int) -> int:
    turns = sorted({piece.turn for piece in pieces})
    if not last_turns or not turns:
        return (turns[-1] if turns else 0) + 1
    return turns[max(0, len(turns) - last_turns)]


def _kept(piece: Piece, pieces: Sequence[Piece], order: int, terms: WorkspaceTerms) -> str:
    """Return the index of a result with the call that it answers."""
    asked = next(
        (
            before.text
            for before in reversed(pieces[:order])
            if before.kind is PieceKind.CALL and before.call == piece.call
        ),
        piece.name,
    )
    asked = asked[:_CALL_CHARS_MAX]
    is_shown = terms.quotes_results or is_atom(piece.text)
    if piece.tokens < _INDEX_TOKENS and is_shown:
        return f"{asked} -> {one_line(piece.text, chars_max=_CALL_CHARS_MAX)}"
    told = " ".join(part for part in (piece.index or "", asked) if part)
    return f"{told} -> {piece.failure}" if piece.failure and terms.quotes_results else told


def _questions(pieces: Sequence[Piece]) -> Iterator[Line]:
    """Yield what was asked last, by the user and by the agent, and is not answered."""
    for kind in (PieceKind.USER, PieceKind.AGENT):
        spoken = [at for at, piece in enumerate(pieces) if piece.kind is kind]
        if not spoken or (kind is PieceKind.AGENT and _is_answered(pieces, spoken[-1])):
            continue
        piece = pieces[spoken[-1]]
        for match in list(_QUESTION.finditer(piece.text))[-_QUESTIONS_MAX:]:
            text = one_line(match.group(), chars_max=_SAID_CHARS_MAX)
            yield _line(spoken[-1], piece, text)


def _is_answered(pieces: Sequence[Piece], at: int) -> bool:
    return any(piece.kind is PieceKind.USER for piece in pieces[at + 1 :])


def _known(pieces: Sequence[Piece], filling: _Filling, terms: WorkspaceTerms) -> list[Line]:
    """Return a line for each key, with those of its values that matter most."""
    known = known_in(pieces, seen=filling.seen(), atoms_only=not terms.quotes_results)
    left, by_key = filling.left - _PER_ROOM, dict[str, list[Known]]()
    for one in known:
        cost = tokens_of(one.text) + _PER_VALUE
        if one.key not in by_key:
            cost += tokens_of(one.key) + _PER_ROOM
        if cost > left:
            continue
        left -= cost
        by_key.setdefault(one.key, []).append(one)
    return [
        Line(
            order=place,
            text=f"{key} {', '.join(one.text for one in values)}".strip(),
            lane=TrustLane.TOOL,
        )
        for place, (key, values) in enumerate(by_key.items())
    ]


def _lengthen(filling: _Filling, pieces: Sequence[Piece], terms: WorkspaceTerms) -> None:
    """Say more of the results, of the newest first, as far as there is room."""
    kept = filling.taken.get(Room.KEPT, [])
    for place, line in sorted(enumerate(kept), key=lambda each: -each[1].order):
        piece = pieces[line.order]
        said = gist_of(piece.text, chars_max=terms.gist_chars_max)
        if piece.tokens < _INDEX_TOKENS or not (terms.quotes_results or is_atom(said)):
            continue
        longer = f"{line.text}: {said}"
        more = tokens_of(longer) - tokens_of(line.text)
        if more <= filling.left:
            filling.left -= more
            kept[place] = replace(line, text=longer)


def _left_out(pieces: Sequence[Piece], rooms: Mapping[Room, Iterable[Line]]) -> NotShown:
    shown = {line.order for room, lines in rooms.items() if room not in _BESIDE for line in lines}
    missing = [
        piece
        for order, piece in enumerate(pieces)
        if order not in shown and piece.kind is not PieceKind.CALL
    ]
    indices = tuple(piece.index for piece in missing if piece.index is not None)
    return NotShown(
        entries=len(missing),
        tokens=sum(piece.tokens for piece in missing),
        indices=indices[:_INDICES_NAMED_MAX],
    )


def _head(workspace: Workspace) -> str:
    where = "" if workspace.contents is None else f" List of all: {workspace.contents}."
    return (
        f"[flyball: of {workspace.turns} turns, {workspace.stands_for_tokens} tokens. "
        f"{READ_TOOL} reads an index.{where}]"
    )


def shown_rooms(rooms: Mapping[Room, Sequence[Line]]) -> Iterator[str]:
    """Yield the rooms that hold anything, as a model reads them."""
    for room in Room:
        lines = rooms.get(room, ())
        if lines:
            apart = "; " if room is Room.KNOWN else "\n"
            opening = " " if room is Room.KNOWN else "\n"
            yield f"{room.value}:{opening}{apart.join(line.text for line in lines)}"
