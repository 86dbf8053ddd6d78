"""What a ranker sees of the texts that a question may be answered by, drawn from a shelf."""

from collections.abc import Mapping
from dataclasses import dataclass

from governor.retrieval.columns import Floats, Places

# Where a neighbour stands: so many texts before (negative) or after.
REACH = (-2, -1, 0, 1, 2)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sight:
    """The candidates (columns) of one question, each with its neighbours by where they stand.

    `counts` has a row for each term of the question and `rarity` what that term is worth;
    `asked` are the traits of the question. `session_words` is the score of a candidate's whole
    session, `actor` how far it is by somebody whom the question names, times what that tells,
    and `moment` the same of the time that the question names.
    `cosines` is empty where the question has no vector.
    """

    rarity: Floats
    mean_length: float
    counts: Mapping[int, Floats]
    lengths: Mapping[int, Floats]
    traits: Mapping[int, Places]
    cosines: Mapping[int, Floats]
    sessions: Places
    session_words: Floats
    session_share: Floats
    actor: Floats
    moment: Floats
    asked: int
