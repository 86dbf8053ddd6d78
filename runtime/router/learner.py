"""Learns from calls that were rated, in one process of one sidecar at a time."""

import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from typing import Protocol

import anyio
import anyio.lowlevel
import anyio.to_thread

from governor.learning.online import Lessons, OnlineTerms, Rated, taught
from governor.learning.verdict import Verdict
from memory_store.errors import StoreError, VersionConflictError
from memory_store.router_log import LoggedDecision
from memory_store.router_models import RouterStanding, Taught
from runtime.router.in_force import (
    ModelsInForce,
    RouterInForce,
    Versioned,
    context_of,
    nothing_learned,
)
from runtime.router.learned_file import KeptLearning, packed
from runtime.router.written import WrittenError, unpacked
from tool_gateway import telemetry
from tool_gateway.ports import Clock

logger = logging.getLogger(__name__)

LESSONS_MAX = 256
EVERY_SECONDS = 1.0


class Log(Protocol):
    """What was rated."""

    async def pending(self, *, since_ms: int, limit: int) -> tuple[LoggedDecision, ...]:
        """Return choices of which there is something to learn."""
        ...


class Shelf(Protocol):
    """Where what was learned is kept."""

    async def learn(
        self,
        learned: bytes,
        taught: tuple[Taught, ...],
        *,
        over: RouterStanding,
        now_ms: int,
    ) -> int:
        """Keep what was learned."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class _Read:
    """Rated calls as the model in force sees them, and what cannot be read of the log."""

    rated: tuple[Rated, ...]
    verdicts: tuple[tuple[LoggedDecision, Verdict], ...]


class Learner:
    """Teaches the bandit beside the model in force what became of calls."""

    def __init__(
        self,
        log: Log,
        shelf: Shelf,
        models: ModelsInForce,
        *,
        clock: Clock,
        terms: Callable[[], OnlineTerms],
        is_on: Callable[[], bool] = lambda: True,
    ) -> None:
        """Take the log, the shelf, what is in force, and how fast is forgotten.

        While it is not `is_on`, nobody asks what is in force, and the store is left alone.
        """
        self._is_on = is_on
        self._log = log
        self._shelf = shelf
        self._models = models
        self._clock = clock
        self._terms = terms

    async def learn(self) -> int:
        """Learn what there is to learn now, up to a bound; return of how many calls.

        Raises:
            StoreError: the log cannot be read, or what was learned not be kept.
        """
        now = self._models.now
        if now.incumbent is None:
            return 0
        logged = await self._log.pending(since_ms=now.standing.learn_since_ms, limit=LESSONS_MAX)
        if not logged:
            return 0
        known = now.learned or nothing_learned(now.incumbent, self._terms())
        lessons, read = await anyio.to_thread.run_sync(
            partial(_lessons, known, now.incumbent, logged, self._terms())
        )
        if await self._kept(now, known, lessons, read):
            for tier in lessons.drifted:
                telemetry.count_drift(tier)
                logger.warning("tier %s is no longer what was learned; it is tried anew", tier)
            telemetry.count_capped(lessons.capped)
        await self._models.refresh()
        return len(logged)

    async def learn_for_ever(self) -> None:
        """Follow what is put in force and learn, until cancelled; a failure is tried again."""
        await self._for_ever(self._learn_all)

    async def follow_for_ever(self) -> None:
        """Follow what is put in force and what others learn, until cancelled."""
        await self._for_ever(self._models.refresh)

    async def _learn_all(self) -> None:
        await self._models.refresh()
        while await self.learn() == LESSONS_MAX:
            await anyio.lowlevel.checkpoint()

    async def _for_ever(self, step: Callable[[], Awaitable[object]]) -> None:
        is_away = False
        while True:
            try:
                if self._is_on():
                    await step()
                is_away = False
            except StoreError as error:
                telemetry.count_failure("router_learning")
                if not is_away:
                    logger.warning("the router does not learn now: %s; it is tried again", error)
                is_away = True
            except Exception:
                telemetry.count_failure("router_learning")
                logger.exception("the router could not learn; it is tried again")
            await anyio.sleep(EVERY_SECONDS)

    async def _kept(
        self, now: RouterInForce, known: KeptLearning, lessons: Lessons, read: _Read
    ) -> bool:
        now_ms = self._clock.now_ms()
        after = KeptLearning(
            model=known.model,
            bandit=lessons.bandit,
            watches=dict(lessons.watches),
            influence=lessons.influence,
            capped=known.capped + lessons.capped,
            last_drift_at_ms=now_ms if lessons.drifted else known.last_drift_at_ms,
        )
        marks = tuple(
            Taught(
                call_id=logged.decision.call_id,
                score=verdict.score,
                weight=verdict.weight,
                weight_taught=lessons.counted.get(logged.decision.call_id, 0.0),
                by=tag_of(after, logged.decision.tier),
            )
            for logged, verdict in read.verdicts
        )
        try:
            await self._shelf.learn(packed(after), marks, over=now.standing, now_ms=now_ms)
        except VersionConflictError:
            # Another sidecar was faster, or a model was put in force: the next pass knows.
            return False
        return True


def tag_of(learned: KeptLearning, tier: str) -> str:
    """Return what marks a call as taught: the model, and the drifts of its tier until then.

    What a drift has mostly put out of the sums cannot be taken back from them.
    """
    watch = learned.watches.get(tier)
    return f"{learned.model}/{0 if watch is None else watch.drifts}"


def _lessons(
    known: KeptLearning,
    incumbent: Versioned,
    logged: tuple[LoggedDecision, ...],
    terms: OnlineTerms,
) -> tuple[Lessons, _Read]:
    read = _read(known, incumbent, logged)
    lessons = taught(known.bandit, known.watches, known.influence, read.rated, terms=terms)
    return lessons, read


def _read(known: KeptLearning, incumbent: Versioned, logged: tuple[LoggedDecision, ...]) -> _Read:
    rated: list[Rated] = []
    verdicts: list[tuple[LoggedDecision, Verdict]] = []
    for one in logged:
        if one.verdict is None:
            continue
        verdicts.append((one, one.verdict))
        decision = one.decision
        try:
            forecast = incumbent.model.forecast(unpacked(decision.features))
        except (WrittenError, ValueError):
            # Written by another version, or before other word vectors: nothing to learn from.
            telemetry.count_failure("router_features")
            continue
        found = forecast.tiers.get(decision.tier)
        usual = sum(tier.quality for tier in forecast.tiers.values()) / len(forecast.tiers)
        rated.append(
            Rated(
                call_id=decision.call_id,
                agent=decision.agent,
                tier=decision.tier,
                context=context_of(forecast),
                expected=usual if found is None else found.quality,
                decided_at_ms=decision.decided_at_ms,
                verdict=one.verdict,
                before=one.learned if one.learned_by == tag_of(known, decision.tier) else None,
            )
        )
    return _Read(rated=tuple(rated), verdicts=tuple(verdicts))
