"""Sub-sessions in the ledger: carved out of the parent's remainder, the rest given back.

The carve is a reservation on the parent's accounts that stays until the sub-session is
closed. Calls of the sub-session draw on it; what they leave is freed at the end.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from sqlalchemy import select

from governor.account import Booking, Carve, Posting
from governor.admission import AdmissionRequest
from governor.amounts import Amounts
from governor.denial import Denied
from governor.errors import InvalidBudgetError
from governor.ids import CallId, PrincipalId, ReservationId, SessionId, TenantId
from governor.reservation import ReservationEvent, next_state
from governor.scope import ScopeChain
from governor.target import CallKind, CallTarget
from memory_store.bookkeeping import Bookkeeping
from memory_store.chart import Chart, drawn
from memory_store.errors import AlreadyExistsError, SessionOwnerError
from memory_store.freezing import below
from memory_store.live_accounts import LiveAccount
from memory_store.live_holds import LiveHold
from memory_store.live_sessions import LiveSession
from memory_store.rows import amounts_json
from memory_store.tables import reservations

# No clock of ours gets there: a carve ends with its session.
NEVER_MS = 2**62


@dataclass(frozen=True, slots=True, kw_only=True)
class SpawnRequest:
    """A sub-session that `agent` wants carved out of its session `parent`.

    `limits` are what it may use, unit by unit; it may use other units as its parent may.
    A parent that was never seen is opened.
    """

    session_id: SessionId
    reservation_id: ReservationId
    tenant: TenantId
    agent: PrincipalId
    parent: SessionId
    parent_name: str
    name: str
    limits: Amounts
    now_ms: int


def spawn(book: Bookkeeping, request: SpawnRequest) -> ScopeChain | Denied:
    """Hold the limits on the parent's budgets and open the sub-session, or say why not.

    Raises:
        SessionOwnerError: the parent belongs to another agent.
        AlreadyExistsError: there is, or was, such a session.
        InvalidScopeError: the session would be its own ancestor, or the chain too deep.
        InvalidBudgetError: nothing is carved out.
        LedgerBreachError: the books do not add up, so nothing more is admitted.
    """
    if not any(limit for _, limit in request.limits):
        message = "limits: name at least one unit, and more than 0 of it"
        raise InvalidBudgetError(message)
    refused = book.refused(now_ms=request.now_ms)
    if refused is not None:
        return refused
    parent = _parent(book, request)
    chain = ScopeChain(
        tenant=parent.tenant,
        agent=parent.agent,
        session=request.session_id,
        ancestors=parent.chain.sessions,
    )
    _check_new(book, request)
    carving = _carving(request, parent)
    accounts = [
        account
        for account in book.accounts_of(carving, parent)
        # What was carved out of a sliding window would leave it before it is used.
        if account.key.unit in request.limits
        and account.booking in (Booking.SPEND, Booking.DRAW)
        and not account.older
    ]
    decision = book.hold(carving, parent, drawn(accounts, book.accounts, book.driver))
    if isinstance(decision, Denied):
        return decision
    carve = Carve(
        session=request.session_id,
        limits=request.limits.by_unit,
        held_on=frozenset(account.key for account in accounts),
    )
    live = LiveSession(
        session_id=request.session_id,
        tenant=parent.tenant,
        agent=parent.agent,
        last_seen_at_ms=request.now_ms,
        ancestors=chain.ancestors,
        carves=(*parent.carves, carve),
        carve_reservations=(*parent.carve_reservations, request.reservation_id),
    )
    book.sessions.open(
        live,
        name=request.name,
        now_ms=request.now_ms,
        parent=parent.session_id,
        carve=amounts_json(request.limits),
    )
    return chain


def close_below(book: Bookkeeping, session_id: SessionId, *, now_ms: int) -> list[SessionId]:
    """Give back what the session and those below it still hold; return them, deepest first.

    Calls of theirs that still run keep what is held for them, on every account of the chain.
    """
    book.flush()
    closing = [
        one
        for child in book.sessions.children(book.driver, session_id)
        for one in close_below(book, child, now_ms=now_ms)
    ]
    session = book.sessions.get(book.driver, book.accounts, session_id)
    if session is not None and session.carves:
        _give_back(book, session, now_ms=now_ms)
    return [*closing, session_id]


def _parent(book: Bookkeeping, request: SpawnRequest) -> LiveSession:
    parent = book.sessions.get(book.driver, book.accounts, request.parent)
    if parent is None:
        parent = LiveSession(
            session_id=request.parent,
            tenant=request.tenant,
            agent=request.agent,
            last_seen_at_ms=request.now_ms,
        )
        if request.parent != request.session_id:
            # What is refused must not have opened a session before.
            _check_new(book, request)
            book.sessions.open(parent, name=request.parent_name, now_ms=request.now_ms)
    if (parent.tenant, parent.agent) != (request.tenant, request.agent):
        raise SessionOwnerError
    return parent


def _check_new(book: Bookkeeping, request: SpawnRequest) -> None:
    if book.sessions.get(book.driver, book.accounts, request.session_id) is not None:
        message = f"there is, or was, a session {request.name!r}"
        raise AlreadyExistsError(message)


def _carving(request: SpawnRequest, parent: LiveSession) -> AdmissionRequest:
    return AdmissionRequest(
        reservation_id=request.reservation_id,
        call_id=CallId(request.session_id),
        target=CallTarget(kind=CallKind.SUB_SESSION, name=request.name),
        chain=parent.chain,
        session_name=request.name,
        estimate=request.limits,
        turn=None,
        now_ms=request.now_ms,
        expires_at_ms=NEVER_MS,
        outlives_process=True,
    )


def _give_back(book: Bookkeeping, session: LiveSession, *, now_ms: int) -> None:
    carve = book.hold_of(session.carve_reservations[-1])
    if not carve.hold.reservation.is_live:
        return
    depth = len(session.ancestors)
    kept: dict[LiveAccount, int] = {}
    for running in list(_running_below(book, session.session_id)):
        for account, amount in _hold_themselves(book, running, depth):
            kept[account] = kept.get(account, 0) + amount
    given = []
    for account, line in zip(carve.chart.accounts, carve.hold.reservation.lines, strict=True):
        if line.booking is Booking.SPEND:
            rest = line.amount - kept.get(account, 0)
            book.accounts.give_back(account, rest)
            given.append(f"{account.account_id}:{rest}:0")
    reservation = carve.hold.reservation
    released = replace(reservation, state=next_state(reservation.state, ReservationEvent.RELEASE))
    book.holds.move(carve, released, ended_at_ms=now_ms)
    entry = " ".join(["given_back", reservation.reservation_id, *given])
    book.journal.add(session.tenant, entry, at_ms=now_ms)
    book.flush()


def _hold_themselves(
    book: Bookkeeping, running: LiveHold, depth: int
) -> Iterator[tuple[LiveAccount, int]]:
    """Turn what a running call draws from the carve at `depth` into holds of its own."""
    chart, held = running.chart, running.hold.reservation.held
    moved = {place for place, covered_at in chart.draws if covered_at == depth}
    if moved:
        postings = [
            Posting(posting.key) if place in moved else posting
            for place, posting in enumerate(chart.postings)
        ]
        on = Chart(chart.accounts, postings, chart.described)
        book.holds.reline(running, held, on=on)
    return ((chart.accounts[place], held[place]) for place in sorted(moved))


def _running_below(book: Bookkeeping, session_id: SessionId) -> Iterator[LiveHold]:
    """Yield the live holds of calls in the session and in all that were ever below it."""
    running = book.connection.scalars(
        select(reservations.c.reservation_id)
        .where(
            reservations.c.session.in_(below(book.connection, session_id)),
            reservations.c.ended_at_ms.is_(None),
            reservations.c.kind != CallKind.SUB_SESSION.value,
        )
        .order_by(reservations.c.reservation_id)
    )
    for reservation_id in running.all():
        yield book.hold_of(ReservationId(reservation_id))
