"""What speaks for a text, as numbers from about 0 to 1 that a ranker adds up.

Scores by words are BM25 over a text, over it with its neighbours, and over its session, each as
a share of the best candidate's; scores by meaning are cosines. What a text answers often stands
in the text before it, a question: neighbours count for that.
"""

import numpy as np

from governor.retrieval.analysis import Trait
from governor.retrieval.columns import Floats, Places
from governor.retrieval.sight import Sight

_SATURATION, _EVENNESS = 1.2, 0.75
_LENGTH_SCALE = 0.25

BY_WORDS = (
    *("item", "with_before", "with_after", "window", "wide", "before", "after", "session"),
    *("session_best", "cover", "cover_window", "cover_session", "rarest", "rarest_window"),
)
BY_PLACE = (
    *("actor", "moment", "question", "self", "time", "image", "number", "length", "opens"),
    *("answers", "answers_words", "question_words", "time_when", "number_many", "actor_self"),
)
BY_MEANING = (*("near", "near_before", "near_after", "near_wide", "near_session", "near_even"),)
FEATURES = (*BY_WORDS, *BY_PLACE, *BY_MEANING)


def features_of(sight: Sight) -> Floats:
    """Return a row for each of `FEATURES`, in their order; those by meaning only with cosines."""
    words = _by_words(sight)
    rows = [words[name] for name in BY_WORDS]
    place = _by_place(sight, words)
    rows += [place[name] for name in BY_PLACE]
    if sight.cosines:
        meaning = _by_meaning(sight)
        rows += [meaning[name] for name in BY_MEANING]
    return np.stack(rows).astype(np.float32, copy=False)


def saturated(counts: Floats, lengths: Floats, *, mean_length: float) -> Floats:
    """Return BM25's worth of counts in texts of these lengths, from 0 to just under 1."""
    even = _SATURATION * (1 - _EVENNESS + _EVENNESS * lengths / max(mean_length, 1.0))
    return np.asarray(counts / (counts + even), dtype=np.float32)


def _by_words(sight: Sight) -> dict[str, Floats]:
    counts, lengths, mean = sight.counts, sight.lengths, sight.mean_length
    before, after = counts[0] + counts[-1], counts[0] + counts[1]
    window = before + counts[1]
    wide = window + counts[-2] + counts[2]
    window_length = lengths[-1] + lengths[0] + lengths[1]

    def share(found: Floats, length: Floats, texts: int) -> Floats:
        worth = saturated(found, length, mean_length=mean * texts)
        return _of_best(sight.rarity @ worth)

    item = share(counts[0], lengths[0], 1)
    with_before = share(before, lengths[0] + lengths[-1], 2)
    around = share(window, window_length, 3)
    return {
        "item": item,
        "with_before": with_before,
        "with_after": share(after, lengths[0] + lengths[1], 2),
        "window": around,
        "wide": share(wide, window_length + lengths[-2] + lengths[2], 5),
        "before": share(counts[-1], lengths[-1], 1),
        "after": share(counts[1], lengths[1], 1),
        "session": _of_best(sight.session_words),
        "session_best": _best_of_session(item, sight),
        "cover": _cover(counts[0], sight.rarity),
        "cover_window": _cover(window, sight.rarity),
        "cover_session": sight.session_share,
        "rarest": _rarest(counts[0], sight.rarity),
        "rarest_window": _rarest(window, sight.rarity),
    }


def _by_place(sight: Sight, words: dict[str, Floats]) -> dict[str, Floats]:
    own = sight.traits[0]
    time, number, self = _has(own, Trait.TIME), _has(own, Trait.NUMBER), _has(own, Trait.SELF)
    question, answers = _has(own, Trait.QUESTION), _has(sight.traits[-1], Trait.QUESTION)
    return {
        "actor": sight.actor,
        "moment": sight.moment,
        "question": question,
        "self": self,
        "time": time,
        "image": _has(own, Trait.IMAGE),
        "number": number,
        "length": np.log1p(sight.lengths[0]) * np.float32(_LENGTH_SCALE),
        "opens": (sight.lengths[-1] == 0).astype(np.float32),
        "answers": answers,
        "answers_words": answers * words["before"],
        "question_words": question * words["item"],
        "time_when": time * float(bool(sight.asked & Trait.ASKS_WHEN)),
        "number_many": number * float(bool(sight.asked & Trait.ASKS_NUMBER)),
        "actor_self": sight.actor * self,
    }


def _by_meaning(sight: Sight) -> dict[str, Floats]:
    near, before, after = sight.cosines[0], sight.cosines[-1], sight.cosines[1]
    around = near + before + after
    best = _best_of_session(near, sight)
    return {
        "near": near,
        "near_before": before,
        "near_after": after,
        "near_wide": (around + sight.cosines[-2] + sight.cosines[2]) * np.float32(0.2),
        "near_session": best,
        "near_even": _even(near),
    }


def _of_best(scores: Floats) -> Floats:
    best = float(scores.max(initial=0.0))
    return scores / np.float32(best) if best > 0 else scores


def _even(scores: Floats) -> Floats:
    """Return the scores measured by how far they spread around their mean, by a quarter."""
    if not scores.size:
        return scores
    even = (scores - scores.mean()) / (4 * scores.std() + 1e-6)
    return np.asarray(even, dtype=np.float32)


def _best_of_session(scores: Floats, sight: Sight) -> Floats:
    best = np.zeros(int(sight.sessions.max(initial=0)) + 1, dtype=np.float32)
    np.maximum.at(best, sight.sessions, scores)
    return best[sight.sessions]


def _cover(counts: Floats, rarity: Floats) -> Floats:
    whole = float(rarity.sum())
    return np.asarray(rarity @ (counts > 0) / max(whole, 1e-9), dtype=np.float32)


def _rarest(counts: Floats, rarity: Floats) -> Floats:
    if not rarity.size:
        return np.zeros(counts.shape[1], dtype=np.float32)
    return np.asarray(counts[int(np.argmax(rarity))] > 0, dtype=np.float32)


def _has(traits: Places, trait: Trait) -> Floats:
    return np.asarray((traits & int(trait)) != 0, dtype=np.float32)
