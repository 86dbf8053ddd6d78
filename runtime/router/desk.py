"""What administrators ask of the router: its models, its log, and what the log says of them."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from hashlib import sha256
from typing import Any

import anyio.to_thread
import msgspec

from governor.ids import TierName
from memory_store.audit import Actor
from memory_store.paging import Page
from memory_store.router_log import LoggedDecision, RouterLog
from memory_store.router_models import (
    NewRouterModel,
    RouterModelView,
    RouterShelf,
    RouterStanding,
)
from runtime.errors import NotBetterError, RouterModelError, RuntimeFaultError
from runtime.router.advice import Advice, advice_of
from runtime.router.foretold import Foretold, foretold_of
from runtime.router.in_force import ModelsInForce, RouterInForce, Unpack, Versioned
from runtime.router.log_evaluation import LogEvaluation, evaluated
from runtime.router.off_policy import (
    Policy,
    RatedDecision,
    always,
    as_logged,
    at_random,
    by_model,
    rated_of,
)
from runtime.router.promotion import Evidence, evidence_of
from runtime.router.terms import RouterTerms
from tool_gateway.ports import Clock

# So many of the latest rated decisions are looked at.
ROWS_MAX = 20_000
# Models beside the incumbent that are evaluated: the latest candidates.
CANDIDATES_MAX = 5
MODEL_BYTES_MAX = 32 * 1024 * 1024
_VERSION_CHARS = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class RouterStatus:
    """How the router stands: what is in force, and what it has learned of each tier."""

    terms: RouterTerms
    now: RouterInForce
    tiers: tuple[dict[str, object], ...]


class RouterDesk:
    """Answers administrators; nothing here is on the way of a call."""

    def __init__(
        self,
        log: RouterLog,
        shelf: RouterShelf,
        models: ModelsInForce,
        *,
        clock: Clock,
        unpack: Unpack,
        terms: Callable[[], RouterTerms],
        tiers: Sequence[TierName],
    ) -> None:
        """Take the parts; `tiers` are the configured ones, in their order."""
        self._log = log
        self._shelf = shelf
        self._models = models
        self._clock = clock
        self._unpack = unpack
        self._terms = terms
        self._tiers = tuple(tiers)

    async def status(self) -> RouterStatus:
        """Return how the router stands now."""
        now = await self._models.refresh()
        tallies = {tally.tier: tally for tally in await self._log.tally()}
        names = dict.fromkeys([*self._tiers, *tallies])
        return RouterStatus(
            terms=self._terms(),
            now=now,
            tiers=tuple(_tier_json(name, tallies.get(name), now) for name in names),
        )

    async def models(self) -> tuple[RouterModelView, ...]:
        """Return the models, the latest first."""
        return await self._shelf.all()

    async def model(self, version: str) -> RouterModelView:
        """Return what is known of a model.

        Raises:
            NotFoundError: there is none of this version.
        """
        return await self._shelf.get(version)

    async def decisions(
        self, *, since_ms: int, is_rated: bool, cursor: str | None, limit: int
    ) -> Page[LoggedDecision]:
        """Return choices, the latest first."""
        return await self._log.page(
            since_ms=since_ms, is_rated=is_rated, cursor=cursor, limit=limit
        )

    async def add(
        self,
        content: bytes,
        *,
        learned_until_ms: int,
        evidence: Mapping[str, object],
        by: Actor,
    ) -> RouterModelView:
        """Keep a model that was trained elsewhere as a candidate.

        Raises:
            RouterModelError: it is none that can be used here.
        """
        if len(content) > MODEL_BYTES_MAX:
            raise RouterModelError(f"content: a model has at most {MODEL_BYTES_MAX} bytes")
        try:
            await anyio.to_thread.run_sync(self._unpack, content)
        except RuntimeFaultError as error:
            raise RouterModelError(f"content: {error}") from error
        checksum = sha256(content).hexdigest()
        standing = await self._shelf.standing(known_learned=0)
        model = NewRouterModel(
            version=checksum[:_VERSION_CHARS],
            content=content,
            checksum=checksum,
            parent=standing.incumbent,
            learned_until_ms=learned_until_ms,
            evidence=msgspec.json.encode(dict(evidence)).decode(),
        )
        return await self._shelf.add(model, by=by, now_ms=self._clock.now_ms())

    async def promote(self, version: str, *, by: Actor) -> tuple[RouterStanding, Evidence]:
        """Put a model in force if it is better than what is, on what it has not learned.

        Raises:
            NotFoundError: there is no such model.
            NotBetterError: it is not better, or nobody can say.
            RouterModelError: it cannot be used.
        """
        standing = await self._shelf.standing(known_learned=0)
        view = await self._shelf.get(version)
        known = await self._models.loaded(version)
        if known is None:
            raise RouterModelError(f"router model {version} cannot be read; train it again")
        rated = await self._rated(since_ms=view.learned_until_ms)
        evidence = await anyio.to_thread.run_sync(partial(evidence_of, known.model, rated))
        evidence = evidence.or_of_file(view.evidence, is_first=standing.incumbent is None)
        if not evidence.is_better:
            raise NotBetterError(f"router model {version} is not put in force: {evidence.why_not}")
        after = await self._shelf.promote(
            version, expected_revision=standing.revision, by=by, now_ms=self._clock.now_ms()
        )
        await self._models.refresh()
        return after, evidence

    async def rollback(self, *, by: Actor) -> RouterStanding:
        """Put in force again what was before; at the end those are the tier rules.

        Raises:
            NotFoundError: no model is in force.
        """
        standing = await self._shelf.standing(known_learned=0)
        after = await self._shelf.rollback(
            expected_revision=standing.revision, by=by, now_ms=self._clock.now_ms()
        )
        await self._models.refresh()
        return after

    async def evaluate(self, *, since_ms: int, rows: int = ROWS_MAX) -> LogEvaluation:
        """Return what the log says of what is in force, candidates, each tier, and the dice."""
        now = await self._models.refresh()
        candidates = [
            view.version for view in await self._shelf.all() if view.state == "candidate"
        ][:CANDIDATES_MAX]
        known: list[Versioned] = [] if now.incumbent is None else [now.incumbent]
        for version in candidates:
            found = await self._models.loaded(version)
            known += [] if found is None else [found]
        rated = await self._rated(since_ms=since_ms, rows=rows)
        policies: dict[str, Policy] = {"in_force": as_logged}
        policies |= {f"model:{one.version}": by_model(one.model) for one in known}
        tiers = dict.fromkeys(tier for one in rated for tier in one.options)
        policies |= {f"tier:{tier}": always(tier) for tier in tiers}
        policies["random"] = at_random
        return await anyio.to_thread.run_sync(partial(evaluated, rated, policies))

    async def advise(self, *, since_ms: int, rows: int = ROWS_MAX) -> Advice:
        """Return which tiers are worth having, as far as the log can say."""
        rated = await self._rated(since_ms=since_ms, rows=rows)
        return await anyio.to_thread.run_sync(partial(advice_of, rated, self._tiers))

    async def calibration(self, *, since_ms: int, rows: int = ROWS_MAX) -> Foretold:
        """Return what models expected of answers, beside what the answers were worth."""
        rated = await self._rated(since_ms=since_ms, rows=rows)
        return await anyio.to_thread.run_sync(foretold_of, rated)

    async def _rated(self, *, since_ms: int, rows: int = ROWS_MAX) -> list[RatedDecision]:
        logged = await self._log.rated(since_ms=since_ms, limit=rows)
        per_day = self._terms().online.influence_per_day
        return await anyio.to_thread.run_sync(partial(rated_of, logged, influence_per_day=per_day))


def _tier_json(name: str, tally: Any, now: RouterInForce) -> dict[str, object]:
    learned = now.learned
    watch = None if learned is None else learned.watches.get(name)
    return {
        "tier": name,
        "chosen": 0 if tally is None else tally.chosen,
        "rated": 0 if tally is None else tally.rated,
        "explored": 0 if tally is None else tally.explored,
        "evidence": 0.0 if learned is None else round(learned.bandit.evidence(name), 2),
        "drifts": 0 if watch is None else watch.drifts,
    }
