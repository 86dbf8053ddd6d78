"""Tools ranked by the words of a request.

The text of a tool is scored three ways, each BM25F over the same fields: by stems, by concepts
(a short hand-written thesaurus) and by fragments of words. Stems and concepts are added, for they
share a scale; the fragments are fused with that sum, each measured by its best. A tool whose name
is spelled out by the request is then lifted, because a name is the shortest description: its
share of covered words, weighed by rarity, counts up to two and a half times. How near a tool lies
to the request in meaning, by word vectors over the same fields, is fused with that: as much as a
concept counts beside a stem. Without vectors the words decide alone. At last a second tool of the
same name, on another server, stands back a little, so that a short list holds more different
tools; it is never hidden.

How the weights were chosen: names and first sentences above the rest, servers and parameters
below, as principles; then the size of each step on requests other than those that
`benchmarks/RESULTS.md` reports, which says which they were, what each step is worth and what was
left out because it brought nothing.
"""

import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice

from governor.retrieval.fields import FieldTerms, WeightedFields
from governor.retrieval.fusion import added, fused, measured
from governor.retrieval.similarity import TextVectors
from governor.retrieval.terms import Terms, terms_of
from governor.retrieval.thesaurus import CONCEPTS
from governor.retrieval.vectors import StaticVectors
from tool_gateway.discovery.texts import ToolText

QUERY_CHARS_MAX = 2_000
_FIELDS = {
    "name": FieldTerms(weight=2.0, evenness=0.4),
    "lead": FieldTerms(weight=1.5, evenness=0.4),
    "rest": FieldTerms(weight=0.6, evenness=0.6),
    "server": FieldTerms(weight=0.7, evenness=0.4),
    "about": FieldTerms(weight=0.4, evenness=0.5),
    "parameters": FieldTerms(weight=0.4, evenness=0.5),
    "parameter_words": FieldTerms(weight=0.2, evenness=0.5),
}
_CONCEPTS_WEIGHT = 0.8
_FRAGMENTS_WEIGHT = 0.7
_NAME_WEIGHT = 1.5
_MEANING_WEIGHT = 0.8
# A word of the name that only its concept covers counts half.
_NAME_BY_CONCEPT = 0.5
_SAME_NAME = 0.8
# So many candidates beside those asked for are looked at for tools of the same name.
_SPARE = 20

