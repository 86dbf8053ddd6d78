"""Learns from what is said of searches, and puts what was learned in force where it is better.

What was learned decides nothing by itself: it is held against what decides now on the log, and is
put in force by an administrator's word, or stays out. One word takes it back.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from governor.call import ToolCall
from governor.experience.stages import PLANS
from governor.experience.tier_choice import BELIEVED, SEARCHED, features_of, nothing_learned
from governor.ids import ExperienceId, TenantId
from governor.learning.bandit import Bandit, Vector
from governor.learning.online import OnlineTerms, Rated, taught
from governor.learning.verdict import Report, Reporter, Source, Verdict, weight_of
from memory_store.errors import StoreError, VersionConflictError
from memory_store.memory_choices import ChoiceLog, ChoiceMade, Learned, What
from runtime.errors import NotBetterError
from runtime.memory.noting.choices import ChoiceNotes, numbers_of, options_of
from runtime.router import learned_file
from runtime.router.learned_file import LearnedFileError
from runtime.router.off_policy import (
    Policy,
    PolicyValue,
    RatedDecision,
    always,
    as_logged,
    values_of,
)
from runtime.router.written import WrittenOption
from tool_gateway.telemetry import count_failure

# The name that what was learned is kept under; another form of it would have another.
_MODEL = "memory-plans-1"
_TERMS = OnlineTerms(half_life_hours=24 * 30.0, influence_per_day=20.0)
_LOOKED_AT_MAX = 2_000
_PAGE = 200
_FOLLOWED_MS = 5_000
_TENANTS_MAX = 1_000
# Fewer searches that somebody spoke of say nothing about a policy.
SPOKEN_MIN = 40


@dataclass(frozen=True, slots=True, kw_only=True)
class TierReport:
    """What ways to choose plans would have earned by the log, the one in force first."""

    spoken_of: int
    revision: int
    in_force: bool
    values: tuple[PolicyValue, ...]

    @property
    def is_better(self) -> bool:
        """Tell whether what was learned surely loses nothing against the usual plan."""
        learned = next((one for one in self.values if one.name == "learned"), None)
        if learned is None or learned.gain is None or not learned.is_known:
            return False
        return learned.gain.low >= 0.0


class TierCredit:
    """Takes what agents say of what they were shown for what the search was worth."""

    def __init__(self, log: ChoiceLog, notes: ChoiceNotes) -> None:
        """Take where choices are kept, and what waits to be kept."""
        self._log = log
        self._notes = notes

    async def __call__(
        self,
        call: ToolCall,
        indices: tuple[ExperienceId, ...],
        *,
        used: float,
        helpful: float | None,
    ) -> None:
        """Keep it beside the searches of the session that showed them."""
        score = used if helpful is None else helpful
        weight = weight_of(Source.USER, Reporter.AGENT)
        chain = call.chain
        try:
            await self._notes.flush()
            for made in await self._log.that_showed(chain.tenant, chain.session, indices):
                said = written(Verdict(score=score, weight=weight, is_trusted=False))
                await self._log.say(chain.tenant, What.SEARCH, made.choice.key, said)
        except StoreError:
            count_failure("memory credit")


class Now(Protocol):
    """Where the time comes from."""

    def now_ms(self) -> int:
        """Return the time, in epoch milliseconds."""
        ...


class TierLearner:
    """Teaches what is known of a tenant's searches, and says what is in force."""

    def __init__(self, log: ChoiceLog, *, clock: Now) -> None:
        """Take where choices and what was learned of them are kept."""
        self._log = log
        self._clock = clock
        self._followed: dict[TenantId, tuple[int, Bandit | None]] = {}

    async def learned_of(self, tenant: TenantId) -> Bandit | None:
        """Return what is in force for a tenant's searches, as of a few seconds ago."""
        now_ms = self._clock.now_ms()
        known = self._followed.get(tenant)
        if known is not None and now_ms - known[0] < _FOLLOWED_MS:
            return known[1]
        try:
            found = await self._log.learned(tenant, What.SEARCH)
        except StoreError:
            count_failure("memory tiers")
            return None if known is None else known[1]
        bandit = _bandit(found) if found.in_force else None
        if len(self._followed) >= _TENANTS_MAX:
            self._followed.clear()
        self._followed[tenant] = now_ms, bandit
        return bandit

    async def learn(self) -> int:
        """Learn what there is to learn now, up to a bound; return of how many searches.

        Raises:
            StoreError: the log cannot be read, or what was learned not be kept.
        """
        pending = await self._log.pending(What.SEARCH)
        for tenant in dict.fromkeys(one.choice.tenant for one in pending):
            await self._learn(tenant, [one for one in pending if one.choice.tenant == tenant])
        return len(pending)

    async def report(self, tenant: TenantId) -> TierReport:
        """Return what the usual plan, others and what was learned would have earned.

        Raises:
            StoreError: the log cannot be read.
        """
        known = await self._log.learned(tenant, What.SEARCH)
        spoken = await self._spoken(tenant)
        rated = [one for made in spoken if (one := rated_of(made)) is not None]
        values: list[PolicyValue] = []
        if len(rated) >= SPOKEN_MIN:
            policies: dict[str, Policy] = {
                "usual": as_logged,
                **{name: always(name) for name in ("low", "mid", "high")},
            }
            bandit = _bandit(known)
            if bandit is not None:
                contexts = {one.choice.key: numbers_of(one.choice.context) for one in spoken}
                policies["learned"] = by_learned(bandit, contexts)
            values = values_of(rated, policies)
        return TierReport(
            spoken_of=len(rated),
            revision=known.revision,
            in_force=known.in_force,
            values=tuple(values),
        )

    async def promote(self, tenant: TenantId, *, is_forced: bool = False) -> Learned:
        """Put in force what was learned, if by the log it loses nothing.

        Raises:
            NotBetterError: it is not known to be as good as what decides now.
            NotFoundError: nothing was learned.
            VersionConflictError: somebody learned since; try again.
            StoreError: the store does not answer.
        """
        report = await self.report(tenant)
        if not is_forced and not report.is_better:
            message = (
                f"by {report.spoken_of} searches that were spoken of it is not known that what "
                "was learned is as good as what decides now; wait for more, or force it"
            )
            raise NotBetterError(message)
        self._followed.pop(tenant, None)
        return await self._log.put_in_force(
            tenant,
            What.SEARCH,
            expected_revision=report.revision,
            now_ms=self._clock.now_ms(),
        )

    async def roll_back(self, tenant: TenantId) -> Learned:
        """Put in force what was before, at the end nothing that was learned.

        Raises:
            NotFoundError: nothing that was learned is in force.
            VersionConflictError: somebody learned since; try again.
            StoreError: the store does not answer.
        """
        known = await self._log.learned(tenant, What.SEARCH)
        self._followed.pop(tenant, None)
        return await self._log.roll_back(
            tenant,
            What.SEARCH,
            expected_revision=known.revision,
            now_ms=self._clock.now_ms(),
        )

    async def _spoken(self, tenant: TenantId) -> list[ChoiceMade]:
        found: list[ChoiceMade] = []
        cursor: str | None = None
        while len(found) < _LOOKED_AT_MAX:
            page = await self._log.page(
                tenant, What.SEARCH, is_known=True, cursor=cursor, limit=_PAGE
            )
            found.extend(page.items)
            cursor = page.next
            if cursor is None:
                break
        return found

    async def _learn(self, tenant: TenantId, made: Sequence[ChoiceMade]) -> None:
        known = await self._log.learned(tenant, What.SEARCH)
        before = _unpacked(known)
        rated = tuple(one for each in made if (one := _rated(each)) is not None)
        lessons = taught(before.bandit, before.watches, before.influence, rated, terms=_TERMS)
        state = learned_file.packed(
            replace(
                before,
                bandit=lessons.bandit,
                watches=dict(lessons.watches),
                influence=lessons.influence,
                capped=before.capped + lessons.capped,
            )
        )
        marks = tuple(_taught(one, lessons.counted) for one in made)
        try:
            await self._log.learn(
                state,
                marks,
                tenant=tenant,
                what=What.SEARCH,
                over=known,
                now_ms=self._clock.now_ms(),
            )
        except VersionConflictError:
            return  # another sidecar was faster: the next pass knows what it learned


