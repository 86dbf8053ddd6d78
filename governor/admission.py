"""Admission: every budget of the chain agrees, or none is touched."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from governor.amounts import Amounts, Unit
from governor.budget import Balance
from governor.call import Idempotency
from governor.denial import DenialReason, Denied, Remedy, RemedyAction, Shortage
from governor.events import Reserved
from governor.ids import CallId, ReservationId, TurnId
from governor.reservation import Reservation, ReservationLine, ReservationState
from governor.scope import ScopeChain, ScopeKind

_NARROWEST_FIRST = {ScopeKind.SESSION: 0, ScopeKind.AGENT: 1, ScopeKind.TENANT: 2}


@dataclass(frozen=True, slots=True, kw_only=True)
class AdmissionRequest:
    """What a caller wants held before a call starts.

    `estimate` is everything but the turn, which only the ledger can price: the first call
    of a turn pays for it. `session_name` is what the agent calls its session, kept when the
    session is first seen. `unmeasurable` names the units that the backend cannot measure
    and that the rule does not excuse, each with the reason.
    """

    reservation_id: ReservationId
    call_id: CallId
    name: str
    chain: ScopeChain
    session_name: str
    estimate: Amounts
    turn: TurnId | None
    now_ms: int
    expires_at_ms: int
    unmeasurable: Mapping[Unit, str] = field(default_factory=dict)
    idempotency: Idempotency | None = None


def admit(
    request: AdmissionRequest,
    balances: Iterable[Balance],
    *,
    is_turn_new: bool,
    is_session_open: bool = True,
) -> Reserved | Denied:
    """Return a reservation on every one of `balances`, or why there is none.

    `balances` are all accounts of the request's chain, as they stand inside the
    transaction that will store the decision.
    """
    if not is_session_open:
        return _session_closed()
    accounts = tuple(balances)
    wanted = request.estimate.plus(Amounts({Unit.TURNS: 1 if is_turn_new else 0}))

    blind = _first_blind(request, accounts)
    if blind is not None:
        return blind
    short = [
        account
        for account in accounts
        if account.key.unit in wanted and not account.affords(wanted.of(account.key.unit))
    ]
    if short:
        return _budget_exhausted(short, wanted, request.now_ms)

    lines = tuple(
        ReservationLine(key=account.key, amount=wanted.of(account.key.unit)) for account in accounts
    )
    return Reserved(
        reservation=Reservation(
            reservation_id=request.reservation_id,
            call_id=request.call_id,
            chain=request.chain,
            state=ReservationState.HELD,
            lines=lines,
            expires_at_ms=request.expires_at_ms,
        ),
        amount=wanted,
        balances=tuple(account.hold(wanted.of(account.key.unit)) for account in accounts),
    )


def _first_blind(request: AdmissionRequest, accounts: tuple[Balance, ...]) -> Denied | None:
    """Return a denial when a budget stands on a unit that nobody can count for this call."""
    for account in accounts:
        unit = account.key.unit
        if unit is Unit.TURNS and request.turn is None:
            return Denied(
                reason=DenialReason.TURN_UNKNOWN,
                shortage=_shortage(account, 1),
                remedy=Remedy(
                    action=RemedyAction.SEND_TURN,
                    text=(
                        "A budget counts turns, and this call does not say which turn it belongs "
                        'to. Send the header Flyball-Turn or _meta["flyball/turn"], or set '
                        "turn_per_call = true in the rule."
                    ),
                ),
            )
        if unit in request.unmeasurable:
            return Denied(
                reason=DenialReason.UNIT_UNMEASURABLE,
                shortage=_shortage(account, request.estimate.of(unit)),
                remedy=Remedy(
                    action=RemedyAction.ASK_ADMINISTRATOR,
                    text=(
                        f"A budget limits {unit}, which cannot be measured for this call "
                        f"({request.unmeasurable[unit]}). An administrator can set "
                        'isolation = "best_effort" in the rule to accept the estimate instead.'
                    ),
                ),
            )
    return None


def _shortage(account: Balance, requested: int) -> Shortage:
    return Shortage(
        budget_id=account.key.budget_id,
        unit=account.key.unit,
        limit=account.limit,
        used=account.settled,
        reserved=account.reserved,
        requested=requested,
        resets_at_ms=account.resets_at_ms,
    )


def _budget_exhausted(short: list[Balance], wanted: Amounts, now_ms: int) -> Denied:
    """Return the denial for `short`, led by the narrowest scope."""
    ordered = sorted(
        short,
        key=lambda account: (
            _NARROWEST_FIRST[account.scope],
            account.key.budget_id,
            account.key.unit,
        ),
    )
    shortages = [_shortage(account, wanted.of(account.key.unit)) for account in ordered]
    first = ordered[0]
    # Waiting helps only if every short budget comes back large enough; the last one decides.
    resets = [
        account.resets_at_ms if wanted.of(account.key.unit) <= account.limit else None
        for account in ordered
    ]
    known = [at for at in resets if at is not None]
    retry_after_ms = max(known) - now_ms if len(known) == len(resets) else None
    return Denied(
        reason=DenialReason.BUDGET_EXHAUSTED,
        shortage=shortages[0],
        also=tuple(shortages[1:]),
        retry_after_ms=retry_after_ms,
        remedy=_remedy(first, wanted.of(first.key.unit), retry_after_ms),
    )


def _remedy(account: Balance, requested: int, retry_after_ms: int | None) -> Remedy:
    unit = account.key.unit
    left = max(0, account.remaining)
    head = (
        f"The {account.scope} budget {account.key.budget_id} has {left} of {account.limit} {unit} "
        f"left and this call needs {requested}."
    )
    if account.reserved > 0 and account.limit - account.settled >= requested:
        return Remedy(
            action=RemedyAction.RETRY_LATER,
            text=f"{head} Calls still running hold {account.reserved}; try again when they end.",
        )
    if retry_after_ms is not None:
        return Remedy(
            action=RemedyAction.RETRY_LATER,
            text=f"{head} It resets in {-(-retry_after_ms // 1000)} s; try again then.",
        )
    if left > 0:
        return Remedy(
            action=RemedyAction.REQUEST_LESS,
            text=f"{head} Ask for less, or ask an administrator to raise the budget.",
        )
    return Remedy(
        action=RemedyAction.FINISH_WITH_WHAT_YOU_HAVE,
        text=f"{head} Finish with what you have, or ask an administrator to raise the budget.",
    )


def _session_closed() -> Denied:
    return Denied(
        reason=DenialReason.SESSION_CLOSED,
        remedy=Remedy(
            action=RemedyAction.NEW_SESSION,
            text="This session was ended by an administrator. Stop; start a new session to go on.",
        ),
    )
