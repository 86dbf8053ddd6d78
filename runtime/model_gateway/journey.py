"""One request on its way over tiers: where it was, why it goes on, where it goes next."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from governor.denial import DenialReason, Denied
from governor.ids import CallId, TierName
from governor.providing.recourse import AnotherTier, CheaperTier, NewHold, Recourse
from runtime.model_gateway.answer import Answer
from tool_gateway.denials import denial_json


@dataclass(frozen=True, slots=True, kw_only=True)
class Leg:
    """One call of a request that ended without an answer, and why."""

    call_id: CallId
    tier: TierName
    why: str


@dataclass(slots=True)
class Journey:
    """What has become of a request so far.

    `recourse` is what is to be done after the call that ended last, None where that is nothing.
    `keeps_key`: nothing was consumed yet, so that the request's idempotency key is free.
    """

    legs: list[Leg] = field(default_factory=list)
    recourse: Recourse | None = None
    keeps_key: bool = True
    first_why: str = ""
    _before: Recourse | None = None
    _rounds: int = 0
    # The first failure is the one that the client is told of when what should mend it is denied.
    _first_answer: Answer | None = None

    @property
    def tried(self) -> frozenset[TierName]:
        """Return the tiers that were asked, or would have been."""
        return frozenset(leg.tier for leg in self.legs)

    def rounds_at(self, tier: TierName) -> int:
        """Return how many attempts the calls before made at a tier, for it is asked again."""
        return self._rounds if self.legs and self.legs[-1].tier == tier else 0

    def begin_leg(self) -> None:
        """Begin the next call; unless it fails or is denied, the request ends with it."""
        self._before, self.recourse = self.recourse, None

    def note_failed(
        self,
        leg: Leg,
        *,
        recourse: Recourse | None,
        rounds: int,
        answer: Answer | None,
        was_released: bool,
    ) -> None:
        """Take note of a call that failed, and of what the client would be told."""
        self.legs.append(leg)
        self.recourse, self._rounds = recourse, rounds
        self.keeps_key = self.keeps_key and was_released
        self._first_answer = self._first_answer or answer

    def note_denied(self, leg: Leg, answer: Answer, *, goes_cheaper: bool = False) -> None:
        """Take note of a call that was denied.

        The request goes on where another tier was to mend a failure, where the provider of
        the first is left alone for its failures, or where a cheaper tier may do.
        """
        if goes_cheaper:
            self.recourse = CheaperTier()
            self.legs.append(leg)
            return
        if self._before == CheaperTier() and self._first_answer is None:
            return
        is_left_alone = leg.why == DenialReason.UPSTREAM_UNAVAILABLE.value
        if not self.legs and not is_left_alone:
            return
        before = self._before
        self.recourse = before if isinstance(before, AnotherTier) else AnotherTier()
        self.legs.append(leg)
        self._first_answer = self._first_answer or answer

    def why(self, chosen: str) -> str:
        """Return why the request is where it goes next; `chosen` says why the first tier was."""
        if isinstance(self.recourse, CheaperTier):
            return f"{chosen} passed over: too dear for what is left"
        last = self.legs[-1]
        word = "repeated after" if isinstance(self.recourse, NewHold) else "fallback from"
        return f"{word} {last.tier} ({last.why}); {chosen}"

    def without_a_way(self, answer: Answer, denied: Denied) -> Answer:
        """Return the first failure, beside it the denial of what should have mended it."""
        first = self._first_answer
        if first is None:
            return answer
        return first.with_flyball({"fallback_denial": denial_json(denied)})


def names_of(legs: Sequence[Leg]) -> str:
    """Return the calls in the few words of a header."""
    return ", ".join(f"{leg.tier}; {leg.why}" for leg in legs)
