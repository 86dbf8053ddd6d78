"""The values that a session has come across, those first that it will likely need again."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from governor.experience.gist import Value, is_atom, values_in
from governor.experience.piece import Piece, PieceKind

_VALUES_MAX = 2_000
_TEXT_CHARS_MIN = 2
_WORDS = (PieceKind.TASK, PieceKind.USER, PieceKind.AGENT, PieceKind.CALL, PieceKind.NOTE)
# By how much a value goes before others: its key names a thing, somebody spoke of it since, it
# came up in several places, it is new.
_FOR_NAMING = 2.0
_FOR_MENTION = 2.0
_FOR_RECENCY = 2.0
_PER_PLACE = 0.25
_PLACES_MAX = 4
_PER_BETTER = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """A value under its key; `score` orders values of one session and means nothing else."""

    key: str
    text: str
    score: float


def known_in(pieces: Sequence[Piece], *, seen: str, atoms_only: bool) -> tuple[Known, ...]:
    """Return the values of results and calls that do not stand in `seen`, the best first.

    `atoms_only` leaves out what is more than names and numbers.
    """
    last: dict[Value, int] = {}
    places: dict[Value, int] = {}
    for order, piece in enumerate(pieces):
        for value in _values_of(piece):
            last[value] = order
            places[value] = places.get(value, 0) + 1
    spoken = "\n".join(piece.text for piece in pieces if piece.kind in _WORDS)
    newest = sorted(last, key=lambda value: -last[value])[:_VALUES_MAX]
    found = [
        Known(
            key=value.key,
            text=value.text,
            score=_FOR_NAMING * value.names_something
            + _FOR_RECENCY * (last[value] + 1) / len(pieces)
            + _FOR_MENTION * (value.text in spoken)
            + _PER_PLACE * min(places[value], _PLACES_MAX),
        )
        for value in newest
        if len(value.text) >= _TEXT_CHARS_MIN
        and value.text not in seen
        and (is_atom(value.text) or not atoms_only)
    ]
    return tuple(sorted(_in_turn(found), key=lambda known: -known.score))


def _in_turn(found: Sequence[Known]) -> Iterator[Known]:
    """Yield the values, each the less worth the more better ones there are under its key."""
    better: dict[str, int] = {}
    for known in sorted(found, key=lambda known: -known.score):
        rank = better.get(known.key, 0)
        better[known.key] = rank + 1
        yield replace(known, score=known.score - _PER_BETTER * rank)


def _values_of(piece: Piece) -> Iterator[Value]:
    if piece.kind is PieceKind.RESULT:
        yield from values_in(piece.text) or ()
