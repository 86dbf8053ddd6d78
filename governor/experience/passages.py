"""What stages do with passages that were found: once only, by coverage, in part, within a bound.

Words are given as they are indexed, so that what counts as the same word is said in one place.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from math import log

from governor.experience.tokens import tokens_of

# Beyond these a passage is looked at no closer: every loop here is bounded.
PASSAGES_MAX = 512
SENTENCES_MAX = 256
# Two passages that share so much of their words say nearly the same.
_NEARLY = 0.85
# What a passage is worth for covering words that nothing before it covered.
_COVERAGE = 0.35
_CHARS_PER_TOKEN = 3
_GAP_TOKENS = 2
# The wide points are those of Chinese and Japanese.
_SENTENCE = re.compile(r"[^.!?\n\u3002\uff01\uff1f]+[.!?\u3002\uff01\uff1f]*\s*|\n+")

Words = tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Passage:
    """Something that was found: `number` names it, the best has the highest `score`.

    `address` is that of its content. `origin` is who wrote it by which way; `trust` is how far
    that is trusted, nought the most. `session` is where it belongs, "" where nobody knows.
    """

    number: int
    score: float
    address: str
    words: Words
    tokens: int
    origin: str = ""
    trust: int = 0
    session: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Left:
    """A passage that is not shown because another one says the same; it is named, not lost."""

    passage: Passage
    same_as: int


def once(passages: Sequence[Passage]) -> tuple[list[Passage], list[Left]]:
    """Return the passages with each content once, and what was left out.

    Of the same content the most trusted stands for the others, of those the earliest, at the
    place of the best: who copies what another one said does not come before it.
    """
    stands: dict[str, Passage] = {}
    best: dict[str, float] = {}
    for passage in passages:
        other = stands.setdefault(passage.address, passage)
        best.setdefault(passage.address, passage.score)
        if (passage.trust, passage.number) < (other.trust, other.number):
            stands[passage.address] = passage
    kept = [replace(one, score=best[address]) for address, one in stands.items()]
    left = [
        Left(passage=passage, same_as=stands[passage.address].number)
        for passage in passages
        if passage.number != stands[passage.address].number
    ]
    return kept, left


def nearly_once(passages: Sequence[Passage]) -> tuple[list[Passage], list[Left]]:
    """Return the passages without those that say nearly what a better one of their origin says.

    Nearly the same is not the same: one word may be the account that money is sent to. So nobody
    can hide what another one wrote by writing nearly that.
    """
    kept, left = once(passages[:PASSAGES_MAX])
    apart: list[tuple[Passage, frozenset[str]]] = []
    for passage in kept:
        words = frozenset(passage.words)
        alike = next(
            (
                other
                for other, theirs in apart
                if other.origin == passage.origin and _is_nearly(words, theirs)
            ),
            None,
        )
        if alike is None:
            apart.append((passage, words))
        else:
            left.append(Left(passage=passage, same_as=alike.number))
    return [passage for passage, _ in apart] + list(passages[PASSAGES_MAX:]), left


def _is_nearly(words: frozenset[str], others: frozenset[str]) -> bool:
    # Sets of unlike sizes cannot have that much in common: most pairs need not be compared.
    fewer, more = sorted((len(words), len(others)))
    return fewer >= _NEARLY * more and overlap(words, others) >= _NEARLY


def overlap(words: frozenset[str], others: frozenset[str]) -> float:
    """Return the share of the words of two texts that both have (Jaccard)."""
    if not words and not others:
        return 1.0
    return len(words & others) / len(words | others)


def further_words(
    question: Sequence[str], found: Sequence[Passage], rarity: Mapping[str, float], *, most: int
) -> Words:
    """Return the words to search for again: those that the best passages have in common.

    A word counts by the score of the passages that have it and by its `rarity`; a word that
    nothing is known of is rare. The words of the question are not among them.
    """
    asked = frozenset(question)
    worth: defaultdict[str, float] = defaultdict(float)
    best = max((passage.score for passage in found), default=0.0)
    for passage in found:
        share = passage.score / best if best > 0 else 1.0
        for word in dict.fromkeys(passage.words):
            if word not in asked:
                worth[word] += share * rarity.get(word, 1.0)
    ordered = sorted(worth.items(), key=lambda item: (-item[1], item[0]))
    return tuple(word for word, _ in ordered[:most])


def rarity_of(passages: Sequence[Passage]) -> Mapping[str, float]:
    """Return how rare each word is among the passages, from 0 to about 1."""
    held: Counter[str] = Counter()
    for passage in passages:
        held.update(frozenset(passage.words))
    whole = log(len(passages) + 1.0) or 1.0
    return {
        word: log((len(passages) + 1.0) / (count + 0.5)) / whole for word, count in held.items()
    }


def covering(question: Sequence[str], passages: Sequence[Passage], *, most: int) -> list[Passage]:
    """Return the passages in an order in which each adds words that those before it lack.

    A greedy choice of score and new words, after maximal marginal relevance; words of the
    question count most, so that a question about two things gets something about both.
    """
    pool = list(passages[:PASSAGES_MAX])
    if not pool:
        return []
    low, high = pool[-1].score, pool[0].score
    width = (high - low) or 1.0
    rarity = rarity_of(pool)
    asked = {word: rarity.get(word, 0.0) for word in question}
    whole = sum(asked.values()) or 1.0
    chosen: list[Passage] = []
    held = {passage.number: asked.keys() & frozenset(passage.words) for passage in pool}

    def worth(passage: Passage) -> tuple[float, int]:
        new = sum(asked.get(word, 0.0) for word in held[passage.number])
        return (passage.score - low) / width + _COVERAGE * new / whole, -passage.number

    while pool and len(chosen) < most:
        best = max(pool, key=worth)
        pool.remove(best)
        chosen.append(best)
        # What is covered is asked for no longer.
        for word in held[best.number]:
            asked.pop(word, None)
    return chosen + pool + list(passages[PASSAGES_MAX:])


def sentences_for(
    text: str,
    question: Collection[str],
    words_of: Callable[[str], Words],
    *,
    tokens_max: int,
) -> str:
    """Return the sentences of a text that say most about a question, in their order.

    Sentences are taken whole and byte for byte; where something is left out stands an ellipsis.
    A text within the bound is returned as it is.
    """
    if tokens_of(text) <= tokens_max:
        return text
    parts = [match.group() for match in _SENTENCE.finditer(text)]
    parts, rest = parts[:SENTENCES_MAX], parts[SENTENCES_MAX:]
    asked = frozenset(question)
    found = [frozenset(words_of(part)) for part in parts]
    held: Counter[str] = Counter(word for words in found for word in words & asked)
    worth = [sum(1.0 / held[word] for word in words & asked) for words in found]
    # What says nothing of the question is taken from the beginning, where texts say what they are.
    order = sorted(range(len(parts)), key=lambda at: (-worth[at], at))
    taken: set[int] = set()
    room = tokens_max
    for at in order:
        size = tokens_of(parts[at]) + _GAP_TOKENS
        if size <= room:
            taken.add(at)
            room -= size
    if not taken:
        cut = text[: _CHARS_PER_TOKEN * tokens_max]
        if tokens_of(cut) >= tokens_max:
            # No character is more than a token, whatever the script.
            cut = text[: max(0, tokens_max - 1)]
        return cut.rstrip() + "…"
    return _joined(parts, taken, is_more=bool(rest))


def _joined(parts: Sequence[str], taken: set[int], *, is_more: bool) -> str:
    said: list[str] = []
    is_gap = False
    for at, part in enumerate(parts):
        if at in taken:
            if is_gap:
                said.append("… ")
            said.append(part)
        is_gap = at not in taken
    text = "".join(said).rstrip()
    return f"{text} …" if is_gap or is_more else text


@dataclass(frozen=True, slots=True, kw_only=True)
class Packed:
    """What fits, in its order, and what was left out for want of room."""

    shown: tuple[Passage, ...]
    left_out: tuple[Passage, ...]
    tokens: int


def packed(passages: Sequence[Passage], *, tokens_max: int) -> Packed:
    """Return the passages that fit in a bound, the best first; one too long does not end it."""
    shown: list[Passage] = []
    left: list[Passage] = []
    room = tokens_max
    for passage in passages:
        if passage.tokens <= room:
            shown.append(passage)
            room -= passage.tokens
        else:
            left.append(passage)
    return Packed(shown=tuple(shown), left_out=tuple(left), tokens=tokens_max - room)