_URL = re.compile(r"https?://\S+|\bwww\.\S+")
_MAIL = re.compile(r"[\w.+-]{1,64}@[\w-]{1,64}\.\w+")
_PATH = re.compile(r"(?<![\w/])(?:~|\.{1,2})?/[\w.+-]+(?:/[\w.+-]*)*|\b[A-Za-z]:\\\S+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Hit:
    """A tool by its number in the index, and its score: 1 is the best without past use."""

    number: int
    score: float


class ToolIndex:
    """The tools of one catalogue, ready to be searched."""

    def __init__(self, texts: Sequence[ToolText], *, vectors: StaticVectors | None = None) -> None:
        """Take every tool's text; their numbers are their places in `texts`."""
        written = [tool.fields() for tool in texts]
        analysed = [{name: terms_of(text) for name, text in tool.items()} for tool in written]
        weights = {name: field.weight for name, field in _FIELDS.items()}
        self._meanings = None if vectors is None else TextVectors(written, weights, vectors)
        self._stems = _indexed(analysed, lambda terms: terms.stems)
        self._concepts = _indexed(analysed, lambda terms: terms.concepts)
        self._fragments = _indexed(analysed, lambda terms: terms.fragments)
        self._names = _NameWords([tuple(fields["name"].stems) for fields in analysed])
        self._same = [frozenset(fields["name"].stems) for fields in analysed]

    def search(
        self,
        request: str,
        *,
        limit: int,
        lifts: Mapping[int, float] | None = None,
        nudges: Mapping[int, float] | None = None,
        is_open: Callable[[int], bool] = lambda _: True,
    ) -> tuple[Hit, ...]:
        """Return the best tools among those that are open, the best first.

        `lifts` are added to the scores of the words, `nudges` too where there is a score. What
        is not open has no say in the order of what is.
        """
        scores = self.scores(request)
        for number, lift in (lifts or {}).items():
            scores[number] = scores.get(number, 0.0) + lift
        for number, nudge in (nudges or {}).items():
            if number in scores:
                scores[number] += nudge
        ordered = sorted((-score, number) for number, score in scores.items())
        offered = (Hit(number=number, score=-lost) for lost, number in ordered if is_open(number))
        return tuple(self._spread(islice(offered, limit + _SPARE)))[:limit]

    def scores(self, request: str) -> dict[int, float]:
        """Return the score of every tool that has to do with the request, 1 for the best."""
        request = plain(request[:QUERY_CHARS_MAX])
        asked = terms_of(request)
        by_words = added(
            [
                (self._stems.scores(asked.stems), 1.0),
                (self._concepts.scores(asked.concepts), _CONCEPTS_WEIGHT),
            ]
        )
        by_fragments = self._fragments.scores(asked.fragments)
        scores = fused([(by_words, 1.0), (by_fragments, _FRAGMENTS_WEIGHT)])
        covered = self._names.covered(asked)
        for number in scores:
            scores[number] *= 1 + _NAME_WEIGHT * covered.get(number, 0.0)
        near = {} if self._meanings is None else self._meanings.scores(request)
        return measured(fused([(scores, 1.0), (near, _MEANING_WEIGHT)]))

    def _spread(self, hits: Iterator[Hit]) -> list[Hit]:
        seen: dict[frozenset[str], int] = defaultdict(int)
        spread = []
        for hit in hits:
            before = seen[self._same[hit.number]]
            seen[self._same[hit.number]] += 1
            spread.append(Hit(number=hit.number, score=hit.score * _SAME_NAME**before))
        return sorted(spread, key=lambda hit: (-hit.score, hit.number))


class _NameWords:
    """How much of each tool's name a request spells out."""

    def __init__(self, names: Sequence[Sequence[str]]) -> None:
        # Names as texts of their own: a word is rare if few names have it.
        holders: dict[str, list[int]] = defaultdict(list)
        for number, name in enumerate(names):
            for word in name:
                holders[word].append(number)
        rarity = WeightedFields([{} for _ in names], {}).rarity_of
        worth = {word: rarity(len(found)) for word, found in holders.items()}
        wholes = [sum(worth[word] for word in name) for name in names]
        self._shares = {
            word: tuple((number, worth[word] / wholes[number]) for number in found)
            for word, found in holders.items()
        }
        self._by_concept: dict[str, list[str]] = defaultdict(list)
        for word in holders:
            for concept in CONCEPTS.get(word, ()):
                self._by_concept[concept].append(word)

    def covered(self, asked: Terms) -> dict[int, float]:
        """Return the covered share of each name that is covered in part."""
        partly = {
            word
            for concept in asked.concepts
            for word in self._by_concept.get(concept, ())
            if word not in asked.stems
        }
        covered: dict[int, float] = defaultdict(float)
        for word in sorted(set(asked.stems)):
            for number, share in self._shares.get(word, ()):
                covered[number] += share
        for word in sorted(partly):
            for number, share in self._shares[word]:
                covered[number] += _NAME_BY_CONCEPT * share
        return covered


def plain(request: str) -> str:
    """Return the request with what it quotes by address said by kind.

    A path's folders and an address's host are arguments to come: they tell the kind of tool
    that takes them, and their words mislead.
    """
    request = _URL.sub(" website url ", request)
    request = _MAIL.sub(" email address ", request)
    return _PATH.sub(_kind_of_path, request)


def _kind_of_path(match: re.Match[str]) -> str:
    is_file = "." in match.group().rsplit("/", maxsplit=1)[-1]
    return " file path " if is_file else " directory path "


def _indexed(
    analysed: Sequence[Mapping[str, Terms]], view: Callable[[Terms], Mapping[str, int]]
) -> WeightedFields:
    texts = [{name: view(terms) for name, terms in fields.items()} for fields in analysed]
    return WeightedFields(texts, _FIELDS)