def by_learned(bandit: Bandit, contexts: Mapping[str, Vector]) -> Policy:
    """Return the way that takes what is expected to be worth most after what it costs."""

    def choose(one: RatedDecision) -> Mapping[str, float]:
        context = contexts[one.call_id]

        def value(name: str) -> float:
            known = bandit.expected(features_of(context, PLANS[name]), [SEARCHED])
            cost = one.price * one.options[name].cost_microusd
            return BELIEVED[name] + float(known.mean[0]) - cost

        return {max(one.options, key=value): 1.0}

    return choose


def written(verdict: Verdict) -> str:
    """Return a verdict as the log keeps it."""
    return json.dumps([verdict.score, verdict.weight, verdict.is_trusted])


def verdict_of(text: str | None) -> Verdict | None:
    """Return what `written` wrote, None where nothing was said."""
    if text is None:
        return None
    score, weight, is_trusted = json.loads(text)
    return Verdict(score=float(score), weight=float(weight), is_trusted=bool(is_trusted))


def rated_of(made: ChoiceMade) -> RatedDecision | None:
    """Return a choice whose worth is known; None of one whose plans are no longer there."""
    choice, verdict = made.choice, verdict_of(made.outcome)
    options = options_of(choice.options)
    if verdict is None or not all(name in PLANS for name in options):
        return None
    return RatedDecision(
        call_id=choice.key,
        session=choice.session,
        decided_at_ms=choice.decided_at_ms,
        tier=choice.arm,
        options={
            name: WrittenOption(
                tier=name, quality=BELIEVED[name], cost_microusd=cost, propensity=chance
            )
            for name, (chance, cost) in options.items()
        },
        features=numbers_of(choice.context).astype("float32"),
        price=choice.price,
        score=verdict.score,
        cost_microusd=float(choice.cost_microusd),
        shadow_model=None,
        shadow_tier=None,
        weight=verdict.weight,
        speaker=None if verdict.is_trusted else choice.agent,
    )


