"""Whose words texts are, and how much it tells that a question names somebody."""

from collections import Counter

import numpy as np

from governor.retrieval.analysis import index_terms
from governor.retrieval.columns import Floats

NOBODY = 0
# A text by somebody unknown may be by whoever is named.
_UNKNOWN = 0.5
_BITS_MAX = 4.0


class Speakers:
    """The actors of texts, by numbers from 1 on; 0 is nobody known."""

    def __init__(self) -> None:
        """Begin with nobody."""
        self._numbers: dict[str, int] = {"": NOBODY}
        self._names: list[frozenset[str]] = [frozenset()]
        self._texts = Counter[int]()

    def heard(self, actor: str) -> int:
        """Return the number of an actor and count one more text of its."""
        number = self._numbers.get(actor)
        if number is None:
            number = self._numbers[actor] = len(self._names)
            self._names.append(frozenset(index_terms(actor).split()))
        self._texts[number] += 1
        return number

    def unheard(self, number: int) -> None:
        """Count one text less of an actor."""
        self._texts[number] -= 1

    def named(self, terms: tuple[str, ...]) -> tuple[Floats, frozenset[str]]:
        """Return what being by each actor tells, and the terms that do nothing but name one.

        An actor is named by a share of its name. That a text is by somebody named tells the more,
        the fewer texts are: as the square root of the bits, up to two.
        """
        asked = frozenset(terms)
        shares = np.array(
            [len(name & asked) / len(name) if name else 0.0 for name in self._names],
            dtype=np.float32,
        )
        texts = np.array([self._texts[at] for at in range(shares.size)], dtype=np.float32)
        known = float(texts[1:].sum())
        by_named = float(texts[shares > 0].sum())
        if not 0 < by_named < known:
            return np.zeros_like(shares), frozenset()
        bits = min(float(-np.log2(by_named / known)), _BITS_MAX)
        shares[NOBODY] = _UNKNOWN
        whole = frozenset().union(*(name for name in self._names if name and name <= asked))
        return shares * np.float32(bits**0.5), whole
