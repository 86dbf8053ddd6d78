"""How words are spread over the experiences of a namespace, told from a sample of them."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from governor.retrieval.postings import Background

SAMPLED = 4_096


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """In how many of some experiences each word stood, and how many words those had."""

    sampled: int = 0
    words: int = 0
    holders: Counter[str] = field(default_factory=Counter)

    def among(self, terms: Sequence[str], *, total: int) -> Background:
        """Return how the terms are spread over all, of which there are `total`."""
        share = total / max(self.sampled, 1)
        # A word that is not in the sample is rare; half of one is the honest guess.
        held = {term: round((self.holders.get(term, 0) or 0.5) * share) for term in terms}
        return Background(total=total, mean_length=self.words / max(self.sampled, 1), holders=held)


def spread_of(texts: Sequence[str]) -> Spread:
    """Return the spread over texts, each its terms with spaces between."""
    holders: Counter[str] = Counter()
    words = 0
    for text in texts:
        terms = text.split()
        words += len(terms)
        holders.update(set(terms))
    return Spread(sampled=len(texts), words=words, holders=holders)


def together(parts: Sequence[Background]) -> Background:
    """Return how terms are spread over several namespaces taken as one."""
    total = sum(part.total for part in parts)
    length = sum(part.mean_length * part.total for part in parts)
    held: Counter[str] = Counter()
    for part in parts:
        held.update(part.holders)
    return Background(total=total, mean_length=length / max(total, 1), holders=held)
