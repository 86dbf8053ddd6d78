"""The ledger: budgets are held, charged and freed here, each time in one transaction."""

import sqlite3
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeVar

import anyio
from sqlalchemy import Connection, select

from governor import settlement
from governor.admission import AdmissionRequest, admit
from governor.amounts import Amounts
from governor.call import CallRecord
from governor.denial import Denied
from governor.errors import InvalidTransitionError
from governor.events import Ended, Expired, KeyReused, Released, Replayed, Reserved, Settled
from governor.ids import PrincipalId, ReservationId, SessionId, TenantId
from governor.reservation import Reservation, ReservationState
from governor.usage import Usage
from memory_store import accounts, holds
from memory_store.accounts import BalanceView
from memory_store.calls import insert_call
from memory_store.engine import driver_of
from memory_store.errors import StoreError, UnknownReservationError
from memory_store.live_budgets import LiveBudgets
from memory_store.reader import Reader
from memory_store.records import (
    Hold,
    charged_when_expired,
    charged_when_released,
    charged_when_settled,
    expired_record,
)
from memory_store.sessions import is_open_now
from memory_store.standing import standing_balances
from memory_store.tables import reservations
from memory_store.writer import Writer

_EXPIRED_AT_ONCE = 256

E = TypeVar("E", Settled, Released, Expired)


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

    def __init__(self, *, writer: Writer, reader: Reader, live: LiveBudgets) -> None:
        self._writer = writer
        self._reader = reader
        self._live = live

    async def admit(self, request: AdmissionRequest) -> Reserved | Denied | Replayed | KeyReused:
        """Hold the estimate on every budget of the chain, or say why not.

        A denial stores nothing but that the session was seen.

        Raises:
            SessionOwnerError: the session belongs to another agent.
            AlreadyExistsError: the id of the reservation or of the call was used before.
        """
        # A caller who has gone by its turn must not leave a hold behind.
        return await self._writer.run(
            lambda connection: self._admit(connection, request), may_be_dropped=True
        )

    async def forward(self, reservation_id: ReservationId, *, now_ms: int) -> None:
        """Mark the hold before the first upstream byte: from now on expiry charges it.

        Raises:
            UnknownReservationError: there is no such reservation.
            InvalidTransitionError: it was forwarded or ended before.
        """

        def work(connection: Connection) -> None:
            driver = driver_of(connection)
            hold = _hold(driver, reservation_id)
            holds.mark(driver, settlement.forward(hold.reservation))

        await self._writer.run(work, is_owed=True)

    async def settle(
        self, reservation_id: ReservationId, usage: Usage, record: CallRecord
    ) -> Settled:
        """Charge what was used, free the rest and keep the record of the call.

        Raises:
            UnknownReservationError: there is no such reservation.
            InvalidTransitionError: it ended before; nothing is charged twice.
        """
        return await self._end(
            reservation_id,
            record,
            decide=lambda reservation: settlement.settle(reservation, usage),
            charged=lambda hold: charged_when_settled(hold.amount, usage),
        )

    async def release(self, reservation_id: ReservationId, record: CallRecord) -> Released:
        """Free what was held for a call that provably consumed nothing, and keep its record.

        Raises:
            UnknownReservationError: there is no such reservation.
            InvalidTransitionError: it ended before.
        """
        return await self._end(
            reservation_id,
            record,
            decide=settlement.release,
            charged=lambda hold: charged_when_released(hold.amount),
        )

    async def expire_due(self, *, now_ms: int, all_live: bool = False) -> tuple[Expired, ...]:
        """End the holds whose time has passed, or all of them when a process starts anew.

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
    ) -> tuple[BalanceView, ...]:
        """Return how the live budgets stand, narrowed to an agent or a session if one is given.

        A budget for every agent or session is shown for the one that is given, else for
        each that has used it in the present window.
        """
        return await self._reader.run(
            lambda connection: standing_balances(
                connection, tenant=tenant, agent=agent, session=session, now_ms=now_ms
            )
        )

    def _admit(
        self, connection: Connection, request: AdmissionRequest
    ) -> Reserved | Denied | Replayed | KeyReused:
        driver = driver_of(connection)
        is_open = is_open_now(driver, request)
        if request.idempotency is not None:
            known = holds.reservation_for_key(driver, request.chain.agent, request.idempotency.key)
            if known is not None:
                original, payload_hash = known
                is_same = payload_hash == request.idempotency.payload_hash
                return Replayed(original=original) if is_same else KeyReused(original=original)

        governing = self._live.governing(connection, request.chain)
        decision = admit(
            request,
            accounts.balances_for(driver, governing, request.chain, request.now_ms),
            is_turn_new=holds.is_turn_new(driver, request.chain.session, request.turn),
            is_session_open=is_open,
        )
        if isinstance(decision, Reserved):
            holds.insert_hold(driver, request, decision)
            accounts.hold(driver, decision.reservation.lines)
        return decision

    async def _end(
        self,
        reservation_id: ReservationId,
        record: CallRecord,
        *,
        decide: Callable[[Reservation], E],
        charged: Callable[[Hold], Amounts],
    ) -> E:
        def work(connection: Connection) -> E:
            driver = driver_of(connection)
            hold = _hold(driver, reservation_id)
            ended = decide(hold.reservation)
            _store_end(driver, ended, record, charged(hold))
            return ended

        return await self._writer.run(work, is_owed=True)

    async def _expire(self, reservation_id: ReservationId, now_ms: int, outcome: _Expiries) -> None:
        def work(connection: Connection) -> Expired:
            driver = driver_of(connection)
            hold = _hold(driver, reservation_id)
            expired = settlement.expire(hold.reservation)
            record = expired_record(hold, now_ms=now_ms)
            _store_end(driver, expired, record, charged_when_expired(hold))
            if hold.reservation.state is ReservationState.HELD:
                # It never left and is refunded, so the next call of its turn pays for it.
                holds.free_turn(driver, reservation_id)
                holds.free_key(driver, reservation_id)
            return expired

        try:
            outcome.expired.append(await self._writer.run(work, is_owed=True))
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
        if not all_live:
            query = query.where(table.expires_at_ms <= now_ms)
        rows = await self._reader.run(lambda connection: connection.execute(query).all())
        return [(row.expires_at_ms, ReservationId(row.reservation_id)) for row in rows]


def _hold(driver: sqlite3.Connection, reservation_id: ReservationId) -> Hold:
    hold = holds.hold_of(driver, reservation_id)
    if hold is None:
        message = f"there is no reservation {reservation_id}"
        raise UnknownReservationError(message)
    return hold


def _store_end(
    driver: sqlite3.Connection, ended: Ended, record: CallRecord, charged: Amounts
) -> None:
    assert record.call_id == ended.reservation.call_id, "the record is of another call"
    holds.end_hold(driver, ended, at_ms=record.ended_at_ms)
    accounts.end(driver, ended.charges)
    insert_call(driver, record, charged)
    if isinstance(ended, Released):
        holds.free_key(driver, ended.reservation.reservation_id)
