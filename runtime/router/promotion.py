"""Whether a model is better than what is in force, by what was logged after it was trained."""

from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from governor.learning.offpolicy import LikelyValue
from runtime.router.off_policy import (
    COVERED_MIN,
    EFFECTIVE_MIN,
    RATED_MIN,
    RatedDecision,
    as_logged,
    by_model,
    estimate_json,
    values_of,
)
from runtime.router.predictor import RouterModel


class FileGain(msgspec.Struct, frozen=True, kw_only=True):
    """The gain over the best fixed tier on `n` prompts of which all outcomes were held out."""

    value: float
    ci95: tuple[float, float]
    n: int


class _Kept(msgspec.Struct, frozen=True, kw_only=True):
    outcomes: FileGain | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """What speaks for a model: its gain over what is in force on decisions it has not learned."""

    source: str
    n: int
    gain: LikelyValue | None
    why_not: str

    @property
    def is_better(self) -> bool:
        """Tell whether the gain is there beyond doubt."""
        return not self.why_not

    def or_of_file(self, kept: str, *, is_first: bool) -> "Evidence":
        """Return this, or where the log says nothing yet what recorded outcomes said at training.

        That is for a first model: what took its place is known from the log.
        """
        if self.is_better or self.n >= RATED_MIN or not is_first:
            return self
        try:
            file = msgspec.json.decode(kept, type=_Kept).outcomes
        except msgspec.DecodeError:
            return self
        if file is None:
            return self
        low, high = file.ci95
        gain = LikelyValue(value=file.value, low=low, high=high, n=file.n, effective=float(file.n))
        why = ""
        if file.n < RATED_MIN:
            why = (
                f"{file.n} prompts that were held out of the recorded outcomes are too few, "
                f"{RATED_MIN} are needed; record more"
            )
        elif low <= 0:
            why = f"its gain on recorded outcomes is {file.value:+.4f}, from {low:+.4f} on"
        return Evidence(source="outcomes", n=file.n, gain=gain, why_not=why)

    def shape(self) -> dict[str, object]:
        """Return it as it is shown and kept."""
        return {
            "source": self.source,
            "n": self.n,
            "gain": None if self.gain is None else estimate_json(self.gain),
            "is_better": self.is_better,
            "why_not": self.why_not,
        }


def evidence_of(model: RouterModel, held_out: Sequence[RatedDecision]) -> Evidence:
    """Return what the log says of a model against what was in force when it was written."""
    n = len(held_out)
    if n < RATED_MIN:
        why = (
            f"{RATED_MIN - n} more rated calls are needed since it was trained (have {n} of "
            f"{RATED_MIN}); report outcomes with POST /v1/outcomes"
        )
        return Evidence(source="log", n=n, gain=None, why_not=why)
    _, candidate = values_of(held_out, {"in_force": as_logged, "candidate": by_model(model)})
    gain, value = candidate.gain, candidate.value
    assert gain is not None, "the second one is held against the first"
    why = ""
    if value.covered < COVERED_MIN or value.effective < EFFECTIVE_MIN:
        why = (
            f"too few rated calls went to the tiers that it would choose: they tell of "
            f"{100 * value.covered:.0f} % of its choices, as much as {value.effective:.0f} calls "
            f"of its own ({EFFECTIVE_MIN:.0f} and {100 * COVERED_MIN:.0f} % are needed); raise "
            "router.explore_percent"
        )
    elif gain.low <= 0:
        why = (
            f"its gain a call is {gain.value:+.4f}, between {gain.low:+.4f} and {gain.high:+.4f}, "
            "in quality from 0 to 1 less the price of its cost: not above zero beyond doubt"
        )
    return Evidence(source="log", n=n, gain=gain, why_not=why)
