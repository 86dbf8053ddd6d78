"""The reservations that a transaction touches, in memory until they are stored."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from sqlalchemy import bindparam, insert, null, select, update

from governor.admission import AdmissionRequest
from governor.amounts import Unit
from governor.events import Reserved
from governor.ids import (
    CallId,
    PrincipalId,
    ReservationId,
    SessionId,
    TenantId,
    TurnId,
)
from governor.reservation import Reservation, ReservationState
from governor.scope import ScopeChain
from governor.target import CallKind, CallTarget
from memory_store import line_text
from memory_store.chart import Chart
from memory_store.errors import AlreadyExistsError
from memory_store.live_accounts import LiveAccount, LiveAccounts
from memory_store.records import Hold
from memory_store.rows import amounts_json, amounts_of
from memory_store.statement import CONSTRAINT_ERRORS, Driver, Statement, Value
from memory_store.tables import reservations, turns

_KEPT_MAX = 50_000

_COLUMNS = (
    reservations.c.reservation_id,
    reservations.c.call_id,
    reservations.c.kind,
    reservations.c.name,
    reservations.c.upstream,
    reservations.c.tier,
    reservations.c.tenant,
    reservations.c.agent,
    reservations.c.session,
    reservations.c.turn,
    reservations.c.state,
    reservations.c.estimate,
    reservations.c.opens_turn,
    reservations.c.lines,
    reservations.c.created_at_ms,
    reservations.c.expires_at_ms,
    reservations.c.payload_hash,
)
_INSERT = Statement(insert(reservations))
_INSERT_TURN = Statement(insert(turns))
_BY_ID = Statement(
    select(*_COLUMNS).where(reservations.c.reservation_id == bindparam("reservation_id"))
)
_BY_KEY = Statement(
    select(*_COLUMNS).where(
        reservations.c.agent == bindparam("agent"),
        reservations.c.idempotency_key == bindparam("idempotency_key"),
    )
)
_TURN = Statement(
    select(turns.c.reservation_id).where(
        turns.c.session_id == bindparam("session_id"), turns.c.turn == bindparam("turn")
    )
)
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
_RELINE = Statement(
    update(reservations)
    .where(reservations.c.reservation_id == bindparam("of_reservation_id"))
    .values(lines=bindparam("to_lines"))
)


@dataclass(slots=True, kw_only=True)
class LiveHold:
    """A hold and the accounts it stands on. What `is_own` was admitted by this process."""

    hold: Hold
    chart: Chart
    is_own: bool

    @property
    def is_ours_alone(self) -> bool:
        """Tell whether others end or change it only with notice that something else stands.

        What was carved out is drawn on by every call below, without notice.
        """
        return self.is_own and self.hold.target.kind is not CallKind.SUB_SESSION

    @property
    def lines_text(self) -> str:
        """Return the lines as they are stored."""
        return self.chart.held_text(self.hold.reservation.held)


class LiveHolds:
    """Reservations by id, and what has to be stored of them."""

    def __init__(self) -> None:
        self._kept: dict[ReservationId, LiveHold] = {}
        self._doubted: dict[ReservationId, LiveHold] = {}
        self._others: set[ReservationId] = set()
        self._moved_others: set[TenantId] = set()
        self._new: list[dict[str, Value]] = []
        self._moves: list[dict[str, Value]] = []
        self._relined: dict[ReservationId, LiveHold] = {}
        self._ended: list[ReservationId] = []
        self._new_turns: dict[tuple[SessionId, TurnId], ReservationId] = {}
        self._new_keys: dict[tuple[PrincipalId, str], tuple[ReservationId, str]] = {}

    def forget(self) -> None:
        """Read everything again, and drop what was not stored."""
        self.doubt()
        self._moved_others.clear()
        self._flushed()

    def doubt(self) -> None:
        """Read everything again, but remember how the accounts were described."""
        self._doubted.update(self._kept)
        self._kept.clear()
        self._others.clear()

    def doubt_others(self) -> None:
        """Read again what others may have moved or changed without notice."""
        for reservation_id in self._others:
            found = self._kept.pop(reservation_id, None)
            if found is not None:
                self._doubted[reservation_id] = found
        self._others.clear()

    def moved_others(self) -> set[TenantId]:
        """Return whose reservations were moved that another process may remember; once."""
        moved, self._moved_others = self._moved_others, set()
        return moved

    def trim(self) -> None:
        """Forget everything where too much is kept; to be called between transactions."""
        if len(self._kept) + len(self._doubted) > _KEPT_MAX:
            self._kept.clear()
            self._doubted.clear()
            self._others.clear()

    def tenant_of(self, reservation_id: ReservationId) -> TenantId | None:
        """Return whose reservation it is, if that is remembered."""
        kept = self._kept.get(reservation_id)
        return None if kept is None else kept.hold.reservation.chain.tenant

    def held_on(self, reservation_ids: Iterable[ReservationId]) -> Iterator[LiveAccount]:
        """Yield the accounts of those of the reservations that are remembered."""
        for reservation_id in reservation_ids:
            kept = self._kept.get(reservation_id)
            if kept is not None:
                yield from kept.chart.accounts

    def insert(
        self, request: AdmissionRequest, reserved: Reserved, chart: Chart, lines_text: str
    ) -> None:
        """Keep a new reservation with the turn it opens and the key it was made under."""
        reservation = reserved.reservation
        opens_turn = request.turn is not None and reserved.amount.of(Unit.TURNS) > 0
        hold = Hold(
            reservation=reservation,
            target=request.target,
            turn=request.turn,
            estimate=request.estimate,
            opens_turn=opens_turn,
            created_at_ms=request.now_ms,
        )
        self._doubted.pop(reservation.reservation_id, None)
        self._keep(LiveHold(hold=hold, chart=chart, is_own=True))
        self._new.append(_row(request, hold, lines_text))
        if request.turn is not None and opens_turn:
            turn = (request.chain.session, request.turn)
            self._new_turns[turn] = reservation.reservation_id
        if request.idempotency is not None:
            key = (request.chain.agent, request.idempotency.key)
            self._new_keys[key] = (reservation.reservation_id, request.idempotency.payload_hash)

    def get(
        self, driver: Driver, accounts: LiveAccounts, reservation_id: ReservationId
    ) -> LiveHold | None:
        """Return the reservation of that id, be it an ended one."""
        kept = self._kept.get(reservation_id)
        if kept is not None:
            accounts.refresh(driver, kept.chart.accounts)
            return kept
        row = _BY_ID.row(driver, {"reservation_id": reservation_id})
        if row is None:
            return None
        live = self._known_again(_live_hold(driver, accounts, row))
        if live.hold.reservation.is_live:
            self._keep(live)
        return live

    def fetch(
        self, driver: Driver, accounts: LiveAccounts, reservation_ids: Iterable[ReservationId]
    ) -> None:
        """Read the reservations of those ids together, and the accounts that they stand on."""
        wanted = set(reservation_ids)
        missing = sorted(wanted - self._kept.keys())
        accounts.refresh(driver, self.held_on(wanted))
        if not missing:
            return
        rows = _BY_ID.rows_many(driver, [{"reservation_id": one} for one in missing])
        lines = _COLUMNS.index(reservations.c.lines)
        accounts.fetch_numbered(
            driver, [line.account for row in rows for line in line_text.read(row[lines])]
        )
        for row in rows:
            self._keep(self._known_again(_live_hold(driver, accounts, row)))

    def under_key(
        self, driver: Driver, accounts: LiveAccounts, agent: PrincipalId, key: str
    ) -> tuple[Reservation, str] | None:
        """Return the reservation made under the agent's `key` and the hash of its payload."""
        new = self._new_keys.get((agent, key))
        if new is not None:
            reservation_id, payload_hash = new
            return self._kept[reservation_id].hold.reservation, payload_hash
        row = _BY_KEY.row(driver, {"agent": agent, "idempotency_key": key})
        if row is None:
            return None
        return _live_hold(driver, accounts, row).hold.reservation, row[-1]

    def is_turn_new(self, driver: Driver, session: SessionId, turn: TurnId | None) -> bool:
        """Tell whether a call would be the first of `turn`."""
        if turn is None or (session, turn) in self._new_turns:
            return False
        return _TURN.row(driver, {"session_id": session, "turn": turn}) is None

    def move(self, live: LiveHold, to: Reservation, *, ended_at_ms: int | None) -> None:
        """Keep `to` as what became of the reservation."""
        live.hold = live.hold.with_reservation(to)
        if not live.is_own:
            self._moved_others.add(to.chain.tenant)
        self._moves.append(
            {
                "of_reservation_id": to.reservation_id,
                "to_state": to.state.value,
                "at_ms": ended_at_ms,
            }
        )
        if ended_at_ms is not None:
            self._ended.append(to.reservation_id)

    def reline(self, live: LiveHold, held: tuple[int, ...], *, on: Chart | None = None) -> None:
        """Keep `held` as what the reservation holds from now on, `on` another chart if given."""
        live.chart = on or live.chart
        reservation = live.hold.reservation.holding(held, on=live.chart.postings)
        live.hold = live.hold.with_reservation(reservation)
        self._relined[reservation.reservation_id] = live

    def flush(self, driver: Driver) -> None:
        """Store what changed.

        Raises:
            AlreadyExistsError: the id of a reservation or of a call was used before.
        """
        if self._new:
            try:
                _INSERT.run_many(driver, self._new)
            except CONSTRAINT_ERRORS as error:
                message = "the id of the reservation or of the call was used before"
                raise AlreadyExistsError(message) from error
        if self._new_turns:
            _INSERT_TURN.run_many(driver, [_turn_row(*new) for new in self._new_turns.items()])
        if self._moves:
            _MOVE.run_many(driver, self._moves)
        if self._relined:
            _RELINE.run_many(driver, [_lines_row(live) for live in self._relined.values()])
        self._flushed()

    def free_key(self, driver: Driver, reservation_id: ReservationId) -> None:
        """Let the key of a stored reservation be used again: its call never ran."""
        _FREE_KEY.run(driver, {"of_reservation_id": reservation_id})

    def _keep(self, live: LiveHold) -> None:
        reservation_id = live.hold.reservation.reservation_id
        self._kept[reservation_id] = live
        if not live.is_ours_alone:
            self._others.add(reservation_id)

    def _known_again(self, live: LiveHold) -> LiveHold:
        """Return `live` with what was remembered of it and no row says."""
        known = self._doubted.pop(live.hold.reservation.reservation_id, None)
        if known is not None:
            live.chart = Chart(live.chart.accounts, live.chart.postings, known.chart.described)
            live.is_own = known.is_own
        return live

    def _flushed(self) -> None:
        for ended in self._ended:
            self._kept.pop(ended, None)
            self._others.discard(ended)
        self._new.clear()
        self._moves.clear()
        self._relined.clear()
        self._ended.clear()
        self._new_turns.clear()
        self._new_keys.clear()


