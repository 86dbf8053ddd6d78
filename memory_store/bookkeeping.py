"""One transaction of the ledger: decisions of the governor, booked on accounts in memory.

It belongs to the writer's thread. Nothing is written before `flush`, and a decision that
raises has changed nothing, so pieces of one transaction need no savepoints of their own.
"""

from collections.abc import Collection

import psycopg
from sqlalchemy import Connection

from governor import settlement
from governor.account import Account, Balance
from governor.admission import AdmissionRequest, admit
from governor.amounts import NOTHING, Amounts
from governor.call import CallRecord
from governor.denial import Denied
from governor.events import (
    Ended,
    Expired,
    KeyReused,
    Released,
    Replayed,
    Reserved,
    Settled,
    Warned,
)
from governor.ids import ReservationId, TenantId
from governor.refusal import clock_stepped_back, session_denied
from governor.reservation import ReservationState
from governor.usage import Usage
from governor.window import CLOCK_BACK_MS_MAX
from memory_store import notice_rows
from memory_store.call_rows import call_row, insert_calls
from memory_store.chart import Chart, Charts
from memory_store.crash_points import reached
from memory_store.engine import driver_of
from memory_store.errors import LedgerBreachError, UnknownReservationError
from memory_store.journal import Journal
from memory_store.live_accounts import LiveAccount, LiveAccounts
from memory_store.live_budgets import LiveBudgets
from memory_store.live_holds import LiveHold, LiveHolds
from memory_store.live_sessions import LiveSession, LiveSessions
from memory_store.records import (
    charged_when_expired,
    charged_when_released,
    charged_when_settled,
    expired_record,
)
from memory_store.statement import Value, fetched
from memory_store.turns import About, Turns, tenants_of

# A named tuple is made twice as fast as a tuple as by its name; there is one for each account.
_make = tuple.__new__


