"""What the house does for the memory while nobody asks anything of it.

It reflects on sessions that ended, answers beforehand what is asked time and again, makes lessons
of cases that repeat, and links what says the same. Each work is a call of the house's own in the
ledger; when its budget for a tenant is used up, it sleeps on.
"""

import logging
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import replace

import anyio

from memory_store.errors import StoreError
from memory_store.store import Store
from runtime.configuration.memory_learning import SleepTerms
from runtime.memory.house.allowance import Allowance
from runtime.memory.house.model import HouseModel
from runtime.memory.lessons.playbooks import PlaybookDesk
from runtime.memory.ports import Searching
from runtime.memory.quiet.answering import Answering
from runtime.memory.quiet.drafts import Keep
from runtime.memory.quiet.night import IsIdle, Night, Work
from runtime.memory.quiet.reflecting import PlaceOf, Reflecting
from runtime.memory.quiet.teaching import Teaching
from tool_gateway import telemetry
from tool_gateway.ports import Clock

logger = logging.getLogger(__name__)

# Entered, it tells whether it is this sidecar's turn to work until it is left.
Turn = Callable[[], AbstractAsyncContextManager[bool]]


class Sleeper:
    """Works while the sidecar is idle, one thing at a time."""

    def __init__(
        self,
        store: Store,
        searching: Searching,
        playbooks: PlaybookDesk,
        allowance: Allowance,
        *,
        keep: Keep,
        place_of: PlaceOf,
        is_idle: IsIdle,
        clock: Clock,
        terms: Callable[[], SleepTerms],
        turn: Turn,
        model: HouseModel | None = None,
    ) -> None:
        """Take the parts; `keep` writes a draft of the house's own, `is_idle` is asked often."""
        self._turn = turn
        self._is_idle = is_idle
        self._terms = terms
        self._works: tuple[Work, ...] = (
            Reflecting(
                store,
                playbooks,
                allowance,
                place_of=place_of,
                is_idle=is_idle,
                clock=clock,
                model=model,
            ),
            Answering(
                store,
                searching,
                allowance,
                keep=keep,
                is_idle=is_idle,
                clock=clock,
                terms=terms,
            ),
            Teaching(store, allowance, keep=keep, is_idle=is_idle, clock=clock),
        )

    async def work_for_ever(self) -> None:
        """Work a round now and then, until cancelled; a failure is counted and tried again."""
        while True:
            await anyio.sleep(self._terms().every_seconds)
            try:
                await self.night()
            except StoreError as error:
                telemetry.count_failure("sleep")
                logger.warning("work in quiet hours failed: %s; it will be tried again", error)
            except Exception:
                telemetry.count_failure("sleep")
                logger.exception("work in quiet hours failed; it will be tried again")

    async def night(self) -> Night:
        """Return what was done in one round; it ends as soon as somebody asks something.

        Of the sidecars on one database one works at a time; the others sleep on.

        Raises:
            StoreError: something could not be read or kept.
        """
        night = Night()
        async with self._turn() as is_ours:
            return await self._worked(night) if is_ours else night

    async def _worked(self, night: Night) -> Night:
        for one in self._works:
            if not self._is_idle():
                return replace(night, was_disturbed=True)
            night = await one.work(night)
        return night