def _row(request: AdmissionRequest, hold: Hold, lines_text: str) -> dict[str, Value]:
    reservation, target = hold.reservation, request.target
    chain, idempotency = request.chain, request.idempotency
    return {
        "reservation_id": reservation.reservation_id,
        "call_id": reservation.call_id,
        "kind": target.kind.value,
        "name": target.name,
        "upstream": target.upstream,
        "tier": target.tier,
        "tenant": chain.tenant,
        "agent": chain.agent,
        "session": chain.session,
        "turn": request.turn,
        "state": reservation.state.value,
        "estimate": amounts_json(request.estimate),
        "opens_turn": hold.opens_turn,
        "lines": lines_text,
        "outlives_process": request.outlives_process,
        "created_at_ms": request.now_ms,
        "expires_at_ms": reservation.expires_at_ms,
        "ended_at_ms": None,
        "idempotency_key": None if idempotency is None else idempotency.key,
        "payload_hash": None if idempotency is None else idempotency.payload_hash,
    }


def _turn_row(turn: tuple[SessionId, TurnId], reservation_id: ReservationId) -> dict[str, Value]:
    return {"session_id": turn[0], "turn": turn[1], "reservation_id": reservation_id}


def _lines_row(live: LiveHold) -> dict[str, Value]:
    return {
        "of_reservation_id": live.hold.reservation.reservation_id,
        "to_lines": live.lines_text,
    }


