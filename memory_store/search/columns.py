"""What experiences of one namespace are filtered by, held in memory as columns of numbers.

The place of an experience is how many were added before it. They are added in the order of
their numbers, so that a number is found by halving.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from governor.experience.kinds import ExperienceKind, Standing, TrustLane
from governor.experience.search import Filters

Mask = npt.NDArray[np.bool_]
Places = npt.NDArray[np.intp]
Numbers = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float32]

NOWHERE = -1
_NEVER_MS = 2**63 - 1
_GROWTH = 1.5
_KINDS, _LANES = tuple(ExperienceKind), tuple(TrustLane)
# Beside every text that is held once: the dictionary's own part and the string around it.
_TEXT_BYTES = 160


@dataclass(frozen=True, slots=True, kw_only=True)
class Traced:
    """What of an experience is filtered by."""

    number: int
    kind: ExperienceKind
    lane: TrustLane
    standing: Standing
    actor: str
    session: str
    task_class: str
    tags: tuple[str, ...]
    learned_at_ms: int
    valid_from_ms: int
    valid_until_ms: int | None
    stated_until_ms: int | None
    superseded_at_ms: int | None
    expires_at_ms: int | None


class _Texts:
    """Texts as small numbers; the empty one is 0."""

    def __init__(self) -> None:
        self._codes: dict[str, int] = {"": 0}
        self.size_bytes = 0

    def code(self, text: str) -> int:
        code = self._codes.get(text)
        if code is None:
            code = self._codes[text] = len(self._codes)
            self.size_bytes += _TEXT_BYTES + len(text)
        return code

    def known(self, texts: Sequence[str]) -> list[int]:
        return [self._codes[text] for text in texts if text in self._codes]


class Columns:
    """The columns of a namespace; one thread at a time may use them."""

    def __init__(self) -> None:
        """Begin with nothing."""
        self._total = 0
        self._actors, self._sessions, self._classes = _Texts(), _Texts(), _Texts()
        self._tagged: dict[str, list[int]] = {}
        self._last_of: dict[int, int] = {}
        self._soonest_ms = _NEVER_MS
        self._of: dict[str, npt.NDArray[Any]] = {
            "number": np.zeros(0, np.int64),
            # Kind, lane and whether it stands in one, because nearly every search asks for all.
            "sort": np.zeros(0, np.uint8),
            "actor": np.zeros(0, np.int32),
            "session": np.zeros(0, np.int32),
            "task_class": np.zeros(0, np.int32),
            "learned_at_ms": np.zeros(0, np.int64),
            "valid_from_ms": np.zeros(0, np.int64),
            "valid_until_ms": np.zeros(0, np.int64),
            "stated_until_ms": np.zeros(0, np.int64),
            "superseded_at_ms": np.zeros(0, np.int64),
            "expires_at_ms": np.zeros(0, np.int64),
            "before": np.zeros(0, np.int32),
            "after": np.zeros(0, np.int32),
        }

    def __len__(self) -> int:
        """Return how many places there are."""
        return self._total

    @property
    def numbers(self) -> Numbers:
        """Return the number of each place."""
        return self._of["number"][: self._total]

    @property
    def size_bytes(self) -> int:
        """Return about how much memory they take."""
        texts = self._actors.size_bytes + self._sessions.size_bytes + self._classes.size_bytes
        tags = sum(_TEXT_BYTES + len(tag) + 36 * len(at) for tag, at in self._tagged.items())
        return sum(column.nbytes for column in self._of.values()) + texts + tags

    def add(self, rows: Sequence[Traced]) -> None:
        """Put rows at the next places; their numbers must be above all that are there."""
        self._make_room(self._total + len(rows))
        of = self._of
        for row in rows:
            place = self._total
            session = self._sessions.code(row.session)
            of["number"][place] = row.number
            of["sort"][place] = _sort_of(row)
            of["actor"][place] = self._actors.code(row.actor)
            of["session"][place] = session
            of["task_class"][place] = self._classes.code(row.task_class)
            of["learned_at_ms"][place] = row.learned_at_ms
            of["valid_from_ms"][place] = row.valid_from_ms
            self._set_ends(place, row)
            for tag in row.tags:
                self._tagged.setdefault(tag, []).append(place)
            before = self._last_of.get(session, NOWHERE) if session else NOWHERE
            of["before"][place], of["after"][place] = before, NOWHERE
            if before != NOWHERE:
                of["after"][before] = place
            if session:
                self._last_of[session] = place
            self._total += 1

    def change(self, row: Traced) -> None:
        """Take over what may change of a row that is there: where it stands, until when."""
        place = self.place_of(row.number)
        self._of["sort"][place] = _sort_of(row)
        self._set_ends(place, row)

    def remove(self, number: int) -> None:
        """Find this one no more, if it is there."""
        place = self.place_of(number)
        if place != NOWHERE:
            self._of["sort"][place] = _GONE

    def place_of(self, number: int) -> int:
        """Return the place of a number, `NOWHERE` if it is not there."""
        place = int(np.searchsorted(self.numbers, number))
        return place if place < self._total and self.numbers[place] == number else NOWHERE

    def places_of(self, numbers: Numbers) -> Places:
        """Return the places of those numbers that are there."""
        if not self._total:
            return np.zeros(0, dtype=np.intp)
        places = np.minimum(np.searchsorted(self.numbers, numbers), self._total - 1)
        is_there = self.numbers[places] == numbers
        found: Places = places[is_there]
        return found

    def with_neighbours(self, places: Places, *, steps: int) -> Places:
        """Return the places and those up to so many steps away in their sessions, in order."""
        found = [places]
        for way in ("before", "after"):
            column, at = self._of[way], places
            for _ in range(steps):
                at = column[at]
                at = at[at != NOWHERE]
                found.append(at)
        return np.unique(np.concatenate(found)).astype(np.intp)

    def mask(self, filters: Filters, *, now_ms: int) -> Mask:
        """Return of each place whether it may be found at all."""
        of, total = self._of, self._total
        seen = np.asarray(_asked_sorts(filters)[of["sort"][:total]])
        if now_ms >= self._soonest_ms:
            seen &= of["expires_at_ms"][:total] > now_ms
        for name, texts, codes in (
            ("actor", filters.actors, self._actors),
            ("session", () if filters.session is None else (filters.session,), self._sessions),
            ("task_class", () if filters.task_class is None else (filters.task_class,), None),
        ):
            if texts:
                known = (codes or self._classes).known(texts)
                seen &= np.isin(of[name][:total], known)
        for tag in filters.tags:
            tagged = np.zeros(total, dtype=np.bool_)
            tagged[self._tagged.get(tag, [])] = True
            seen &= tagged
        return self._at_times(seen, filters)

    def _at_times(self, seen: Mask, filters: Filters) -> Mask:
        of, total = self._of, self._total
        until = of["valid_until_ms"][:total]
        unheard = of["superseded_at_ms"][:total] == _NEVER_MS
        if filters.learned_before_ms is not None:
            unheard = of["superseded_at_ms"][:total] >= filters.learned_before_ms
            until = np.where(unheard, of["stated_until_ms"][:total], until)
        if filters.at_ms is None:
            seen &= unheard
        else:
            seen &= of["valid_from_ms"][:total] <= filters.at_ms
            seen &= until > filters.at_ms
        if filters.learned_from_ms is not None:
            seen &= of["learned_at_ms"][:total] >= filters.learned_from_ms
        if filters.learned_before_ms is not None:
            seen &= of["learned_at_ms"][:total] < filters.learned_before_ms
        return seen

    def _set_ends(self, place: int, row: Traced) -> None:
        is_corrected = row.standing is Standing.SUPERSEDED
        ends = {
            "valid_until_ms": row.valid_until_ms,
            "stated_until_ms": row.stated_until_ms if is_corrected else row.valid_until_ms,
            "superseded_at_ms": row.superseded_at_ms if is_corrected else None,
            "expires_at_ms": row.expires_at_ms,
        }
        for name, end in ends.items():
            self._of[name][place] = _NEVER_MS if end is None else end
        if row.expires_at_ms is not None:
            self._soonest_ms = min(self._soonest_ms, row.expires_at_ms)

    def _make_room(self, total: int) -> None:
        size = self._of["number"].size
        if total > size:
            more = max(total, int(size * _GROWTH)) - size
            self._of = {name: np.pad(column, (0, more)) for name, column in self._of.items()}


_GONE = 255


def _sort_of(row: Traced) -> int:
    is_corrected = row.standing is Standing.SUPERSEDED and row.superseded_at_ms is not None
    if row.standing is not Standing.ACTIVE and not is_corrected:
        return _GONE
    return _LANES.index(row.lane) * len(_KINDS) + _KINDS.index(row.kind)


def _asked_sorts(filters: Filters) -> Mask:
    """Return of each sort whether it was asked for."""
    asked = np.zeros(_GONE + 1, dtype=np.bool_)
    for lane in filters.lanes or _LANES:
        for kind in filters.kinds or _KINDS:
            asked[_LANES.index(lane) * len(_KINDS) + _KINDS.index(kind)] = True
    return asked