class Bookkeeping:
    """Accounts, holds, sessions and the journal, as one transaction sees and changes them."""

    def __init__(self, live: LiveBudgets) -> None:
        self.sessions = LiveSessions()
        self.accounts = LiveAccounts()
        self.charts = Charts()
        self.holds = LiveHolds()
        self.journal = Journal()
        self.turns = Turns()
        self.breach: str | None = None
        self._live = live
        self._calls: list[dict[str, Value]] = []
        self._notices: list[dict[str, Value]] = []
        self._latest_ms = 0
        self._met_others = False

    def begin(self, connection: Connection) -> None:
        """Work on `connection` from now on."""
        self.connection = connection
        self.driver = driver_of(connection)

    def take_turns(self, abouts: Collection[About]) -> None:
        """Have the books of those tenants to this transaction.

        Only where other sidecars write to the same database. What the last turn changed is
        read in the same round trip: this one is likely to change it again.
        """
        driver = self.driver
        assert isinstance(driver, psycopg.Connection), "only a server's database is shared"
        tenants = {tenant for about in abouts if (tenant := self._tenant_of(about)) is not None}
        tenants.update(tenants_of(driver, [one for one in abouts if self._tenant_of(one) is None]))
        self.turns.make(driver, tenants)
        with driver.pipeline():
            taken = self.turns.asked(driver, tenants)
            # Whoever was met at the last turn has probably had one since.
            likely = self.accounts.last_stored if self._met_others else ()
            accounts = self.accounts.asked(driver, likely)
            heads = self.journal.asked(driver, tenants if self._met_others else ())
        stale = self.turns.take(fetched(taken))
        if stale.standing:
            self.sessions.forget()
            self._live.forget_all()
            self.holds.doubt()
        if stale.bookings:
            self.accounts.doubt()
            self.holds.doubt_others()
            self.journal.forget()
            self.accounts.keep(fetched(accounts))
            self.journal.keep(fetched(heads))
        self._met_others = stale.bookings

    def has_turn_of(self, about: About) -> bool:
        """Tell whether this transaction has the turn that such a piece needs."""
        tenant = self._tenant_of(about)
        return tenant is not None and self.turns.has(tenant)

    def read_for(self, abouts: Collection[About]) -> None:
        """Read together what those pieces are going to need, after their turns are taken."""
        asked = [about.request for about in abouts if about.request is not None]
        held = [about.reservation for about in abouts if about.reservation is not None]
        self.holds.fetch(self.driver, self.accounts, held)
        described = [
            account
            for request in asked
            if (session := self._session_of(request)) is not None
            for account in self.accounts_of(request, session)
        ]
        keys = [key for account in described for key in (account.key, *account.older)]
        self.accounts.fetch(self.driver, keys)

    def count_turns(self) -> None:
        """Tell the others that there was a turn; the last thing before COMMIT."""
        for tenant in self.holds.moved_others():
            self.turns.move(tenant)
        self.turns.count(self.driver)

    def forget(self) -> None:
        """Read everything again: what was remembered may never have been stored."""
        self.turns.forget()
        self.sessions.forget()
        self.accounts.forget()
        self.charts.forget()
        self.holds.forget()
        self.journal.forget()
        self._live.forget_all()
        self._calls.clear()
        self._notices.clear()

    def trim(self) -> None:
        """Keep what is remembered within its bounds; to be called between transactions."""
        self.sessions.trim()
        self.holds.trim()
        if self.accounts.trim():
            self.charts.forget()
            self.holds.doubt()

    def flush(self) -> None:
        """Write what was decided.

        Raises:
            AlreadyExistsError: the id of a reservation or of a call was used before.
        """
        driver = self.driver
        self.sessions.flush(driver)
        reached("sessions_written")
        self.holds.flush(driver)
        reached("reservations_written")
        self.accounts.flush(driver)
        reached("balances_written")
        self.journal.flush(driver)
        if self._calls:
            insert_calls(driver, self._calls)
            self._calls.clear()
        if self._notices:
            notice_rows.insert_notices(driver, self._notices)
            self._notices.clear()
        reached("journal_written")

    def admit(self, request: AdmissionRequest) -> Reserved | Denied | Replayed | KeyReused:
        """Hold the estimate on every budget of the chain, or say why not."""
        refused = self.refused(now_ms=request.now_ms)
        if refused is not None:
            return refused
        session = self.sessions.seen(self.driver, self.accounts, request)
        if request.idempotency is not None:
            known = self.holds.under_key(
                self.driver, self.accounts, request.chain.agent, request.idempotency.key
            )
            if known is not None:
                original, payload_hash = known
                is_same = payload_hash == request.idempotency.payload_hash
                return Replayed(original=original) if is_same else KeyReused(original=original)
        described = self.accounts_of(request, session)
        place = (request.chain.session, request.target)
        chart = self.charts.at(place, described, self.accounts, self.driver)
        return self.hold(request, session, chart)

    def refused(self, *, now_ms: int) -> Denied | None:
        """Return why nothing at all is held at `now_ms`, None if something may be.

        Raises:
            LedgerBreachError: the books do not add up.
        """
        if self.breach is not None:
            raise LedgerBreachError(self.breach)
        back_ms = self._latest_ms - now_ms
        return clock_stepped_back(back_ms=back_ms) if back_ms > CLOCK_BACK_MS_MAX else None

    def forward(self, reservation_id: ReservationId) -> Denied | None:
        """Mark the hold before the first upstream byte, unless its session is open no more."""
        live = self.hold_of(reservation_id)
        forwarded = settlement.forward(live.hold.reservation)
        session = self.sessions.get(self.driver, self.accounts, forwarded.chain.session)
        assert session is not None, "a hold stands in a session that was seen"
        denied = session_denied(session.state)
        if denied is None:
            self.holds.move(live, forwarded, ended_at_ms=None)
        return denied

    def settle(self, reservation_id: ReservationId, usage: Usage, record: CallRecord) -> Settled:
        """Charge what was used and free the rest."""
        live = self.hold_of(reservation_id)
        charged = charged_when_settled(live.hold.amount, usage)
        settled = settlement.settle(live.hold.reservation, usage)
        warned = self._end(live, settled, record, charged)
        return Settled(
            reservation=settled.reservation,
            freed=settled.freed,
            charged=settled.charged,
            standing=self._balances(live.chart),
            warned=warned,
        )

    def release(self, reservation_id: ReservationId, record: CallRecord) -> Released:
        """Free what was held for a call that provably consumed nothing."""
        live = self.hold_of(reservation_id)
        charged = charged_when_released(live.hold.amount)
        released = settlement.release(live.hold.reservation)
        self._end(live, released, record, charged)
        self.flush()
        self.holds.free_key(self.driver, reservation_id)
        return released

    def expire(self, reservation_id: ReservationId, *, now_ms: int) -> Expired:
        """End a hold that nobody ended."""
        live = self.hold_of(reservation_id)
        was = live.hold
        expired = settlement.expire(was.reservation)
        record = expired_record(was, now_ms=now_ms)
        self._end(live, expired, record, charged_when_expired(was))
        if was.reservation.state is ReservationState.HELD:
            self.flush()
            self.holds.free_key(self.driver, reservation_id)
        return expired

    def record(self, record: CallRecord) -> None:
        """Keep the record of a call that was not admitted and so was charged nothing."""
        self._calls.append(call_row(record, NOTHING))

    def hold_of(self, reservation_id: ReservationId) -> LiveHold:
        """Return the reservation of that id.

        Raises:
            UnknownReservationError: there is none.
        """
        live = self.holds.get(self.driver, self.accounts, reservation_id)
        if live is None:
            message = f"there is no reservation {reservation_id}"
            raise UnknownReservationError(message)
        return live

    def accounts_of(self, request: AdmissionRequest, session: LiveSession) -> tuple[Account, ...]:
        """Return every account that `request` touches."""
        return self._live.accounts(self.connection, session, request.target, request.now_ms)

    def hold(
        self, request: AdmissionRequest, session: LiveSession, chart: Chart
    ) -> Reserved | Denied:
        """Hold the estimate on every account of `chart`, or on none."""
        self._latest_ms = max(self._latest_ms, request.now_ms)
        decision = admit(
            request,
            self._balances(chart),
            is_turn_new=self.holds.is_turn_new(self.driver, request.chain.session, request.turn),
            session=session.state,
        )
        if isinstance(decision, Denied):
            return decision
        reservation = decision.reservation
        self.accounts.hold(chart.accounts, chart.described, reservation.held, request.now_ms)
        lines_text = chart.held_text(reservation.held)
        self.holds.insert(request, decision, chart, lines_text)
        self.journal.add(
            request.chain.tenant,
            f"held {reservation.reservation_id} {lines_text}",
            at_ms=request.now_ms,
        )
        for shortage in decision.would_deny:
            self._notices.append(notice_rows.would_deny(request, shortage))
        return decision

    def _tenant_of(self, about: About) -> TenantId | None:
        """Return whose books such a piece needs, if that is known without asking."""
        if about.sessions:
            return None
        if about.tenant is None and about.reservation is not None:
            return self.holds.tenant_of(about.reservation)
        return about.tenant

    def _session_of(self, request: AdmissionRequest) -> LiveSession | None:
        session = self.sessions.get(self.driver, self.accounts, request.chain.session)
        is_theirs = session is not None and session.tenant == request.chain.tenant
        return session if is_theirs else None

    def _end(
        self, live: LiveHold, ended: Ended, record: CallRecord, charged: Amounts
    ) -> tuple[Warned, ...]:
        reservation = ended.reservation
        assert record.call_id == reservation.call_id, "the record is of another call"
        self.holds.move(live, reservation, ended_at_ms=record.ended_at_ms)
        # What a rate brought back by the latest admission may have passed since, wherever the
        # clock stands now.
        elapsed_ms = max(record.ended_at_ms, self._latest_ms) - live.hold.created_at_ms
        self.accounts.end(live.chart.accounts, ended, elapsed_ms=elapsed_ms)
        if live.chart.draws:
            self._draw_down(live, ended)
        self.journal.add(
            reservation.chain.tenant,
            f"{reservation.state.value} {reservation.reservation_id} "
            + live.chart.ended_text(ended.freed, ended.charged),
            at_ms=record.ended_at_ms,
        )
        self._calls.append(call_row(record, charged))
        return self._warn(live.chart, ended, record) if live.chart.watched else ()

    def _draw_down(self, live: LiveHold, ended: Ended) -> None:
        """Take what was drawn out of the carves that held it."""
        by_carve: dict[int, dict[LiveAccount, int]] = {}
        for place, depth in live.chart.draws:
            if ended.freed[place]:
                taken = by_carve.setdefault(depth, {})
                taken[live.chart.accounts[place]] = ended.freed[place]
        if not by_carve:
            return
        session = self.sessions.get(self.driver, self.accounts, ended.reservation.chain.session)
        assert session is not None, "a hold stands in a session that was seen"
        for depth, taken in by_carve.items():
            carve = self.hold_of(session.carve_reservations[depth - 1])
            held = zip(carve.chart.accounts, carve.hold.reservation.held, strict=True)
            self.holds.reline(
                carve, tuple([amount - taken.get(account, 0) for account, amount in held])
            )

    def _balances(self, chart: Chart) -> tuple[Balance, ...]:
        """Return how the accounts of `chart` stand, as far as they are described."""
        return tuple(
            [
                self.accounts.balance(self.driver, account)
                if account.older
                else _make(Balance, (account, live.settled, live.reserved, ()))
                for account, live in zip(chart.described, chart.accounts, strict=False)
            ]
        )

    def _warn(self, chart: Chart, ended: Ended, record: CallRecord) -> tuple[Warned, ...]:
        """Return the thresholds that the charges reached, and note each once."""
        warned: list[Warned] = []
        for place in chart.watched:
            account, charged = chart.described[place], ended.charged[place]
            if not charged:
                continue
            balance = self.accounts.balance(self.driver, account)
            before = balance.settled - charged
            reached_now = [at for at in account.warn_at if before < at <= balance.settled]
            warned += [Warned(balance, at) for at in reached_now]
        self._notices += [notice_rows.threshold(record, one) for one in warned]
        return tuple(warned)
