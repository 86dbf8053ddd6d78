"""How much of what was found is shown: as much as fits into the tokens that a reader gives."""

from collections.abc import Sequence
from dataclasses import dataclass

from governor.ids import ExperienceId

TOKENS_DEFAULT = 2_000
TOKENS_MAX = 32_000
# A reader is told which of those that were left out come first, and how many there are.
_NAMED_MAX = 5
# What one hit may take of the room that is left, so that one long text does not crowd out all
# others: a half, or all of it once nothing is behind it.
_SHARE = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """One hit, the best first, and what showing it takes: whole, or in its summary alone."""

    index: ExperienceId
    whole_tokens: int
    brief_tokens: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftOut:
    """What a reading does not show: how many, how long they are, and the first of them."""

    count: int = 0
    tokens: int = 0
    indices: tuple[ExperienceId, ...] = ()

    def as_json(self) -> dict[str, object]:
        """Return the public JSON."""
        return {"count": self.count, "tokens": self.tokens, "indices": list(self.indices)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """Which hits are shown `whole`, which `brief`; `tokens` is what both take together."""

    whole: frozenset[ExperienceId]
    brief: frozenset[ExperienceId]
    tokens: int
    left_out: LeftOut


def fitted(
    candidates: Sequence[Candidate], *, tokens_max: int, unseen: int = 0, overhead: int = 0
) -> Reading:
    """Return what of `candidates` fits into `tokens_max`, in their order.

    `unseen` is how many more matched and are not among them. `overhead` is what the answer takes
    without any of them. A hit is shown whole where it leaves room for those behind it, else by
    its summary. One that does not fit even so is left out, and those behind it are tried.
    """
    left = tokens_max - overhead
    whole: set[ExperienceId] = set()
    brief: set[ExperienceId] = set()
    missing: list[Candidate] = []
    for number, one in enumerate(candidates):
        is_last = number == len(candidates) - 1
        share = left if is_last else max(left // _SHARE, one.brief_tokens)
        if one.whole_tokens <= min(left, share):
            whole.add(one.index)
            left -= one.whole_tokens
        elif one.brief_tokens <= left:
            brief.add(one.index)
            left -= one.brief_tokens
        else:
            missing.append(one)
    return Reading(
        whole=frozenset(whole),
        brief=frozenset(brief),
        tokens=tokens_max - left,
        left_out=LeftOut(
            count=len(missing) + unseen,
            tokens=sum(one.whole_tokens for one in missing),
            indices=tuple(one.index for one in missing[:_NAMED_MAX]),
        ),
    )
