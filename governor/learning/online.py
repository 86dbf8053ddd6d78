"""What a bandit learns of calls that were rated, however late and in whichever order."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from governor.learning.bandit import Bandit, Lesson, Vector
from governor.learning.drift import USUAL_DRIFT, DriftTerms, DriftWatch
from governor.learning.verdict import Report, Verdict

SPENT_MAX = 4_096
_DAY_MS = 86_400_000
_HOUR_MS = 3_600_000
_DAY_DIGITS = 8
# What is left of what was learned of a tier that is no longer what it was.
_KEPT_AFTER_DRIFT = 0.1
# Weak signs scatter too much to tell a drift by.
_WATCHED_WEIGHT_MIN = 0.25


@dataclass(frozen=True, slots=True, kw_only=True)
class OnlineTerms:
    """How fast what lies back is forgotten, and what one agent's own word may count in a day."""

    half_life_hours: float
    influence_per_day: float
    drift: DriftTerms = USUAL_DRIFT

    @property
    def keep(self) -> float:
        """Return what an hour leaves of the evidence before it."""
        return float(0.5 ** (1.0 / self.half_life_hours))


@dataclass(frozen=True, slots=True, kw_only=True)
class Influence:
    """What each agent's word has counted, by the day of the calls; trusted words do not go here."""

    spent: Mapping[str, float] = field(default_factory=dict)

    def granted(self, agent: str, wanted: float, *, day: int, per_day: float) -> float:
        """Return how much of a weight an agent still has for the calls of a day."""
        return max(0.0, min(wanted, per_day - self.spent.get(_key(day, agent), 0.0)))

    def with_spent(self, agent: str, weight: float, *, day: int) -> "Influence":
        """Return what was counted, with so much more of an agent; the oldest day gives way."""
        key = _key(day, agent)
        spent = {**self.spent, key: self.spent.get(key, 0.0) + weight}
        if len(spent) > SPENT_MAX:
            oldest = min(spent)[:_DAY_DIGITS]
            spent = {one: counted for one, counted in spent.items() if one[:_DAY_DIGITS] > oldest}
        return Influence(spent=spent)


NOBODY_SPOKE = Influence()


@dataclass(frozen=True, slots=True, kw_only=True)
class Word:
    """By how much a call is to be learned because of what was said of it, and whose it is."""

    agent: str
    decided_at_ms: int
    weight: float
    is_trusted: bool


def capped_weights(words: Sequence[Word], *, per_day: float) -> list[float]:
    """Return what each word counts where one agent's own of a day count no more than so much.

    Whoever said too much is scaled down rather than cut off, so that none of it is lost.
    """
    totals: dict[tuple[str, int], float] = {}
    for word in words:
        if not word.is_trusted:
            key = word.agent, word.decided_at_ms // _DAY_MS
            totals[key] = totals.get(key, 0.0) + word.weight
    return [
        word.weight
        if word.is_trusted
        else word.weight
        * min(1.0, per_day / max(totals[word.agent, word.decided_at_ms // _DAY_MS], per_day))
        for word in words
    ]


def _key(day: int, agent: str) -> str:
    return f"{day:0{_DAY_DIGITS}d}{agent}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rated:
    """A call that was rated, as the model in force sees it now.

    `expected` is what the model expects without the bandit; `before` is what the bandit was taught
    of the same call by an earlier verdict, None if a drift has put an end to that.
    """

    call_id: str
    agent: str
    tier: str
    context: Vector
    expected: float
    decided_at_ms: int
    verdict: Verdict
    before: Report | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Lessons:
    """What came of a number of rated calls: what counted of each, and which tiers drifted."""

    bandit: Bandit
    watches: Mapping[str, DriftWatch]
    influence: Influence
    counted: Mapping[str, float]
    drifted: tuple[str, ...]
    capped: int


def period_of(at_ms: int) -> int:
    """Return the period that a bandit learns a call in."""
    return at_ms // _HOUR_MS


def taught(
    bandit: Bandit,
    watches: Mapping[str, DriftWatch],
    influence: Influence,
    rated: Sequence[Rated],
    *,
    terms: OnlineTerms,
) -> Lessons:
    """Return what is known after these calls; what was known before stays as it is."""
    after = Bandit(bandit.terms, bandit.arms)
    heard, spent = dict(watches), influence
    counted: dict[str, float] = {}
    drifted: list[str] = []
    capped = 0
    for one in rated:
        before = 0.0 if one.before is None else one.before.weight
        weight = one.verdict.weight
        if not one.verdict.is_trusted and weight > before:
            day, cap = one.decided_at_ms // _DAY_MS, terms.influence_per_day
            more = spent.granted(one.agent, weight - before, day=day, per_day=cap)
            capped += more < weight - before
            weight = before + more
            spent = spent.with_spent(one.agent, more, day=day)
        counted[one.call_id] = weight
        residual = one.verdict.score - _believed(after, one)
        _teach(after, one, weight)
        if one.before is None and weight >= _WATCHED_WEIGHT_MIN:
            watch, is_drift = heard.get(one.tier, DriftWatch()).after(residual, terms.drift)
            heard[one.tier] = watch
            if is_drift:
                after.forget(one.tier, keep=_KEPT_AFTER_DRIFT)
                drifted.append(one.tier)
    return Lessons(
        bandit=after,
        watches=heard,
        influence=spent,
        counted=counted,
        drifted=tuple(drifted),
        capped=capped,
    )


def _teach(bandit: Bandit, one: Rated, weight: float) -> None:
    """Take back what was learned of the call before, and learn what is known of it now."""
    period = period_of(one.decided_at_ms)
    lessons = [(one.verdict.score, weight)]
    if one.before is not None:
        lessons.insert(0, (one.before.score, -one.before.weight))
    for score, counted in lessons:
        if counted:
            bandit.learn(
                Lesson(
                    arm=one.tier,
                    context=one.context,
                    reward=score - one.expected,
                    weight=counted,
                    period=period,
                )
            )


def _believed(bandit: Bandit, one: Rated) -> float:
    return one.expected + float(bandit.expected(one.context, [one.tier]).mean[0])
