"""Reservations as rows: the hold, its lines, its turn and the events about it."""

import sqlite3
from collections.abc import Sequence
from typing import Any

from sqlalchemy import bindparam, delete, insert, null, select, update

from governor.admission import AdmissionRequest
from governor.amounts import Unit
from governor.budget import BalanceKey
from governor.events import Ended, Reserved
from governor.ids import (
    BudgetId,
    CallId,
    PrincipalId,
    ReservationId,
    SessionId,
    TenantId,
    TurnId,
)
from governor.reservation import Reservation, ReservationLine, ReservationState
from governor.scope import ScopeChain
from memory_store.errors import AlreadyExistsError
from memory_store.records import Hold
from memory_store.rows import amounts_json, amounts_of, json_of
from memory_store.statement import Statement, Value
from memory_store.tables import events, reservation_lines, reservations, turns

_COLUMNS = (
    reservations.c.reservation_id,
    reservations.c.call_id,
    reservations.c.name,
    reservations.c.tenant,
    reservations.c.agent,
    reservations.c.session,
    reservations.c.turn,
    reservations.c.state,
    reservations.c.estimate,
    reservations.c.amount,
    reservations.c.created_at_ms,
    reservations.c.expires_at_ms,
    reservations.c.payload_hash,
)

_INSERT = Statement(insert(reservations))
_INSERT_LINE = Statement(insert(reservation_lines))
_INSERT_TURN = Statement(insert(turns))
_INSERT_EVENT = Statement(
    insert(events).values(
        {name: bindparam(name) for name in ("kind", "reservation_id", "at_ms", "charges")}
    )
)
_BY_ID = Statement(
    select(*_COLUMNS).where(reservations.c.reservation_id == bindparam("reservation_id"))
)
_BY_KEY = Statement(
    select(*_COLUMNS).where(
        reservations.c.agent == bindparam("agent"),
        reservations.c.idempotency_key == bindparam("idempotency_key"),
    )
)
_LINES = Statement(
    select(
        reservation_lines.c.budget_id,
        reservation_lines.c.subject,
        reservation_lines.c.unit,
        reservation_lines.c.window_start_ms,
        reservation_lines.c.amount,
    )
    .where(reservation_lines.c.reservation_id == bindparam("reservation_id"))
    .order_by(reservation_lines.c.budget_id, reservation_lines.c.subject, reservation_lines.c.unit)
)
_TURN = Statement(
    select(turns.c.reservation_id).where(
        turns.c.session_id == bindparam("session_id"), turns.c.turn == bindparam("turn")
    )
)
_FREE_TURN = Statement(delete(turns).where(turns.c.reservation_id == bindparam("reservation_id")))
_FREE_KEY = Statement(
    update(reservations)
    .where(reservations.c.reservation_id == bindparam("of_reservation_id"))
    .values(idempotency_key=null(), payload_hash=null())
)
_MOVE = Statement(
    update(reservations)
    .where(reservations.c.reservation_id == bindparam("of_reservation_id"))
    .values(state=bindparam("to_state"), ended_at_ms=bindparam("at_ms"))
)


def is_turn_new(driver: sqlite3.Connection, session: SessionId, turn: TurnId | None) -> bool:
    """Tell whether a call would be the first of `turn`."""
    if turn is None:
        return False
    return _TURN.row(driver, {"session_id": session, "turn": turn}) is None


def insert_hold(driver: sqlite3.Connection, request: AdmissionRequest, reserved: Reserved) -> None:
    """Store `reserved` with its lines, the turn it opened and the event.

    Raises:
        AlreadyExistsError: the id of the reservation or of the call was used before.
    """
    reservation = reserved.reservation
    try:
        _INSERT.run(driver, _columns(request, reserved))
    except sqlite3.IntegrityError as error:
        message = f"{reservation.reservation_id} or {reservation.call_id} was used before"
        raise AlreadyExistsError(message) from error
    _INSERT_LINE.run_many(
        driver,
        (
            {
                "reservation_id": reservation.reservation_id,
                "budget_id": line.key.budget_id,
                "subject": line.key.subject,
                "unit": line.key.unit.value,
                "window_start_ms": line.key.window_start_ms,
                "amount": line.amount,
            }
            for line in reservation.lines
        ),
    )
    if request.turn is not None and reserved.amount.of(Unit.TURNS) > 0:
        _INSERT_TURN.run(
            driver,
            {
                "session_id": request.chain.session,
                "turn": request.turn,
                "reservation_id": reservation.reservation_id,
            },
        )
    held = [(*_key_parts(line.key), line.amount, None) for line in reservation.lines]
    _insert_event(driver, "reserved", reservation.reservation_id, request.now_ms, held)


