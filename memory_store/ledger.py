"""The ledger: budgets are held, charged and freed here, each time in one transaction."""

from collections.abc import Callable
from dataclasses import dataclass, field

import anyio
from sqlalchemy import select

from governor.admission import AdmissionRequest
from governor.call import CallRecord
from governor.denial import Denied
from governor.errors import InvalidTransitionError
from governor.events import Expired, KeyReused, Released, Replayed, Reserved, Settled
from governor.ids import PrincipalId, ReservationId, SessionId, TenantId
from governor.scope import ScopeChain
from governor.usage import Usage
from memory_store.accounts import BalanceView
from memory_store.carves import SpawnRequest, spawn
from memory_store.errors import StoreError
from memory_store.reader import Reader
from memory_store.standing import WHOLE, Part, standing_balances
from memory_store.tables import reservations
from memory_store.turns import About
from memory_store.writer import Writer

_EXPIRED_AT_ONCE = 256


@dataclass(slots=True)
class _Expiries:
    """What became of the holds that were due."""

    expired: list[Expired] = field(default_factory=list)
    failed: list[StoreError] = field(default_factory=list)


class SqlLedger:
    """Budgets in the database. Nothing is acknowledged that is not stored.

    Every method may raise StoreOverloadedError and StoreUnavailableError; after either,
    nothing of what was asked was stored, except that a failing COMMIT may leave the answer
    open until the next start.
    """

    def __init__(self, *, writer: Writer, reader: Reader) -> None:
        self._writer = writer
        self._reader = reader
        self.asked = 0  # how many calls wanted to be admitted here, whoever asked

    async def admit(self, request: AdmissionRequest) -> Reserved | Denied | Replayed | KeyReused:
        """Hold the estimate on every budget of the chain, or say why not.

        A denial stores nothing but that the session was seen.

        Raises:
            SessionOwnerError: the session belongs to another agent.
            AlreadyExistsError: the id of the reservation or of the call was used before.
        """
        self.asked += 1
        # A caller who has gone by its turn must not leave a hold behind.
        return await self._writer.book(
            lambda book: book.admit(request),
            about=About(tenant=request.chain.tenant, request=request),
            may_be_dropped=True,
        )

    async def forward(self, reservation_id: ReservationId) -> Denied | None:
        """Mark the hold before the first upstream byte: from now on expiry charges it.

        Where its session, or one above it, was frozen or closed since the admission, nothing
        is marked and the denial returned: the hold is to be released.

        Raises:
            UnknownReservationError: there is no such reservation.
            InvalidTransitionError: it was forwarded or ended before.
        """
        return await self._writer.book(
            lambda book: book.forward(reservation_id),
            about=About(reservation=reservation_id),
            is_owed=True,
        )

    async def settle(
        self, reservation_id: ReservationId, usage: Usage, record: CallRecord
    ) -> Settled:
        """Charge what was used, free the rest and keep the record of the call.

        Raises:
            UnknownReservationError: there is no such reservation.
            InvalidTransitionError: it ended before; nothing is charged twice.
        """
        return await self._writer.book(
            lambda book: book.settle(reservation_id, usage, record),
            about=About(tenant=record.chain.tenant, reservation=reservation_id),
            is_owed=True,
        )

    async def release(self, reservation_id: ReservationId, record: CallRecord) -> Released:
        """Free what was held for a call that provably consumed nothing, and keep its record.

        Raises:
            UnknownReservationError: there is no such reservation.
            InvalidTransitionError: it ended before.
        """
        return await self._writer.book(
            lambda book: book.release(reservation_id, record),
            about=About(tenant=record.chain.tenant, reservation=reservation_id),
            is_owed=True,
        )

    async def spawn(self, request: SpawnRequest) -> ScopeChain | Denied:
        """Carve a sub-session out of its parent and return its chain, or say why not.

        Raises:
            SessionOwnerError: the parent belongs to another agent.
            AlreadyExistsError: there is, or was, such a session.
            InvalidScopeError: the session would be its own ancestor, or the chain too deep.
            InvalidBudgetError: nothing is carved out.
        """
        return await self._writer.book(
            lambda book: spawn(book, request),
            about=About(tenant=request.tenant),
            may_be_dropped=True,
        )

    async def expire_due(
        self,
        *,
        now_ms: int,
        all_live: bool = False,
        is_running: Callable[[ReservationId], bool] = lambda _: False,
    ) -> tuple[Expired, ...]:
        """End the holds whose time has passed, and all others when a process starts anew.

        A hold that outlives its process (one that waits for a person) ends by its time alone.
        One that `is_running` is left to its call, whatever the clock says: that ends by a
        limit of its own, and what it used is known then.

        Each is ended by itself, so that one that cannot be ended keeps no other waiting;
        the first such error is raised when all others are done.
        """
        outcome = _Expiries()
        last = (-1, ReservationId(""))
        while due := await self._due(now_ms=now_ms, all_live=all_live, after=last):
            last = due[-1]
            # Together, so that the writer ends them in one transaction.
            async with anyio.create_task_group() as group:
                for _, reservation_id in due:
                    if not is_running(reservation_id):
                        group.start_soon(self._expire, reservation_id, now_ms, outcome)
        if outcome.failed:
            raise outcome.failed[0]
        return tuple(outcome.expired)

    async def balances(
        self,
        *,
        tenant: TenantId,
        agent: PrincipalId | None = None,
        session: SessionId | None = None,
        now_ms: int,
        part: Part = WHOLE,
    ) -> tuple[BalanceView, ...]:
        """Return how the live budgets stand, narrowed to an agent or a session if one is given.

        A budget for every agent or session is shown for the one that is given, else for
        each that has used it in the present window.
        """
        return await self._reader.run(
            lambda connection: standing_balances(
                connection, tenant=tenant, agent=agent, session=session, now_ms=now_ms, part=part
            )
        )

    async def _expire(self, reservation_id: ReservationId, now_ms: int, outcome: _Expiries) -> None:
        try:
            expired = await self._writer.book(
                lambda book: book.expire(reservation_id, now_ms=now_ms),
                about=About(reservation=reservation_id),
                is_owed=True,
            )
            outcome.expired.append(expired)
        except InvalidTransitionError:
            """It ended after all while its expiry waited."""
        except StoreError as error:
            outcome.failed.append(error)

    async def _due(
        self, *, now_ms: int, all_live: bool, after: tuple[int, ReservationId]
    ) -> list[tuple[int, ReservationId]]:
        due_at_ms, last_id = after
        table = reservations.c
        query = (
            select(table.expires_at_ms, table.reservation_id)
            .where(
                table.ended_at_ms.is_(None),
                (table.expires_at_ms > due_at_ms)
                | ((table.expires_at_ms == due_at_ms) & (table.reservation_id > last_id)),
            )
            .order_by(table.expires_at_ms, table.reservation_id)
            .limit(_EXPIRED_AT_ONCE)
        )
        is_due = table.expires_at_ms <= now_ms
        query = query.where((~table.outlives_process) | is_due if all_live else is_due)
        rows = await self._reader.run(lambda connection: connection.execute(query).all())
        return [(row.expires_at_ms, ReservationId(row.reservation_id)) for row in rows]
