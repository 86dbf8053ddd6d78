"""Withdrawals of many experiences: step by step, each with what was made of it."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from functools import partial

import anyio
from sqlalchemy import ColumnElement, Connection, select

from governor.experience.kinds import Standing
from governor.ids import ExperienceId, PrincipalId
from memory_store.engine import driver_of
from memory_store.experiences.blobs import Blobs
from memory_store.experiences.erasing import ERASED_AT_ONCE, Erased, erase_numbers
from memory_store.experiences.marking import (
    MARKED_AT_ONCE,
    Forget,
    Marked,
    Order,
    mark_ids,
    revoke_numbers,
)
from memory_store.experiences.pending import Goes, Step, steps_left
from memory_store.experiences.scrubbing import Scrubbing
from memory_store.experiences.tables import experiences
from memory_store.experiences.values import Changed
from memory_store.reader import Reader
from memory_store.writer import Writer

Chosen = ColumnElement[bool]
# So many steps of one withdrawal are made though its caller has gone; each is bounded.
SHELTERED_STEPS_MAX = 64


def sheltered(steps: int = 0) -> anyio.CancelScope:
    """Return where a step is made whoever goes away, unless there were too many before it."""
    return anyio.CancelScope(shield=steps < SHELTERED_STEPS_MAX)


@dataclass(frozen=True, slots=True, kw_only=True)
class Withdrawal:
    """Takes experiences back, a few in each transaction, so that nobody waits for long.

    Whoever asks is answered when all of it is done. A caller that goes away leaves nothing of it
    readable that was made of what is gone: as many steps as that usually takes are made none the
    less. After an error, a crash or more steps than those, asking again goes on with what is
    named, and the next purge with what was made of what is gone.
    """

    writer: Writer
    reader: Reader
    blobs: Blobs
    scrubbing: Scrubbing
    forgets: tuple[Forget, ...] = ()

    async def mark(
        self,
        ids: Sequence[ExperienceId],
        standing: Standing,
        *,
        order: Order,
        takes_effect: bool,
    ) -> Changed:
        """Return how many were put there; of what is revoked, with all that was made of it.

        Raises:
            ExperienceNotFoundError: one is not there; then none is marked.
        """
        step = Step(goes=Goes.REVOKED, order=order, numbers=())

        def work(connection: Connection) -> Marked:
            marked = mark_ids(
                connection,
                ids=ids,
                standing=standing,
                order=order,
                takes_effect=takes_effect,
                forgets=self.forgets,
            )
            if standing is Standing.REVOKED:
                step.then(marked.derived).note(driver_of(connection))
            return marked

        with sheltered():
            marked = await self.writer.run(work)
        if standing is not Standing.REVOKED:
            return Changed(experiences=marked.count)
        derived = await self._revoke_all(step.then(marked.derived))
        return Changed(experiences=marked.count + derived, derived=derived)

    async def revoke(self, chosen: Chosen, *, order: Order) -> Changed:
        """Return how many were revoked: those that are `chosen`, and all that was made of them."""
        count, derived, after = 0, 0, 0
        while numbers := await self._numbers(chosen, order, after=after, most=MARKED_AT_ONCE):
            after = numbers[-1]
            step = Step(goes=Goes.REVOKED, order=order, numbers=tuple(numbers))
            with sheltered():
                marked = await self._revoke(step, passed=())
            count += marked.count
            derived += await self._revoke_all(step.then(marked.derived))
        return Changed(experiences=count + derived, derived=derived)

    async def erase(self, chosen: Chosen, *, order: Order, only_of: PrincipalId | None) -> Changed:
        """Return how many were erased: those that are `chosen`, and all that was made of them.

        With `only_of`, what others made of them is quarantined and not erased.
        """
        count, derived, quarantined, after = 0, 0, 0, 0
        while numbers := await self._numbers(chosen, order, after=after, most=ERASED_AT_ONCE):
            after = numbers[-1]
            # What is named goes, whoever wrote it; only what was made of it is looked at.
            named = Step(goes=Goes.ERASED, order=order, numbers=tuple(numbers))
            with sheltered():
                erased = await self._erase(named, next_of=only_of)
            count += erased.count
            made, put_aside = await self._erase_all(
                replace(named, numbers=erased.derived, only_of=only_of)
            )
            derived += made
            quarantined += put_aside
        if count or derived:
            await self.scrubbing.scrub()
        return Changed(experiences=count + derived, derived=derived, quarantined=quarantined)

    async def go_on(self) -> int:
        """Return how many more were withdrawn, of what was left when a withdrawal was cut short."""
        count = erased = 0
        while steps := await self.reader.run(partial(steps_left, most=ERASED_AT_ONCE)):
            for step in steps:
                if step.goes is Goes.REVOKED:
                    count += await self._revoke_all(step)
                else:
                    erased += sum(await self._erase_all(step))
        if erased:
            await self.scrubbing.scrub()
        return count + erased

    async def _revoke_all(self, step: Step) -> int:
        """Revoke what was made of the revoked, and so on; return how many were."""
        count = steps = 0
        seen: set[int] = set()
        waiting = list(step.numbers)
        while waiting:
            now, waiting = waiting[:MARKED_AT_ONCE], waiting[MARKED_AT_ONCE:]
            seen.update(now)
            with sheltered(steps):
                marked = await self._revoke(replace(step, numbers=tuple(now)), passed=seen)
            steps += 1
            count += marked.count
            waiting += [one for one in marked.derived if one not in seen]
        return count

    async def _erase_all(self, step: Step) -> tuple[int, int]:
        """Return how many of what was made of the erased, and so on, are erased and put aside."""
        count = quarantined = steps = 0
        waiting = list(step.numbers)
        while waiting:
            now, waiting = waiting[:ERASED_AT_ONCE], waiting[ERASED_AT_ONCE:]
            with sheltered(steps):
                erased = await self._erase(replace(step, numbers=tuple(now)), next_of=step.only_of)
            steps += 1
            count += erased.count
            quarantined += erased.quarantined
            waiting += erased.derived
        return count, quarantined

    async def _revoke(self, step: Step, *, passed: Collection[int]) -> Marked:
        def work(connection: Connection) -> Marked:
            driver = driver_of(connection)
            marked = revoke_numbers(
                connection, numbers=step.numbers, order=step.order, forgets=self.forgets
            )
            step.done(driver)
            step.then(marked.derived, passed=passed).note(driver)
            return marked

        return await self.writer.run(work)

    async def _erase(self, step: Step, *, next_of: PrincipalId | None) -> Erased:
        def work(connection: Connection) -> Erased:
            driver = driver_of(connection)
            erased = erase_numbers(
                connection,
                numbers=step.numbers,
                order=step.order,
                forgets=self.forgets,
                only_of=step.only_of,
            )
            step.done(driver)
            replace(step, numbers=erased.derived, only_of=next_of).note(driver)
            return erased

        erased = await self.writer.run(work)
        await self.blobs.remove(step.order.tenant, erased.blobs)
        return erased

    async def _numbers(
        self, chosen: Chosen, order: Order, *, after: int, most: int
    ) -> Sequence[int]:
        rows = experiences.c
        query = (
            select(rows.number)
            .where(rows.tenant == order.tenant, rows.number > after, chosen)
            .order_by(rows.number)
            .limit(most)
        )
        return await self.reader.run(lambda connection: connection.scalars(query).all())
