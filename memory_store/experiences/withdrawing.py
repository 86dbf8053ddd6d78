"""Withdrawals of many experiences: step by step, each with what was made of it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from sqlalchemy import ColumnElement, Connection, select

from governor.experience.kinds import Standing
from governor.ids import ExperienceId, PrincipalId
from memory_store.experiences.blobs import Blobs
from memory_store.experiences.erasing import ERASED_AT_ONCE, Erased, Scrub, erase_numbers, scrubbed
from memory_store.experiences.marking import (
    MARKED_AT_ONCE,
    Forget,
    Marked,
    Order,
    mark_ids,
    revoke_numbers,
)
from memory_store.experiences.tables import experiences
from memory_store.experiences.values import Changed
from memory_store.reader import Reader
from memory_store.writer import Writer

Chosen = ColumnElement[bool]


@dataclass(frozen=True, slots=True, kw_only=True)
class Withdrawal:
    """Takes experiences back, a few in each transaction, so that nobody waits for long.

    Whoever asks is answered when all of it is done. After an error or a crash, asking again goes
    on from there: what was done already is passed over, what was made of it is not.
    """

    writer: Writer
    reader: Reader
    blobs: Blobs
    forgets: tuple[Forget, ...] = ()
    scrubs: tuple[Scrub, ...] = ()

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
        work = partial(
            mark_ids,
            ids=ids,
            standing=standing,
            order=order,
            takes_effect=takes_effect,
            forgets=self.forgets,
        )
        marked = await self.writer.run(work)
        if standing is not Standing.REVOKED:
            return Changed(experiences=marked.count)
        derived = await self._revoke_all(marked.derived, order)
        return Changed(experiences=marked.count + derived, derived=derived)

    async def revoke(self, chosen: Chosen, *, order: Order) -> Changed:
        """Return how many were revoked: those that are `chosen`, and all that was made of them."""
        count, derived, after = 0, 0, 0
        while numbers := await self._numbers(chosen, order, after=after, most=MARKED_AT_ONCE):
            after = numbers[-1]
            marked = await self._revoke(numbers, order)
            count += marked.count
            derived += await self._revoke_all(marked.derived, order)
        return Changed(experiences=count + derived, derived=derived)

    async def erase(self, chosen: Chosen, *, order: Order, only_of: PrincipalId | None) -> Changed:
        """Return how many were erased: those that are `chosen`, and all that was made of them.

        With `only_of`, what others made of them is quarantined and not erased.
        """
        count, derived, quarantined, after = 0, 0, 0, 0
        while numbers := await self._numbers(chosen, order, after=after, most=ERASED_AT_ONCE):
            after = numbers[-1]
            erased = await self._erase(numbers, order, None)
            count += erased.count
            made, put_aside = await self._erase_all(erased.derived, order, only_of)
            derived += made
            quarantined += put_aside
        if count or derived:
            await scrubbed(self.writer, self.scrubs)
        return Changed(experiences=count + derived, derived=derived, quarantined=quarantined)

    async def erase_all(self, numbers: Sequence[int], *, order: Order) -> int:
        """Return how many were erased: those of `numbers`, and all that was made of them."""
        count, _ = await self._erase_all(numbers, order, None)
        if count:
            await scrubbed(self.writer, self.scrubs)
        return count

    async def _revoke_all(self, numbers: Sequence[int], order: Order) -> int:
        """Revoke what was made of the revoked, and so on; return how many were."""
        count = 0
        seen: set[int] = set()
        waiting = list(numbers)
        while waiting:
            now, waiting = waiting[:MARKED_AT_ONCE], waiting[MARKED_AT_ONCE:]
            seen.update(now)
            marked = await self._revoke(now, order)
            count += marked.count
            waiting += [one for one in marked.derived if one not in seen]
        return count

    async def _erase_all(
        self, numbers: Sequence[int], order: Order, only_of: PrincipalId | None
    ) -> tuple[int, int]:
        count = quarantined = 0
        waiting = list(numbers)
        while waiting:
            now, waiting = waiting[:ERASED_AT_ONCE], waiting[ERASED_AT_ONCE:]
            erased = await self._erase(now, order, only_of)
            count += erased.count
            quarantined += erased.quarantined
            waiting += erased.derived
        return count, quarantined

    async def _revoke(self, numbers: Sequence[int], order: Order) -> Marked:
        work = partial(revoke_numbers, numbers=numbers, order=order, forgets=self.forgets)
        return await self.writer.run(work)

    async def _erase(
        self, numbers: Sequence[int], order: Order, only_of: PrincipalId | None
    ) -> Erased:
        work: Callable[[Connection], Erased] = partial(
            erase_numbers, numbers=numbers, order=order, forgets=self.forgets, only_of=only_of
        )
        erased = await self.writer.run(work)
        await self.blobs.remove(order.tenant, erased.blobs)
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