def _rated(made: ChoiceMade) -> Rated | None:
    choice, verdict = made.choice, verdict_of(made.outcome)
    plan = PLANS.get(choice.arm)
    context = numbers_of(choice.context)
    if verdict is None or plan is None:
        return None
    before = verdict_of(made.learned)
    features = features_of(context, plan)
    if len(features) != nothing_learned().terms.dimensions:
        return None  # written by another version
    return Rated(
        call_id=choice.key,
        agent=choice.agent,
        tier=SEARCHED,
        context=features,
        expected=BELIEVED[plan.name],
        decided_at_ms=choice.decided_at_ms,
        verdict=verdict,
        before=None
        if before is None
        else Report(score=before.score, weight=before.weight, is_trusted=before.is_trusted),
    )


def _taught(made: ChoiceMade, counted: Mapping[str, float]) -> ChoiceMade:
    """Return a choice as it was learned: by how much it counted, which may be less than said."""
    verdict = verdict_of(made.outcome)
    if verdict is None:
        return made
    weight = counted.get(made.choice.key, 0.0)
    return replace(made, learned=written(replace(verdict, weight=weight)))


def _unpacked(known: Learned) -> learned_file.KeptLearning:
    fresh = nothing_learned(keep=_TERMS.keep)
    if known.state is None:
        return learned_file.KeptLearning(model=_MODEL, bandit=fresh)
    try:
        return learned_file.unpacked(known.state, terms=fresh.terms, model=_MODEL)
    except LearnedFileError:
        count_failure("memory tiers")
        return learned_file.KeptLearning(model=_MODEL, bandit=fresh)


def _bandit(known: Learned) -> Bandit | None:
    return None if known.state is None else _unpacked(known).bandit
