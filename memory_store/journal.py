"""The journal: every booking in order, chained by hashes, of which the balances are the fold.

A line of an entry is `held`, `settled`, `released`, `expired`, `given_back` or `opening`,
the reservation's id, and the amounts account by account.
"""

import hashlib
from collections.abc import Iterable
from typing import Any

import psycopg
from sqlalchemy import bindparam, func, insert, select

from governor.ids import TenantId
from memory_store.statement import Answers, Driver, Statement
from memory_store.tables import journal

_TENANTS_KEPT_MAX = 10_000
NO_HASH = "0" * 64

_INSERT = Statement(
    insert(journal).values(
        {name: bindparam(name) for name in ("tenant", "number", "at_ms", "entries", "hash")}
    )
)
_older = journal.alias()
_HEAD = Statement(
    select(journal.c.tenant, journal.c.number, journal.c.hash)
    .where(journal.c.tenant == bindparam("tenant"))
    .where(
        journal.c.number
        == select(func.max(_older.c.number))
        .where(_older.c.tenant == bindparam("tenant"))
        .scalar_subquery()
    )
)


def chained(before: str, tenant: str, number: int, at_ms: int, entries: str) -> str:
    """Return the hash of a row whose predecessor has the hash `before`."""
    text = f"{before}\n{tenant}\n{number}\n{at_ms}\n{entries}"
    return hashlib.sha256(text.encode()).hexdigest()


class Journal:
    """What a transaction booked, written as one row for each tenant."""

    def __init__(self) -> None:
        self._heads: dict[TenantId, tuple[int, str]] = {}
        self._entries: dict[TenantId, list[str]] = {}
        self._at_ms = 0

    def forget(self) -> None:
        """Read everything again."""
        self._heads.clear()
        self._entries.clear()

    def asked(self, driver: psycopg.Connection[Any], tenants: Iterable[TenantId]) -> Answers:
        """Ask for the ends of the chains, inside a pipeline; `keep` what is answered."""
        return _HEAD.asked(driver, [{"tenant": tenant} for tenant in tenants])

    def keep(self, rows: Iterable[Any]) -> None:
        """Keep the ends of the chains in `rows`."""
        for tenant, number, digest in rows:
            self._heads[tenant] = (number, digest)

    def add(self, tenant: TenantId, entry: str, *, at_ms: int) -> None:
        """Book `entry`."""
        self._at_ms = max(self._at_ms, at_ms)
        try:
            self._entries[tenant].append(entry)
        except KeyError:
            self._entries[tenant] = [entry]

    def flush(self, driver: Driver) -> None:
        """Store what was booked."""
        # In one order, so that two replicas never wait for each other's tenants.
        for tenant in sorted(self._entries):
            number, before = self._head(driver, tenant)
            entries = "\n".join(self._entries[tenant])
            digest = chained(before, tenant, number + 1, self._at_ms, entries)
            _INSERT.run(
                driver,
                {
                    "tenant": tenant,
                    "number": number + 1,
                    "at_ms": self._at_ms,
                    "entries": entries,
                    "hash": digest,
                },
            )
            self._heads[tenant] = (number + 1, digest)
        self._entries.clear()

    def _head(self, driver: Driver, tenant: TenantId) -> tuple[int, str]:
        head = self._heads.get(tenant)
        if head is None:
            if len(self._heads) >= _TENANTS_KEPT_MAX:
                self._heads.clear()
            row = _HEAD.row(driver, {"tenant": tenant})
            head = (0, NO_HASH) if row is None else (row[1], row[2])
        return head
