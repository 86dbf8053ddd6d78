"""Whose words texts are, and how much it tells that a question names somebody."""

from collections.abc import Sequence
from math import log2

import numpy as np

from governor.retrieval.analysis import index_terms
from governor.retrieval.columns import Floats, Places

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

    def number_of(self, actor: str) -> int:
        """Return the number of an actor, a new one if it was never heard before."""
        number = self._numbers.get(actor)
        if number is None:
            number = self._numbers[actor] = len(self._names)
            self._names.append(frozenset(index_terms(actor).split()))
        return number

    def named(self, terms: Sequence[str], speaking: Places) -> tuple[Floats, frozenset[str]]:
        """Return what being by each actor tells, and the terms that do nothing but name one.

        `speaking` has the actor of each text. An actor is named by a share of its name. That a
        text is by somebody named tells the more, the fewer texts are: as the square root of the
        bits, up to two.
        """
        asked, texts = frozenset(terms), np.bincount(speaking, minlength=len(self._names))
        shares = np.zeros(len(self._names), dtype=np.float32)
        naming = frozenset[str]()
        for number, name in enumerate(self._names):
            if texts[number] and not name.isdisjoint(asked):
                shares[number] = len(name & asked) / len(name)
                naming |= name if name <= asked else frozenset()
        known, by_named = float(texts[1:].sum()), float(texts[shares > 0].sum())
        if not 0 < by_named < known:
            return np.zeros_like(shares), frozenset()
        shares[NOBODY] = _UNKNOWN
        return shares * telling(by_named / known), naming


def telling(share: float) -> np.float32:
    """Return what it tells that a text is one of a share of all: the root of the bits, up to 2."""
    return np.float32(min(-log2(share), _BITS_MAX) ** 0.5 if 0 < share < 1 else 0.0)
