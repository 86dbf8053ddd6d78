"""A question as it is asked of texts kept in memory."""

from dataclasses import dataclass

from governor.retrieval.analysis import TEXT_CHARS_MAX, query_terms, traits_of
from governor.retrieval.vectors import StaticVectors, Vector


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryParts:
    """What of a question texts are compared with; without a vector, by words alone."""

    terms: tuple[str, ...]
    traits: int
    vector: Vector | None = None


def query_parts(text: str, vectors: StaticVectors | None = None) -> QueryParts:
    """Return the parts of a question, with a vector where there are `vectors` to make it of."""
    return QueryParts(
        terms=query_terms(text),
        traits=traits_of(text),
        vector=vectors.embed(text[:TEXT_CHARS_MAX]) if vectors is not None else None,
    )
