"""What of the memory learns, put together on an open store."""

import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import anyio

from governor.retrieval.vectors import StaticVectors
from memory_store.errors import StoreError
from runtime.configuration.memory import memory_terms_of
from runtime.configuration.memory_tiers import tier_terms_of
from runtime.ground import Ground
from runtime.memory.limits import limits_of
from runtime.memory.noting.choices import ChoiceNotes
from runtime.memory.ports import Searching
from runtime.memory.sharing.banks import SharedBanks
from runtime.memory.tiers.learning import TierCredit, TierLearner
from runtime.memory.tiers.searching import TieredSearch
from tool_gateway.telemetry import count_failure

logger = logging.getLogger(__name__)
EVERY_SECONDS = 5.0


class MemoryLearning:
    """Chooses how searches are done and what teams share, and learns from both."""

    def __init__(
        self,
        ground: Ground,
        searching: Searching,
        vectors: Callable[[], StaticVectors | None],
    ) -> None:
        """Take an open store, what searches it, and what it goes by; nothing is started."""
        store, clock = ground.store, ground.clock
        self.notes = ChoiceNotes(store.choices)
        self.tier_learner = TierLearner(store.choices, clock=clock)
        self.tier_credit = TierCredit(store.choices, self.notes)
        self.tiers: TieredSearch | None = None
        if ground.config.memory.tiers.enabled:
            self.tiers = TieredSearch(
                searching,
                store.experiences,
                self.notes,
                in_force=self.tier_learner,
                clock=clock,
                terms=lambda: tier_terms_of(ground.config.memory.tiers),
            )
        self.banks = SharedBanks(
            store.experiences,
            store.experience_search,
            store.choices,
            store.links,
            marks=ground.flow,
            clock=clock,
            vectors=vectors,
            limits=lambda: limits_of(memory_terms_of(ground.config.memory), now_ms=clock.now_ms()),
        )

    async def learn(self) -> int:
        """Learn what there is to learn now, up to a bound; return of how many choices.

        Raises:
            StoreError: the store does not answer.
        """
        return await self.tier_learner.learn() + await self.banks.learn()

    @asynccontextmanager
    async def running(self, *, is_keeper: bool) -> AsyncIterator[None]:
        """Keep what was chosen while the block runs; one process of a sidecar learns from it."""
        async with self.notes.kept(), anyio.create_task_group() as tasks:
            if is_keeper:
                tasks.start_soon(self.learn_for_ever, name="learning of the memory")
            try:
                yield
            finally:
                tasks.cancel_scope.cancel()

    async def learn_for_ever(self) -> None:
        """Learn now and then, until cancelled; a failure is counted and tried again."""
        while True:
            try:
                await self.learn()
            except StoreError as error:
                count_failure("memory learning")
                logger.warning("the memory does not learn now: %s; it is tried again", error)
            except Exception:
                count_failure("memory learning")
                logger.exception("the memory could not learn; it is tried again")
            await anyio.sleep(EVERY_SECONDS)
