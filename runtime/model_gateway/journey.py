"""One request on its way over tiers: where it was, why it goes on, where it goes next."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from governor.denial import Denied
from governor.ids import CallId, TierName
from governor.providing.failure import Cause
from governor.providing.recourse import AnotherTier, NewHold, Recourse
from governor.tiers import ModelTier
from runtime.model_gateway.answer import Answer
from tool_gateway.denials import denial_json


@dataclass(frozen=True, slots=True, kw_only=True)
class Leg:
    """One hold of the request that ended without an answer, and why."""

    call_id: CallId
    tier: TierName
    why: str


@dataclass(slots=True)
class Journey:
    """What has become of a request so far.

    `recourse` is what is to be done after the leg that ended last, None where that is nothing;
    `rounds` are the attempts that were made at its tier. `keeps_key`: the last leg consumed
    nothing, so that the request's idempotency key is free for the next.
    """

    legs: list[Leg] = field(default_factory=list)
    recourse: Recourse | None = None
    rounds: int = 0
    keeps_key: bool = True
    # The first failure is the one that the client is told of when nothing else serves it.
    first_answer: Answer | None = None

    @property
    def tried(self) -> frozenset[TierName]:
        """Return the tiers that were asked."""
        return frozenset(leg.tier for leg in self.legs)

    @property
    def began_at(self) -> CallId | None:
        """Return the id of the first call, None while nothing has failed."""
        return self.legs[0].call_id if self.legs else None

    def note_leg(
        self,
        *,
        call_id: CallId,
        tier: TierName,
        cause: Cause,
        answer: Answer | None,
        was_released: bool,
    ) -> None:
        """Take note of a hold that ended for `cause`, and of what the client would be told."""
        if not self.legs or self.legs[-1].tier != tier:
            self.rounds = 0
        self.legs.append(Leg(call_id=call_id, tier=tier, why=cause.value))
        self.keeps_key = self.keeps_key and was_released
        if self.first_answer is None:
            self.first_answer = answer

    def why(self) -> str:
        """Return why the request is where it is, after its first leg."""
        last = self.legs[-1]
        word = "repeated after" if isinstance(self.recourse, NewHold) else "fallback from"
        return f"{word} {last.tier} ({last.why})"

    def told(self) -> list[dict[str, str]]:
        """Return the legs as the client is told of them."""
        return [{"call_id": leg.call_id, "tier": leg.tier, "why": leg.why} for leg in self.legs]

    def without_a_way(self, answer: Answer, denied: Denied) -> Answer:
        """Return the first failure where what should have mended it was denied."""
        first = self.first_answer or answer
        return first.with_flyball({"fallback_denial": denial_json(denied)})


def is_elsewhere(recourse: Recourse | None) -> bool:
    """Tell whether another tier is to be asked."""
    return isinstance(recourse, AnotherTier)


def names_of(legs: Sequence[Leg]) -> str:
    """Return the legs in the few words of a header."""
    return ", ".join(f"{leg.tier}; {leg.why}" for leg in legs)
