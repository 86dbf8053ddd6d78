"""Admission: every budget of the chain agrees, or none is touched."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from governor.account import Balance, Booking
from governor.amounts import Amounts, Unit
from governor.call import Idempotency
from governor.denial import Denied, Shortage
from governor.events import Reserved
from governor.ids import CallId, ReservationId, TurnId
from governor.refusal import (
    exhausted,
    session_denied,
    shortage_of,
    turn_unknown,
    unmeasurable,
)
from governor.reservation import Reservation, ReservationState
from governor.scope import ScopeChain
from governor.session import SessionState
from governor.target import CallKind, CallTarget


@dataclass(frozen=True, slots=True, kw_only=True)
class AdmissionRequest:
    """What a caller wants held before a call starts.

    `estimate` is everything but the turn, which only the ledger can price: the first call
    of a turn pays for it. `session_name` is what the agent calls its session, kept when the
    session is first seen. `unmeasurable` names the units that the backend cannot measure
    and that the rule does not excuse, each with the reason. A hold that `outlives_process`
    is not ended when a process starts anew, only by its time. What `is_free` needs no slot and
    no turn. What `leaves_at_once` is marked as forwarded in the same transaction.
    """

    reservation_id: ReservationId
    call_id: CallId
    target: CallTarget
    chain: ScopeChain
    session_name: str
    estimate: Amounts
    turn: TurnId | None
    now_ms: int
    expires_at_ms: int
    unmeasurable: Mapping[Unit, str] = field(default_factory=dict)
    idempotency: Idempotency | None = None
    outlives_process: bool = False
    is_free: bool = False
    leaves_at_once: bool = False


def admit(
    request: AdmissionRequest,
    balances: Sequence[Balance],
    *,
    is_turn_new: bool,
    session: SessionState = SessionState.OPEN,
) -> Reserved | Denied:
    """Return a reservation on every one of `balances`, or why there is none.

    `balances` are all accounts of the request's chain, as they stand inside the
    transaction that will store the decision.
    """
    not_open = session_denied(session)
    if not_open is not None:
        return not_open
    amount = request.estimate.plus(_ONE_TURN) if is_turn_new else request.estimate
    blind = _blind(request, balances)
    if blind and (denied := _blind_denial(request, blind)) is not None:
        return denied
    wanted, now_ms = amount.by_unit, request.now_ms
    # A debt is what one call may make; carved out, it would be as many as the carve has room for.
    on_credit = request.target.kind is not CallKind.SUB_SESSION
    # A slot is taken by every call, also by one that states no tool call, as a model's.
    slots = None if request.is_free else 1

    postings, held = [], []
    # What an observing budget cannot count it would have denied.
    short = [(balance, wanted.get(balance.key.unit, 0)) for balance in blind]
    for balance in balances:
        account, settled, reserved, _ = balance
        posting = account.posting
        key, booking, _, _ = posting
        needed = slots if booking is _SLOT else wanted.get(key[2])
        # What is overrun denies even a call that costs nothing, if the call is of its kind. The
        # sum is checked first because it spares nearly every account the whole question.
        if (
            needed is not None
            and (settled + reserved + needed > account.limit or booking is _RATE)
            and not balance.affords(needed, now_ms, on_credit=on_credit)
        ):
            short.append((balance, needed))
        postings.append(posting)
        held.append(needed or 0)
    would_deny: tuple[Shortage, ...] = ()
    if short:
        enforced = [one for one in short if one[0].account.is_enforced]
        if enforced:
            return exhausted(enforced, now_ms)
        would_deny = tuple(shortage_of(balance, needed, now_ms) for balance, needed in short)

    return Reserved(
        reservation=Reservation(
            reservation_id=request.reservation_id,
            call_id=request.call_id,
            chain=request.chain,
            state=_FORWARDED if request.leaves_at_once else _HELD,
            postings=tuple(postings),
            held=tuple(held),
            expires_at_ms=request.expires_at_ms,
        ),
        amount=amount,
        would_deny=would_deny,
    )


# Read once: looking a member up in its enumeration costs more than comparing with it.
_HELD, _FORWARDED = ReservationState.HELD, ReservationState.FORWARDED
_SLOT, _RATE, _TURNS = Booking.SLOT, Booking.RATE, Unit.TURNS
_ONE_TURN = Amounts({Unit.TURNS: 1})


def _blind(request: AdmissionRequest, balances: Sequence[Balance]) -> Sequence[Balance]:
    """Return the budgets that stand on a unit that nobody can count for this call."""
    unmeasurable_units, is_turn_known = request.unmeasurable, _is_turn_known(request)
    if is_turn_known and not unmeasurable_units:
        return ()
    return [
        balance
        for balance in balances
        if (unit := balance[0].key[2]) in unmeasurable_units
        or (unit is _TURNS and not is_turn_known)
    ]


def _blind_denial(request: AdmissionRequest, blind: Sequence[Balance]) -> Denied | None:
    """Return the denial of the first budget that enforces what nobody can count."""
    balance = next((one for one in blind if one.account.is_enforced), None)
    if balance is None:
        return None
    unit = balance.key.unit
    if unit is _TURNS and not _is_turn_known(request):
        return turn_unknown(shortage_of(balance, 1, request.now_ms))
    short = shortage_of(balance, request.estimate.of(unit), request.now_ms)
    return unmeasurable(short, request.unmeasurable[unit])


def _is_turn_known(request: AdmissionRequest) -> bool:
    # A carve says how many turns; only a call has to say which, and one that pays for it.
    is_needless = request.is_free or request.target.kind is CallKind.SUB_SESSION
    return request.turn is not None or is_needless
