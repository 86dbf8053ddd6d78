"""The off-policy evaluation of the log as a whole: every way to choose, beside one another."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from governor.learning.offpolicy import LikelyValue
from runtime.router.off_policy import (
    RATED_MIN,
    Policy,
    PolicyValue,
    RatedDecision,
    earned,
    estimate_json,
    values_of,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class LogEvaluation:
    """What the log says; without enough rated decisions it says nothing, and why."""

    n: int
    sessions: int
    earned: LikelyValue | None
    policies: tuple[PolicyValue, ...]
    shadow_n: int
    shadow_agreed: int
    too_thin: str

    def shape(self) -> dict[str, object]:
        """Return it as JSON."""
        return {
            "n": self.n,
            "sessions": self.sessions,
            "earned": None if self.earned is None else estimate_json(self.earned),
            "policies": [_policy_json(policy) for policy in self.policies],
            "shadow": {
                "n": self.shadow_n,
                "agreement": None
                if not self.shadow_n
                else round(self.shadow_agreed / self.shadow_n, 4),
            },
            "too_thin": self.too_thin,
        }


def evaluated(rated: Sequence[RatedDecision], policies: Mapping[str, Policy]) -> LogEvaluation:
    """Return what each way to choose would have earned on these decisions."""
    shadowed = [one for one in rated if one.shadow_tier is not None]
    is_enough = len(rated) >= RATED_MIN
    return LogEvaluation(
        n=len(rated),
        sessions=len({one.session for one in rated}),
        earned=earned(rated) if is_enough else None,
        policies=tuple(values_of(rated, policies)) if is_enough else (),
        shadow_n=len(shadowed),
        shadow_agreed=sum(one.shadow_tier == one.usual for one in shadowed),
        too_thin=""
        if is_enough
        else f"{len(rated)} rated decisions are too few to say anything; {RATED_MIN} are needed",
    )


def _policy_json(policy: PolicyValue) -> dict[str, object]:
    """Return what a way would have earned; figures that the log is too little for are null."""
    shown = partial(estimate_json, is_known=policy.is_known)
    return {
        "name": policy.name,
        "value": shown(policy.value),
        "snips": shown(policy.snips),
        "ips": shown(policy.ips),
        "quality": shown(policy.quality),
        "cost_microusd": shown(policy.cost_microusd),
        "gain": None if policy.gain is None else shown(policy.gain),
        "is_known": policy.is_known,
    }
