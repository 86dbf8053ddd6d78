"""How long experiences are kept: what has run out, is too old, or was left over by a crash goes."""

from collections import defaultdict
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from sqlalchemy import ColumnElement, Connection, and_, select

from governor.ids import TenantId
from memory_store.archive_files import entry_of
from memory_store.experiences.erasing import ERASED_AT_ONCE, expire_numbers
from memory_store.experiences.marking import Order
from memory_store.experiences.tables import experience_blobs, experiences
from memory_store.experiences.values import KeepRule, Purged
from memory_store.experiences.withdrawing import Withdrawal

# Who is written in the log.
HOUSE = "retention"


class ExperienceRetention:
    """Erases what has had its time; what was made of it stays, which has a time of its own."""

    def __init__(self, withdrawal: Withdrawal) -> None:
        self._withdrawal = withdrawal

    async def purge(
        self, rules: Sequence[KeepRule] = (), *, orphans_before_ms: int, now_ms: int
    ) -> Purged:
        """Return how much was removed: what ran out by `now_ms`, or is too old by a rule.

        A sidecar that finds another one at it removes nothing. After an error, what was removed
        stays removed, and the next purge goes on from there.

        Raises:
            StoreUnavailableError: the disk or the database refused.
            StoreOverloadedError: too much waits to be written.
        """
        rows = experiences.c
        count = await self._expire(rows.expires_at_ms <= now_ms, "it had run out", now_ms)
        for rule in rules:
            count += await self._expire(_too_old(rule), "it was too old", now_ms)
        count += await self._withdrawal.go_on()
        await self._withdrawal.scrubbing.catch_up()
        return Purged(experiences=count, orphans=await self._sweep(orphans_before_ms))

    async def _expire(self, chosen: ColumnElement[bool], why: str, now_ms: int) -> int:
        count = 0
        while found := await self._chosen(chosen):
            expired = 0
            for tenant, numbers in found.items():
                order = Order.made(tenant=tenant, by=HOUSE, why=why, now_ms=now_ms)
                work = partial(
                    expire_numbers,
                    numbers=numbers,
                    order=order,
                    forgets=self._withdrawal.forgets,
                )
                erased = await self._withdrawal.writer.run(work, may_be_dropped=True)
                await self._withdrawal.blobs.remove(tenant, erased.blobs)
                expired += erased.count
            count += expired
            if not expired:
                break  # another sidecar is at it
        return count

    async def _chosen(self, chosen: ColumnElement[bool]) -> dict[TenantId, list[int]]:
        rows = experiences.c
        query = select(rows.tenant, rows.number).where(chosen).limit(ERASED_AT_ONCE)
        found: dict[TenantId, list[int]] = defaultdict(list)
        pairs = await self._withdrawal.reader.run(
            lambda connection: connection.execute(query).all()
        )
        for tenant, number in pairs:
            found[TenantId(tenant)].append(number)
        return found

    async def _sweep(self, before_ms: int) -> int:
        """Remove the blobs older than `before_ms` that no row names; return how many they were."""
        count = 0
        async for files in self._withdrawal.blobs.older(before_ms):
            orphans = await self._orphans_among(files)
            await self._withdrawal.blobs.remove_files(orphans)
            count += len(orphans)
        return count

    async def _orphans_among(self, files: Sequence[Path]) -> Sequence[Path]:
        """Return those of `files` that no row names, nor ever will."""
        known = await self._withdrawal.reader.run(partial(_known, files=files))
        arriving = self._withdrawal.blobs.arriving
        suspects = [path for path in files if path not in known and entry_of(path) not in arriving]
        if not suspects:
            return ()
        # One whose row was handed to the writer before this question is known behind it.
        known = await self._withdrawal.writer.run(partial(_known, files=suspects))
        return [path for path in suspects if path not in known]


def _known(connection: Connection, *, files: Sequence[Path]) -> frozenset[Path]:
    column = experience_blobs.c.name
    query = select(column).where(column.in_([path.name for path in files]))
    names = frozenset(connection.scalars(query))
    return frozenset(path for path in files if path.name in names)


def _too_old(rule: KeepRule) -> ColumnElement[bool]:
    rows = experiences.c
    clauses = [rows.learned_at_ms < rule.before_ms]
    if rule.tenant is not None:
        clauses.append(rows.tenant == rule.tenant)
    if rule.kind is not None:
        clauses.append(rows.kind == rule.kind.value)
    return and_(*clauses)