def _columns(request: AdmissionRequest, reserved: Reserved) -> dict[str, Value]:
    reservation = reserved.reservation
    idempotency = request.idempotency
    return {
        "reservation_id": reservation.reservation_id,
        "call_id": reservation.call_id,
        "name": request.name,
        "tenant": request.chain.tenant,
        "agent": request.chain.agent,
        "session": request.chain.session,
        "turn": request.turn,
        "state": reservation.state.value,
        "estimate": amounts_json(request.estimate),
        "amount": amounts_json(reserved.amount),
        "created_at_ms": request.now_ms,
        "expires_at_ms": reservation.expires_at_ms,
        "ended_at_ms": None,
        "idempotency_key": None if idempotency is None else idempotency.key,
        "payload_hash": None if idempotency is None else idempotency.payload_hash,
    }


def hold_of(driver: sqlite3.Connection, reservation_id: ReservationId) -> Hold | None:
    """Return the reservation of that id."""
    row = _BY_ID.row(driver, {"reservation_id": reservation_id})
    return None if row is None else _hold(driver, row)


def reservation_for_key(
    driver: sqlite3.Connection, agent: PrincipalId, key: str
) -> tuple[Reservation, str] | None:
    """Return the reservation made under the agent's `key` and the hash of its payload."""
    row = _BY_KEY.row(driver, {"agent": agent, "idempotency_key": key})
    return None if row is None else (_hold(driver, row).reservation, row[-1])


def mark(driver: sqlite3.Connection, reservation: Reservation) -> None:
    """Store the state of a reservation that is still live."""
    _MOVE.run(
        driver,
        {
            "of_reservation_id": reservation.reservation_id,
            "to_state": reservation.state.value,
            "at_ms": None,
        },
    )


def end_hold(driver: sqlite3.Connection, ended: Ended, *, at_ms: int) -> None:
    """Store how a reservation ended, and the event."""
    reservation = ended.reservation
    _MOVE.run(
        driver,
        {
            "of_reservation_id": reservation.reservation_id,
            "to_state": reservation.state.value,
            "at_ms": at_ms,
        },
    )
    charges = [(*_key_parts(charge.key), charge.held, charge.charged) for charge in ended.charges]
    _insert_event(driver, reservation.state.value, reservation.reservation_id, at_ms, charges)


def free_turn(driver: sqlite3.Connection, reservation_id: ReservationId) -> None:
    """Let the turn that a reservation opened be opened again."""
    _FREE_TURN.run(driver, {"reservation_id": reservation_id})


def free_key(driver: sqlite3.Connection, reservation_id: ReservationId) -> None:
    """Let the client's key be used again: the call that it named never ran."""
    _FREE_KEY.run(driver, {"of_reservation_id": reservation_id})


def _insert_event(
    driver: sqlite3.Connection,
    kind: str,
    reservation_id: ReservationId,
    at_ms: int,
    charges: Sequence[Sequence[str | int | None]],
) -> None:
    _INSERT_EVENT.run(
        driver,
        {
            "kind": kind,
            "reservation_id": reservation_id,
            "at_ms": at_ms,
            "charges": json_of(charges),
        },
    )


def _key_parts(key: BalanceKey) -> tuple[str, str, str, int]:
    return (key.budget_id, key.subject, key.unit.value, key.window_start_ms)


def _hold(driver: sqlite3.Connection, row: Any) -> Hold:
    (
        reservation_id, call_id, name, tenant, agent, session, turn,
        state, estimate, amount, created_at_ms, expires_at_ms, _,
    ) = row  # fmt: skip
    lines = tuple(
        ReservationLine(
            key=BalanceKey(
                budget_id=BudgetId(budget_id),
                subject=subject,
                unit=Unit(unit),
                window_start_ms=window_start_ms,
            ),
            amount=held,
        )
        for budget_id, subject, unit, window_start_ms, held in _LINES.rows(
            driver, {"reservation_id": reservation_id}
        )
    )
    return Hold(
        reservation=Reservation(
            reservation_id=ReservationId(reservation_id),
            call_id=CallId(call_id),
            chain=ScopeChain(
                tenant=TenantId(tenant), agent=PrincipalId(agent), session=SessionId(session)
            ),
            state=ReservationState(state),
            lines=lines,
            expires_at_ms=expires_at_ms,
        ),
        name=name,
        turn=None if turn is None else TurnId(turn),
        estimate=amounts_of(estimate),
        amount=amounts_of(amount),
        created_at_ms=created_at_ms,
    )
