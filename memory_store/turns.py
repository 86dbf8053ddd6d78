"""Whose books a transaction may change, where several sidecars write to one database.

The bookings of a tenant form one chain, so they are made by one transaction at a time: it
takes the tenant's turn first, and a count of turns tells it whether anybody else had one
since its own, that is whether what it remembers still stands. A database that one sidecar
has to itself needs neither.
"""

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Any

import psycopg
from sqlalchemy import Connection, bindparam, literal_column, select, update
from sqlalchemy.dialects.postgresql import insert

from governor.admission import AdmissionRequest
from governor.ids import ReservationId, SessionId, TenantId
from memory_store.engine import driver_of, is_shared
from memory_store.statement import Answers, Driver, Statement
from memory_store.tables import reservations, sessions, turns_taken

_OF_TENANT = turns_taken.c.tenant == bindparam("tenant")
_MAKE = Statement(
    insert(turns_taken)
    .values(tenant=bindparam("tenant"), changes=literal_column("0"), standing=literal_column("0"))
    .on_conflict_do_nothing(index_elements=["tenant"])
)
_TAKE = Statement(
    select(turns_taken)
    .where(_OF_TENANT)
    .order_by(turns_taken.c.tenant)
    .with_for_update(of=turns_taken)
)
_COUNT = Statement(
    update(turns_taken)
    .where(turns_taken.c.tenant == bindparam("of_tenant"))
    .values(
        changes=turns_taken.c.changes + literal_column("1"),
        standing=turns_taken.c.standing + bindparam("moved"),
    )
)
_TENANT_OF_RESERVATION = Statement(
    select(reservations.c.tenant).where(
        reservations.c.reservation_id == bindparam("reservation_id")
    )
)
_TENANT_OF_SESSION = Statement(
    select(sessions.c.tenant).where(sessions.c.session_id == bindparam("session_id"))
)


@dataclass(frozen=True, slots=True, kw_only=True)
class About:
    """What a piece of the ledger is about: a tenant, or what belongs to one.

    `request` is what it asks for, if it is an admission.
    """

    tenant: TenantId | None = None
    reservation: ReservationId | None = None
    sessions: tuple[SessionId, ...] = ()
    request: AdmissionRequest | None = None


@dataclass(frozen=True, slots=True)
class Stale:
    """What somebody else changed since it was last looked at: bookings, or what stands."""

    bookings: bool
    standing: bool


class Turns:
    """The turns that the present transaction has, and how the counts stood after the last."""

    def __init__(self) -> None:
        self._taken: dict[TenantId, tuple[int, int]] = {}
        self._seen: dict[TenantId, tuple[int, int]] = {}
        self._moved: set[TenantId] = set()

    def forget(self) -> None:
        """Take everything for changed."""
        self._seen.clear()
        self._taken.clear()
        self._moved.clear()

    def make(self, driver: Driver, tenants: Collection[TenantId]) -> None:
        """Have a row for each of the tenants, so that there is something to take."""
        self._taken.clear()
        self._moved.clear()
        if any(tenant not in self._seen for tenant in tenants):
            _MAKE.run_many(driver, [{"tenant": tenant} for tenant in tenants])

    def asked(self, driver: psycopg.Connection[Any], tenants: Iterable[TenantId]) -> Answers:
        """Ask for the tenants' books, inside a pipeline: what is asked next waits for them."""
        # In one order, so that two sidecars never wait for each other.
        return _TAKE.asked(driver, [{"tenant": tenant} for tenant in sorted(tenants)])

    def take(self, rows: Iterable[Any]) -> Stale:
        """Note the turns in `rows`, which are had now; tell what was changed since the last."""
        for tenant, changes, standing in rows:
            self._taken[TenantId(tenant)] = (changes, standing)
        unseen = (-1, -1)
        pairs = [(now, self._seen.get(tenant, unseen)) for tenant, now in self._taken.items()]
        return Stale(
            bookings=any(now[0] != seen[0] for now, seen in pairs),
            standing=any(now[1] != seen[1] for now, seen in pairs),
        )

    def has(self, tenant: TenantId) -> bool:
        """Tell whether the present transaction has the turn of `tenant`."""
        return tenant in self._taken

    def move(self, tenant: TenantId) -> None:
        """Have the others read again what stands for `tenant`: its budgets and sessions."""
        self._moved.add(tenant)

    def count(self, driver: Driver) -> None:
        """Count the turns that the present transaction had; the last thing before COMMIT."""
        _COUNT.run_many(
            driver,
            [{"of_tenant": tenant, "moved": int(tenant in self._moved)} for tenant in self._taken],
        )

    def committed(self) -> None:
        """Remember the counts as they stand now that the transaction is stored."""
        for tenant, (changes, standing) in self._taken.items():
            self._seen[tenant] = (changes + 1, standing + (tenant in self._moved))
        self._taken.clear()


def announce(connection: Connection, tenant: TenantId) -> None:
    """Have the other sidecars, if there are any, read again what stands for `tenant`."""
    if is_shared(connection):
        driver = driver_of(connection)
        _MAKE.run(driver, {"tenant": tenant})
        _COUNT.run(driver, {"of_tenant": tenant, "moved": 1})


def tenants_of(driver: Driver, abouts: Iterable[About]) -> Iterable[TenantId]:
    """Yield the tenants; that of a reservation or a session never changes."""
    held: set[ReservationId] = set()
    opened: set[SessionId] = set()
    for about in abouts:
        if about.tenant is not None:
            yield about.tenant
        elif about.reservation is not None:
            held.add(about.reservation)
        opened.update(about.sessions)
    if held:
        rows = [{"reservation_id": one} for one in sorted(held)]
        for (tenant,) in _TENANT_OF_RESERVATION.rows_many(driver, rows):
            yield TenantId(tenant)
    if opened:
        named = [{"session_id": one} for one in sorted(opened)]
        for (tenant,) in _TENANT_OF_SESSION.rows_many(driver, named):
            yield TenantId(tenant)
