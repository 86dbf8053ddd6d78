"""A question as it is asked of texts kept in memory."""

import re
from dataclasses import dataclass

from governor.retrieval.analysis import TEXT_CHARS_MAX, query_terms, traits_of
from governor.retrieval.moments import Moment, moment_in
from governor.retrieval.vectors import StaticVectors, Vector

# The shipped vectors are of English: of other scripts they mean next to nothing.
_LETTER = re.compile(r"[^\W\d_]")
_LATIN = re.compile("[A-Za-z]")


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryParts:
    """What of a question texts are compared with; without a vector, by words alone."""

    terms: tuple[str, ...]
    traits: int
    vector: Vector | None = None
    moment: Moment | None = None


def query_parts(text: str, vectors: StaticVectors | None = None) -> QueryParts:
    """Return the parts of a question; with a vector if there are `vectors` and it is not foreign.

    A question most of whose letters are not Latin is asked by words alone.
    """
    read = text[:TEXT_CHARS_MAX]
    known = vectors is not None and 2 * len(_LATIN.findall(read)) >= len(_LETTER.findall(read))
    return QueryParts(
        terms=query_terms(text),
        traits=traits_of(text),
        moment=moment_in(read),
        vector=vectors.embed(read) if vectors is not None and known else None,
    )
