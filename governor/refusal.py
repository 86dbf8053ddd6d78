"""How a ledger's refusals are put into words."""

from collections.abc import Sequence

from governor.account import Account, Balance, Booking
from governor.denial import DenialReason, Denied, Remedy, RemedyAction, Shortage
from governor.scope import ScopeKind
from governor.session import SessionState

_NARROWEST_FIRST = {
    ScopeKind.SUB_SESSION: 0,
    ScopeKind.SESSION: 1,
    ScopeKind.AGENT: 2,
    ScopeKind.TENANT: 3,
}
_REASONS = {
    Booking.SPEND: DenialReason.BUDGET_EXHAUSTED,
    Booking.DRAW: DenialReason.BUDGET_EXHAUSTED,
    Booking.RATE: DenialReason.RATE_EXHAUSTED,
    Booking.SLOT: DenialReason.CONCURRENCY_EXHAUSTED,
}


def turn_unknown(balance: Balance | None = None) -> Denied:
    """Return the denial of a call that does not say which turn it belongs to.

    `balance` is of the budget that counts turns; without one it is the session's limit.
    """
    why = "The turns of this session are limited" if balance is None else "A budget counts turns"
    return Denied(
        reason=DenialReason.TURN_UNKNOWN,
        shortage=None if balance is None else shortage_of(balance, 1),
        remedy=Remedy(
            action=RemedyAction.SEND_TURN,
            text=(
                f"{why}, and this call does not say which turn it belongs to. Send the header "
                'Flyball-Turn or _meta["flyball/turn"], or set turn_per_call = true in the rule.'
            ),
        ),
    )


def unmeasurable(balance: Balance, requested: int, why: str) -> Denied:
    """Return the denial of a call of which a budget's unit cannot be measured."""
    return Denied(
        reason=DenialReason.UNIT_UNMEASURABLE,
        shortage=shortage_of(balance, requested),
        remedy=Remedy(
            action=RemedyAction.ASK_ADMINISTRATOR,
            text=(
                f"A budget limits {balance.key.unit}, which cannot be measured for this call "
                f"({why}). An administrator can set "
                'isolation = "best_effort" in the rule to accept the estimate instead.'
            ),
        ),
    )


def session_denied(state: SessionState) -> Denied | None:
    """Return the denial of a call whose session stands like this; None where it is open."""
    match state:
        case SessionState.OPEN:
            return None
        case SessionState.CLOSED:
            return session_closed()
        case SessionState.FROZEN:
            return session_frozen()


def session_closed() -> Denied:
    """Return the denial of a call in a session that was ended."""
    return Denied(
        reason=DenialReason.SESSION_CLOSED,
        remedy=Remedy(
            action=RemedyAction.NEW_SESSION,
            text="This session was ended by an administrator. Stop; start a new session to go on.",
        ),
    )


def session_frozen() -> Denied:
    """Return the denial of a call in a session that is paused."""
    return Denied(
        reason=DenialReason.SESSION_FROZEN,
        remedy=Remedy(
            action=RemedyAction.ASK_ADMINISTRATOR,
            text=(
                "This session is paused. Stop; an administrator can resume it, and nothing "
                "that was begun is lost."
            ),
        ),
    )


def clock_stepped_back(*, back_ms: int) -> Denied:
    """Return the denial while the host's clock stands before what was booked already."""
    return Denied(
        reason=DenialReason.CLOCK_STEPPED_BACK,
        retry_after_ms=back_ms,
        remedy=Remedy(
            action=RemedyAction.RETRY_LATER,
            text=(
                f"now_ms: the clock of the host stands {-(-back_ms // 1000)} s before the last "
                "admission. Try again when it has caught up; an administrator who knows that "
                "it is right now restarts Flyball."
            ),
        ),
    )


def shortage_of(balance: Balance, requested: int) -> Shortage:
    """Return how an account falls short of `requested`."""
    account = balance.account
    is_rate = account.rate is not None
    return Shortage(
        budget_id=account.key.budget_id,
        unit=account.key.unit,
        limit=account.limit,
        # A rate has no use that adds up: what passed has already begun to come back.
        used=0 if is_rate else balance.settled,
        reserved=balance.reserved,
        requested=requested,
        resets_at_ms=balance.fits_at_ms(requested),
    )


def exhausted(short: Sequence[tuple[Balance, int]], now_ms: int) -> Denied:
    """Return the denial for what is `short`, led by the narrowest scope."""
    ordered = sorted(
        short,
        key=lambda one: (_NARROWEST_FIRST[one[0].account.scope], one[0].key.budget_id, one[0].key),
    )
    shortages = [shortage_of(balance, needed) for balance, needed in ordered]
    first, needed = ordered[0]
    # Waiting helps only if every short budget comes back large enough; the last one decides.
    waits = [_wait_ms(balance, amount, now_ms) for balance, amount in ordered]
    known = [wait for wait in waits if wait is not None]
    retry_after_ms = max(known) if len(known) == len(waits) else None
    return Denied(
        reason=_REASONS[first.account.booking],
        shortage=shortages[0],
        also=tuple(shortages[1:]),
        retry_after_ms=retry_after_ms,
        remedy=_remedy(first, needed, retry_after_ms),
    )


def _wait_ms(balance: Balance, needed: int, now_ms: int) -> int | None:
    account = balance.account
    if account.rate is not None:
        return account.rate.wait_ms(balance.settled, needed, now_ms)
    fits_at_ms = balance.fits_at_ms(needed)
    if fits_at_ms is None or needed > account.limit:
        return None
    return fits_at_ms - now_ms


def _remedy(balance: Balance, requested: int, retry_after_ms: int | None) -> Remedy:
    account = balance.account
    if account.booking is Booking.SLOT:
        return Remedy(
            action=RemedyAction.RETRY_LATER,
            text=(
                f"{balance.reserved} calls run under {account.key.budget_id}, which allows "
                f"{account.limit} at once; try again when one ends."
            ),
        )
    if account.rate is not None and retry_after_ms is not None:
        return Remedy(
            action=RemedyAction.RETRY_LATER,
            text=(
                f"{account.key.budget_id} lets {account.limit} {account.key.unit} pass in its "
                f"time; try again in {-(-retry_after_ms // 1000)} s."
            ),
        )
    return _allowance_remedy(balance, requested, retry_after_ms)


def _allowance_remedy(balance: Balance, requested: int, retry_after_ms: int | None) -> Remedy:
    account = balance.account
    left = 0 if account.rate is not None else max(0, balance.remaining)
    head = (
        f"The {account.scope} budget {account.key.budget_id} has {left} of {account.limit} "
        f"{account.key.unit} left and this call needs {requested}."
    )
    if balance.reserved > 0 and account.limit - balance.settled >= requested:
        return Remedy(
            action=RemedyAction.RETRY_LATER,
            text=f"{head} Calls still running hold {balance.reserved}; try again when they end.",
        )
    if retry_after_ms is not None:
        return Remedy(
            action=RemedyAction.RETRY_LATER,
            text=f"{head} {_comes_back(account)} {-(-retry_after_ms // 1000)} s; try again then.",
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


def _comes_back(account: Account) -> str:
    """Return how the sentence begins that says when there is room again."""
    return "Enough of it comes back in" if account.older else "It resets in"