def _live_hold(driver: Driver, accounts: LiveAccounts, row: Any) -> LiveHold:
    (
        reservation_id, call_id, kind, name, upstream, tier, tenant, agent, session, turn,
        state, estimate, opens_turn, lines, created_at_ms, expires_at_ms, _,
    ) = row  # fmt: skip
    written = list(line_text.read(lines))
    on = [accounts.numbered(driver, line.account) for line in written]
    chart = Chart(
        on, [line.posting(account.key) for line, account in zip(written, on, strict=True)]
    )
    return LiveHold(
        hold=Hold(
            reservation=Reservation(
                reservation_id=ReservationId(reservation_id),
                call_id=CallId(call_id),
                chain=ScopeChain(
                    tenant=TenantId(tenant), agent=PrincipalId(agent), session=SessionId(session)
                ),
                state=ReservationState(state),
                postings=chart.postings,
                held=tuple([line.amount for line in written]),
                expires_at_ms=expires_at_ms,
            ),
            target=CallTarget(kind=CallKind(kind), name=name, upstream=upstream, tier=tier),
            turn=None if turn is None else TurnId(turn),
            estimate=amounts_of(estimate),
            opens_turn=bool(opens_turn),
            created_at_ms=created_at_ms,
        ),
        chart=chart,
        is_own=False,
    )
