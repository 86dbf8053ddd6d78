"""How a ledger's refusals are put into words."""

from collections.abc import Sequence

from governor.account import Account, Balance, Booking
from governor.amounts import Unit
from governor.denial import DenialReason, Denied, Remedy, RemedyAction, Shortage
from governor.scope import ScopeKind
from governor.session import SessionState
from governor.tracker import duration_words
from governor.usage import OF_PROBES
from governor.window import moment_words

_SECONDS_TOLD_MS = 120_000
# What a call holds of these follows from its rule, by these keys; nothing that it asks for lowers
# it.
_HELD_BY_RULE = {
    Unit.WALL_MS: "estimate.wall_ms or limits.wall_ms",
    Unit.CPU_MS: "estimate.cpu_ms, or limits.cpu_ms, wall_ms or cpus",
    Unit.MEMORY_MIB_S: "estimate.memory_mib_s, or limits.memory_mib or wall_ms",
    Unit.ENERGY_MJ: "estimate.energy_mj, or limits.cpu_ms, wall_ms or cpus",
    **dict.fromkeys(OF_PROBES, "estimate or probe_limits"),
}
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


def turn_unknown(short: Shortage | None = None) -> Denied:
    """Return the denial of a call that does not say which turn it belongs to.

    `short` is the budget that counts turns; without one it is the session's limit.
    """
    why = "The turns of this session are limited" if short is None else "A budget counts turns"
    return Denied(
        reason=DenialReason.TURN_UNKNOWN,
        shortage=short,
        remedy=Remedy(
            action=RemedyAction.SEND_TURN,
            text=(
                f"{why}, and this call does not say which turn it belongs to. Send the header "
                'Flyball-Turn or _meta["flyball/turn"], or ask for models through Flyball in the '
                "same session; for a client that can do neither, an administrator can set "
                "turn_per_call = true in the rule of the tool or in [default]."
            ),
        ),
    )


def unmeasurable(short: Shortage, why: str) -> Denied:
    """Return the denial of a call of which a budget's unit cannot be measured."""
    return Denied(
        reason=DenialReason.UNIT_UNMEASURABLE,
        shortage=short,
        remedy=Remedy(
            action=RemedyAction.ASK_ADMINISTRATOR,
            text=(
                f"A budget limits {short.unit}, which cannot be measured for this call "
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
        case SessionState.FROZEN:
            return session_frozen()
        case SessionState.CLOSED:
            return _session_closed("This session was ended by an administrator. Stop;")
        case SessionState.CLOSED_BY_AGENT:
            return _session_closed("You closed this session yourself;")
        case SessionState.CLOSED_AT_REST:
            return _session_closed("This session was closed because it had been idle for long;")


def _session_closed(head: str) -> Denied:
    return Denied(
        reason=DenialReason.SESSION_CLOSED,
        remedy=Remedy(
            action=RemedyAction.NEW_SESSION, text=f"{head} start a new session to go on."
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


def shortage_of(balance: Balance, requested: int, now_ms: int) -> Shortage:
    """Return how an account falls short of `requested`."""
    account, rate = balance.account, balance.account.rate
    return Shortage(
        budget_id=account.key.budget_id,
        unit=account.key.unit,
        limit=account.limit,
        used=balance.settled if rate is None else rate.burst - rate.level(balance.settled, now_ms),
        reserved=balance.reserved,
        requested=requested,
        resets_at_ms=balance.fits_at_ms(requested),
        every_ms=None if rate is None else rate.every_ms,
        burst=None if rate is None else rate.burst,
    )


def exhausted(short: Sequence[tuple[Balance, int]], now_ms: int) -> Denied:
    """Return the denial for what is `short`, led by the narrowest scope."""
    ordered = sorted(
        short,
        key=lambda one: (_NARROWEST_FIRST[one[0].account.scope], one[0].key.budget_id, one[0].key),
    )
    shortages = [shortage_of(balance, needed, now_ms) for balance, needed in ordered]
    first, _ = ordered[0]
    # Waiting helps only if every short budget comes back large enough; the last one decides.
    waits = [_wait_ms(balance, amount, now_ms) for balance, amount in ordered]
    known = [wait for wait in waits if wait is not None]
    retry_after_ms = max(known) if len(known) == len(waits) else None
    return Denied(
        reason=_REASONS[first.account.booking],
        shortage=shortages[0],
        also=tuple(shortages[1:]),
        retry_after_ms=retry_after_ms,
        remedy=_remedy(first, shortages[0], retry_after_ms, now_ms),
    )


def _wait_ms(balance: Balance, needed: int, now_ms: int) -> int | None:
    account = balance.account
    if account.rate is not None:
        return account.rate.wait_ms(balance.settled, needed, now_ms)
    fits_at_ms = balance.fits_at_ms(needed)
    if fits_at_ms is None or needed > account.limit:
        return None
    return fits_at_ms - now_ms


def _remedy(balance: Balance, short: Shortage, retry_after_ms: int | None, now_ms: int) -> Remedy:
    account = balance.account
    if account.booking is Booking.SLOT:
        return Remedy(
            action=RemedyAction.RETRY_LATER,
            text=(
                f"{balance.reserved} calls run under {account.key.budget_id}, which allows "
                f"{account.limit} at once; try again when one ends."
            ),
        )
    if account.rate is not None:
        return _rate_remedy(short, retry_after_ms)
    return _allowance_remedy(balance, short.requested, retry_after_ms, now_ms)


def _rate_remedy(short: Shortage, retry_after_ms: int | None) -> Remedy:
    head = (
        f"The rate {short.budget_id} lets {short.limit} {short.unit} pass in "
        f"{duration_words(short.every_ms or 0)}, at most {short.burst} at once; "
        f"{max(0, short.remaining)} may pass now and this call needs {short.requested}."
    )
    if retry_after_ms is not None:
        return Remedy(
            action=RemedyAction.RETRY_LATER,
            text=f"{head} Try again in {-(-retry_after_ms // 1000)} s.",
        )
    if short.burst is not None and short.requested > short.burst:
        return Remedy(
            action=RemedyAction.REQUEST_LESS,
            text=f"{head} Ask for less, or ask an administrator to raise the burst.",
        )
    # It would come back, but another budget that is short does not.
    return Remedy(
        action=RemedyAction.FINISH_WITH_WHAT_YOU_HAVE, text=f"{head} Finish with what you have."
    )


def _allowance_remedy(
    balance: Balance, requested: int, retry_after_ms: int | None, now_ms: int
) -> Remedy:
    account = balance.account
    left = max(0, balance.remaining)
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
            text=(
                f"{head} {_comes_back(account)} {_wait_words(retry_after_ms, now_ms)}; "
                "try again then."
            ),
        )
    if left > 0 and account.key.unit in _HELD_BY_RULE:
        return Remedy(
            action=RemedyAction.ASK_ADMINISTRATOR,
            text=(
                f"{head} What is held of {account.key.unit} follows from the configuration, not "
                "from the call: an administrator can lower "
                f"{_HELD_BY_RULE[account.key.unit]} in the rule, or raise the budget."
            ),
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


def _wait_words(wait_ms: int, now_ms: int) -> str:
    """Return how long to wait, with the moment where seconds are no measure of it."""
    if wait_ms < _SECONDS_TOLD_MS:
        return f"{-(-wait_ms // 1000)} s"
    return f"{duration_words(wait_ms)}, at {moment_words(now_ms + wait_ms)}"


def _comes_back(account: Account) -> str:
    """Return how the sentence begins that says when there is room again."""
    return "Enough of it comes back in" if account.older else "It resets in"
