"""What a budget would have denied: calls of the past, admitted once more by the same rule.

The replay is of one budget alone. Every call comes as it came then, whatever was denied before
it: what an agent would have done instead, nobody knows.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from heapq import heappop, heappush

from governor import settlement
from governor.account import Account, Balance, BalanceKey, Booking
from governor.admission import AdmissionRequest, admit
from governor.amounts import Amounts, Unit
from governor.budget import Budget, BudgetKind, Mode, accounts_for
from governor.denial import Denied
from governor.events import Reserved
from governor.ids import CallId, ReservationId, SessionId, TurnId
from governor.rate import RateHold
from governor.reservation import Reservation, ReservationLine
from governor.scope import ScopeChain
from governor.target import CallTarget
from governor.usage import Usage
from governor.window import Fixed, Lifetime

EXAMPLES_MAX = 20
# Subjects and names are counted up to so many; those that come later are counted as one.
COUNTED_MAX = 1_000
OTHERS = "(others)"
_DAY_MS = 24 * 60 * 60 * 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class PastCall:
    """A call that ended, as its record has it.

    `estimate` is what was held for it, `charged` what it cost in the end. One that `was_denied`
    then used nothing, so nobody knows what it would have used. One that `is_free` by its rule
    held nothing at all. Units that the budget does not limit may be left out of both.
    """

    call_id: CallId
    target: CallTarget
    chain: ScopeChain
    turn: TurnId | None
    started_at_ms: int
    ended_at_ms: int
    estimate: Amounts
    charged: Amounts
    unmeasured: frozenset[Unit] = frozenset()
    was_denied: bool = False
    is_free: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class WouldDeny:
    """A call that the budget would have denied, and how it stood then."""

    call_id: CallId
    name: str
    subject: str
    at_ms: int
    unit: Unit
    limit: int
    used: int
    requested: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Tally:
    """How many calls of a subject, of a name or of a day there were, and were denied."""

    name: str
    calls: int
    denied: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Peak:
    """How far one unit of the budget was used at the most, charged and held, by its subject."""

    unit: Unit
    limit: int
    used: int
    subject: str


@dataclass(slots=True)
class _Stand:
    settled: int = 0
    reserved: int = 0


@dataclass(slots=True, order=True)
class _Running:
    ended_at_ms: int
    number: int
    call: PastCall = field(compare=False)
    reservation: Reservation = field(compare=False)
    accounts: tuple[Account, ...] = field(compare=False)


def warm_up_ms(budget: Budget, from_ms: int) -> int:
    """Return since when use counts at `from_ms`: a replay begins there to begin truly."""
    if budget.kind is BudgetKind.RATE:
        assert isinstance(budget.window, Fixed), "a rate has a fixed window"
        most = max((budget.burst or limit) / limit for _, limit in budget.limits)
        return max(0, from_ms - int(most * budget.window.length_ms) - 1)
    older_ms = budget.window.older_ms(from_ms)
    return max(0, older_ms[0] if older_ms else budget.window.start_ms(from_ms))


def never_forgets(budget: Budget) -> bool:
    """Tell whether everything counts that was ever used: then what no record tells is missing."""
    return budget.kind is BudgetKind.ALLOWANCE and isinstance(budget.window, Lifetime)


class BudgetReplay:
    """Admits calls of the past against one budget; its figures are of those since `from_ms`.

    A budget that only observes is replayed as if it enforced.
    """

    def __init__(self, budget: Budget, *, from_ms: int) -> None:
        """Start with nothing used."""
        self._budget = replace(budget, mode=Mode.ENFORCE)
        self._from_ms = from_ms
        self._stands: dict[BalanceKey, _Stand] = {}
        self._running: list[_Running] = []
        self._turns: set[tuple[SessionId, TurnId]] = set()
        self._taken = 0
        self._by_subject: Counter[tuple[str, bool]] = Counter()
        self._by_name: Counter[tuple[str, bool]] = Counter()
        self._by_day: Counter[tuple[str, bool]] = Counter()
        self._peaks: dict[Unit, Peak] = {}
        self.calls = 0
        self.denied = 0
        self.denied_cost_microusd = 0
        self.first_denied_at_ms: int | None = None
        self.examples: list[WouldDeny] = []
        self.denied_then = 0
        self.without_estimate = 0
        self.unmeasured = 0
        self.in_sub_sessions = 0

    @property
    def by_subject(self) -> tuple[Tally, ...]:
        """Return the calls of each subject, those with most denials first."""
        return _tallies(self._by_subject)

    @property
    def by_name(self) -> tuple[Tally, ...]:
        """Return the calls of each tool or model, those with most denials first."""
        return _tallies(self._by_name)

    @property
    def by_day(self) -> tuple[Tally, ...]:
        """Return the calls of each day, named by the epoch milliseconds of its midnight in UTC."""
        return tuple(sorted(_tallies(self._by_day), key=lambda one: int(one.name)))

    @property
    def peaks(self) -> tuple[Peak, ...]:
        """Return how far each unit was used at the most."""
        return tuple(self._peaks.values())

    def governs(self, call: PastCall) -> bool:
        """Tell whether the budget is for a call."""
        return self._budget.governs(call.chain) and self._budget.match.covers(call.target)

    def take(self, call: PastCall) -> bool:
        """Admit one call, the next by its start; tell whether the budget would have denied it."""
        self._end_until(call.started_at_ms)
        if not self.governs(call):
            return False
        counts = call.started_at_ms >= self._from_ms
        if call.was_denied:
            self.denied_then += counts
            return False
        decision = self._admitted(call)
        is_denied = isinstance(decision, Denied)
        if counts:
            self._count(call, is_denied=is_denied)
            if isinstance(decision, Denied):
                self._note(call, decision)
        return is_denied

    def _admitted(self, call: PastCall) -> Reserved | Denied:
        accounts = accounts_for((self._budget,), call.chain, call.target, call.started_at_ms)
        place = None if call.turn is None else (call.chain.session, call.turn)
        balances = [self._balance(account) for account in accounts]
        decision = admit(
            _request(call, self._taken),
            balances,
            is_turn_new=place is not None and place not in self._turns,
        )
        self._taken += 1
        if isinstance(decision, Reserved):
            if place is not None:
                self._turns.add(place)
            self._hold(call, decision.reservation, balances)
        return decision

    def _balance(self, account: Account) -> Balance:
        parts = (self._stands.get(key, _Stand()) for key in account.keys)
        return Balance.over(account, ((part.settled, part.reserved) for part in parts))

    def _hold(self, call: PastCall, reservation: Reservation, balances: Sequence[Balance]) -> None:
        counts = call.started_at_ms >= self._from_ms
        for balance, line in zip(balances, reservation.lines, strict=True):
            account = balance.account
            stand = self._stands.setdefault(line.key, _Stand())
            if account.rate is None:
                stand.reserved += line.amount
                if counts:
                    self._raise_peak(account, balance.settled + balance.reserved + line.amount)
            else:
                stand.settled = account.rate.after(stand.settled, line.amount, call.started_at_ms)
        accounts = tuple(balance.account for balance in balances)
        running = _Running(call.ended_at_ms, self._taken, call, reservation, accounts)
        heappush(self._running, running)

    def _end_until(self, now_ms: int) -> None:
        while self._running and self._running[0].ended_at_ms <= now_ms:
            self._end(heappop(self._running))

    def _end(self, running: _Running) -> None:
        call = running.call
        ended = settlement.settle(running.reservation, Usage(measured=call.charged))
        elapsed_ms = call.ended_at_ms - call.started_at_ms
        figures = zip(running.accounts, ended.freed, ended.charged, strict=True)
        for account, freed, charged in figures:
            posting = account.posting
            stand = self._stands[posting.key]
            if posting.booking is Booking.RATE:
                hold: RateHold = ReservationLine(posting, freed).rate_hold
                stand.settled = hold.corrected(
                    stand.settled, charged=charged, elapsed_ms=elapsed_ms
                )
            else:
                stand.reserved -= freed
                stand.settled += charged
                if charged > freed and call.started_at_ms >= self._from_ms:
                    balance = self._balance(account)
                    self._raise_peak(account, balance.settled + balance.reserved)

    def _raise_peak(self, account: Account, used: int) -> None:
        unit = account.key.unit
        known = self._peaks.get(unit)
        if known is None or used > known.used:
            self._peaks[unit] = Peak(
                unit=unit, limit=account.limit, used=used, subject=account.key.subject
            )

    def _count(self, call: PastCall, *, is_denied: bool) -> None:
        self.calls += 1
        subject = self._subject(call)
        for counter, name in (
            (self._by_subject, subject),
            (self._by_name, call.target.name),
            (self._by_day, str(call.started_at_ms - call.started_at_ms % _DAY_MS)),
        ):
            is_known = (name, True) in counter or (name, False) in counter
            counted = name if is_known or len(counter) < COUNTED_MAX else OTHERS
            counter[counted, is_denied] += 1
        limited = [unit for unit, _ in self._budget.limits if unit is not Unit.TURNS]
        if limited and self._budget.kind is not BudgetKind.CONCURRENCY:
            is_estimated = any(unit in call.estimate for unit in limited)
            self.without_estimate += not is_estimated and any(map(call.charged.of, limited))
        self.in_sub_sessions += bool(call.chain.ancestors)
        self.unmeasured += any(unit in call.unmeasured for unit in limited)

    def _note(self, call: PastCall, denied: Denied) -> None:
        self.denied += 1
        self.denied_cost_microusd += call.charged.of(Unit.COST_MICROUSD)
        if self.first_denied_at_ms is None:
            self.first_denied_at_ms = call.started_at_ms
        short = denied.shortage
        if short is None or len(self.examples) >= EXAMPLES_MAX:
            return
        self.examples.append(
            WouldDeny(
                call_id=call.call_id,
                name=call.target.name,
                subject=self._subject(call),
                at_ms=call.started_at_ms,
                unit=short.unit,
                limit=short.limit,
                used=short.used + short.reserved,
                requested=short.requested,
            )
        )

    def _subject(self, call: PastCall) -> str:
        return self._budget.subject or call.chain.subject_of(self._budget.scope)


def _request(call: PastCall, number: int) -> AdmissionRequest:
    return AdmissionRequest(
        reservation_id=ReservationId(f"preview-{number}"),
        call_id=call.call_id,
        target=call.target,
        chain=call.chain,
        session_name="",
        # Whether it opened a turn is decided anew: it may be that the one which did is denied.
        estimate=Amounts({unit: held for unit, held in call.estimate if unit is not Unit.TURNS}),
        turn=call.turn,
        now_ms=call.started_at_ms,
        expires_at_ms=call.ended_at_ms,
        is_free=call.is_free,
    )


def _tallies(counter: Counter[tuple[str, bool]]) -> tuple[Tally, ...]:
    names = dict.fromkeys(name for name, _ in counter)
    found = [
        Tally(
            name=name,
            calls=counter[name, True] + counter[name, False],
            denied=counter[name, True],
        )
        for name in names
    ]
    return tuple(sorted(found, key=lambda one: (-one.denied, -one.calls, one.name)))


def in_order(calls: list[PastCall]) -> Iterator[PastCall]:
    """Yield calls by their start, as a replay takes them."""
    yield from sorted(calls, key=_place)


class Lineup:
    """Calls that come by their end, handed on by their start.

    One that ran longer than the calls behind it are held back comes too late for its place.
    """

    def __init__(self, *, held_back_ms: int, held_max: int) -> None:
        """Bound how long, and how many, calls are held back for those that began before them."""
        self._held_back_ms = held_back_ms
        self._held_max = held_max
        self._waiting: list[tuple[tuple[int, int, str], PastCall]] = []
        self._last_ms = 0
        self.late = 0

    def add(self, call: PastCall) -> None:
        """Take the next call by its end."""
        heappush(self._waiting, (_place(call), call))

    def due(self, *, ended_until_ms: int | None) -> list[PastCall]:
        """Return the calls that are due once all that ended until then were added; None: all."""
        found: list[PastCall] = []
        while self._waiting:
            first = self._waiting[0][1]
            is_due = ended_until_ms is None or (
                first.started_at_ms <= ended_until_ms - self._held_back_ms
                or len(self._waiting) > self._held_max
            )
            if not is_due:
                break
            heappop(self._waiting)
            self.late += first.started_at_ms < self._last_ms
            self._last_ms = max(self._last_ms, first.started_at_ms)
            found.append(first)
        return found


def _place(call: PastCall) -> tuple[int, int, str]:
    return call.started_at_ms, call.ended_at_ms, call.call_id
