"""How much each thing that speaks for a text counts."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Ranker:
    """What makes one score of many."""

    vector_weight: float = 4.0


PLAIN_RANKER = Ranker()
