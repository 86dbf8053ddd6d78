"""The few hundred texts of a shelf that may answer a question, and what is seen of them.

Every text is scored by a rough sum: its words and those beside it, its session, its meaning, its
actor. The best are looked at closely, so that what is looked at closely costs the same however
many texts there are.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from governor.retrieval.columns import Columns, Floats, Mask, Places
from governor.retrieval.features import saturated
from governor.retrieval.moments import fits
from governor.retrieval.postings import Background, Postings
from governor.retrieval.query import QueryParts
from governor.retrieval.sight import Sight
from governor.retrieval.speakers import Speakers, telling

CANDIDATES = 256
TERMS_MAX = 64
_BESIDE, _SESSION, _MEANING, _NAMED = 0.5, 0.25, 1.0, 0.3


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """What a question is put to: the texts that are `seen`, one place more than there are."""

    columns: Columns
    postings: Postings
    speakers: Speakers
    seen: Mask
    background: Background | None

    def select(self, query: QueryParts, *, most: int = CANDIDATES) -> tuple[Places, Sight]:
        """Return the places of at most `most` candidates and what is seen of them."""
        columns, end = self.columns, self.seen.size
        by_actor, naming = self.speakers.named(query.terms, columns.actors[:end][self.seen])
        terms, counts = self._asked([term for term in query.terms if term not in naming])
        lengths = columns.lengths[:end] * self.seen
        mean_length = self._mean(lengths)
        rarity = self._rarity(terms, counts)
        worth = saturated(counts, lengths, mean_length=mean_length)
        words = np.asarray(rarity @ worth, dtype=np.float32)
        sessions = columns.sessions[:end]
        session_words, session_share = self._of_sessions(counts, lengths, sessions, rarity)
        actor = by_actor[columns.actors[:end]] * self.seen
        moment = self._moment(query)
        cosines = self._cosines(query)
        beside = words[columns.before[:end]] + words[columns.after[:end]]
        common = (
            _of_best(words + np.float32(_BESIDE) * beside)
            + _SESSION * _of_best(session_words)[sessions]
        )
        rough = common + _MEANING * np.maximum(cosines, 0) + _NAMED * (actor + moment)
        chosen = _best(np.where(self.seen & (rough > 0), rough, 0), most)
        around = _around(columns, chosen, end)
        return chosen, Sight(
            rarity=rarity,
            mean_length=mean_length,
            counts={reach: counts[:, places] for reach, places in around.items()},
            lengths={reach: lengths[places] for reach, places in around.items()},
            traits={
                reach: columns.traits[:end][places] * self.seen[places]
                for reach, places in around.items()
            },
            cosines={}
            if query.vector is None
            else {reach: cosines[places] for reach, places in around.items()},
            sessions=np.unique(sessions[chosen], return_inverse=True)[1].astype(np.int32),
            session_words=session_words[sessions[chosen]],
            session_share=session_share[sessions[chosen]],
            actor=actor[chosen],
            moment=moment[chosen],
            asked=query.traits,
        )

    def _asked(self, terms: Sequence[str]) -> tuple[Sequence[str], Floats]:
        """Return the terms that some text holds, at most the rarest few, and their counts."""
        known = self.postings.known(terms, most=TERMS_MAX)
        counts = self.postings.counts(known, seen=self.seen)
        held = np.asarray(counts.any(axis=1), dtype=np.bool_)
        return [
            term for term, is_held in zip(known, held.tolist(), strict=True) if is_held
        ], counts[held]

    def _mean(self, lengths: Floats) -> float:
        if self.background is not None:
            return self.background.mean_length
        return float(lengths.sum()) / max(int(np.count_nonzero(self.seen)), 1)

    def _rarity(self, terms: Sequence[str], counts: Floats) -> Floats:
        if self.background is None:
            total = float(np.count_nonzero(self.seen))
            holders = np.count_nonzero(counts, axis=1).astype(np.float32)
        else:
            total = float(self.background.total)
            held = self.background.holders
            holders = np.array([held.get(term, 0) for term in terms], dtype=np.float32)
        return _rarity_of(holders, total)

    def _of_sessions(
        self, counts: Floats, lengths: Floats, sessions: Places, rarity: Floats
    ) -> tuple[Floats, Floats]:
        """Return of each session its score by words, and the share of the words it holds."""
        total = int(sessions.max(initial=0)) + 1
        held = np.zeros((len(counts), total), dtype=np.float32)
        for at, found in enumerate(counts):
            (places,) = found.nonzero()
            held[at] = np.bincount(sessions[places], weights=found[places], minlength=total)
        size = np.bincount(sessions, weights=lengths, minlength=total).astype(np.float32)
        spoken = max(int(np.count_nonzero(size)), 1)
        worth = saturated(held, size, mean_length=float(size.sum()) / spoken)
        rare = _rarity_of(np.count_nonzero(held, axis=1).astype(np.float32), float(spoken))
        share = rarity @ (held > 0) / max(float(rarity.sum()), 1e-9)
        return np.asarray(rare @ worth, dtype=np.float32), np.asarray(share, dtype=np.float32)

    def _moment(self, query: QueryParts) -> Floats:
        """Return how well each text fits the time that is named, times what that tells."""
        end, total = self.seen.size, max(int(np.count_nonzero(self.seen)), 1)
        if query.moment is None:
            return np.zeros(end, dtype=np.float32)
        fitting = fits(query.moment, self.columns.days[:end]) * self.seen
        return fitting * telling(float(np.count_nonzero(fitting)) / total)

    def _cosines(self, query: QueryParts) -> Floats:
        end = self.seen.size
        if query.vector is None:
            return np.zeros(end, dtype=np.float32)
        # Not `@`: on a busy machine its threads take four times as long to meet as this takes.
        cosines = np.einsum("ij,j->i", self.columns.vectors[:end], query.vector)
        return np.asarray(cosines * self.seen, dtype=np.float32)


def _around(columns: Columns, chosen: Places, end: int) -> dict[int, Places]:
    before, after = columns.before[:end], columns.after[:end]
    return {
        -2: before[before[chosen]],
        -1: before[chosen],
        0: chosen,
        1: after[chosen],
        2: after[after[chosen]],
    }


def _rarity_of(holders: Floats, total: float) -> Floats:
    others = np.maximum(total - holders, 0)
    return np.asarray(np.log1p((others + 0.5) / (holders + 0.5)), dtype=np.float32)


def _of_best(scores: Floats) -> Floats:
    best = float(scores.max(initial=0.0))
    return scores / np.float32(best) if best > 0 else scores


def _best(scores: Floats, most: int) -> npt.NDArray[np.int32]:
    """Return the places of the best scores above zero, in the order of their places."""
    (found,) = scores.nonzero()
    if found.size > most:
        found = found[np.argpartition(-scores[found], most)[:most]]
    return np.sort(found).astype(np.int32)
