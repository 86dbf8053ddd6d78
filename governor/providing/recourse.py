"""What is done about a model call that failed: the same again, another tier, or nothing.

Within one hold a call is tried again only while every attempt before provably generated
nothing: then whatever the last attempt costs is all that there is to pay, and the hold covers
it. An attempt that may have been billed ends its hold; what comes after it, the same tier or
another, is admitted anew.
"""

from collections.abc import Callable
from dataclasses import dataclass

from governor.breaker import Sign
from governor.providing.failure import Again, Cause, Failure, Mends
from governor.retrying import RetryTerms, Sent, pause_before_retry


@dataclass(frozen=True, slots=True, kw_only=True)
class SameHold:
    """Ask the same provider again after a pause, in the same hold."""

    pause_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class NewHold:
    """Ask the same provider again after a pause, once the call has been admitted anew."""

    pause_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class AnotherTier:
    """Ask the next tier that is named for such a case; with `is_for_size`, one that takes more."""

    is_for_size: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class CheaperTier:
    """Ask the next cheaper tier, because the budgets do not pay for this one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GiveUp:
    """Tell the client of the failure."""


Recourse = SameHold | NewHold | AnotherTier | CheaperTier | GiveUp


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempts:
    """What is known of a call's attempts at one provider when the last of them has failed.

    `made` were made, `left_ms` remain of its time. `has_another_key` tells that a key is ready
    which this call has not failed with, `has_begun` that the client was sent a part of an
    answer, `is_repeatable` that an administrator prefers to pay twice over having no answer.
    """

    made: int
    left_ms: int
    has_another_key: bool = False
    has_begun: bool = False
    is_repeatable: bool = False


def recourse_after(
    failure: Failure,
    attempts: Attempts,
    *,
    terms: RetryTerms,
    below: Callable[[int], int],
    may_retry: Callable[[], bool],
) -> Recourse:
    """Return what to do after `failure`.

    `below` draws a number from 0 up to its argument. `may_retry` takes a retry from the
    provider's budget and tells whether there was one; it is asked last, for it takes.
    """
    if attempts.has_begun:
        return GiveUp()
    pause_ms = _pause_ms(failure, attempts, terms=terms, below=below)
    if pause_ms is not None and (_is_no_storm(failure, attempts) or may_retry()):
        is_proven = failure.proves_nothing_generated
        return SameHold(pause_ms=pause_ms) if is_proven else NewHold(pause_ms=pause_ms)
    match failure.consequence.mends:
        case Mends.ANOTHER_TIER:
            return AnotherTier()
        case Mends.A_LARGER_WINDOW:
            return AnotherTier(is_for_size=True)
        case Mends.NOBODY:
            return GiveUp()


def _is_no_storm(failure: Failure, attempts: Attempts) -> bool:
    """Tell whether the retry leaves a key alone that has had enough, or is the first request."""
    return failure.cause is Cause.KEYS_RESTING or _is_for_a_key(failure, attempts)


def _is_for_a_key(failure: Failure, attempts: Attempts) -> bool:
    """Tell whether another key changes at once what has failed."""
    return attempts.has_another_key and failure.cause in _OF_KEYS


# What another key changes at once.
_OF_KEYS = frozenset({Cause.RATE_LIMITED, Cause.KEY_REFUSED, Cause.UNPAID})


def _pause_ms(
    failure: Failure,
    attempts: Attempts,
    *,
    terms: RetryTerms,
    below: Callable[[int], int],
) -> int | None:
    """Return how long to wait before the same provider is asked again, None if it is not."""
    again = failure.consequence.again
    if again is Again.NEVER or (
        again is Again.WITH_ANOTHER_KEY and not _is_for_a_key(failure, attempts)
    ):
        return None
    pause_ms = pause_before_retry(
        terms,
        attempts=attempts.made,
        sent=Sent.NOTHING if failure.proves_nothing_generated else Sent.UNKNOWN,
        is_repeatable=attempts.is_repeatable,
        left_ms=attempts.left_ms,
        below=below,
    )
    if pause_ms is None or _is_for_a_key(failure, attempts):
        return None if pause_ms is None else 0
    named_ms = failure.retry_after_ms
    if named_ms is None:
        return pause_ms
    # Sooner than the provider said is asking for the same refusal; who was told the same time
    # is spread behind it. What is longer than any pause is another tier's, or the client's.
    whole_ms = named_ms + pause_ms
    return whole_ms if named_ms <= terms.pause_ms_max and whole_ms < attempts.left_ms else None


def sign_of(failure: Failure | None) -> Sign:
    """Return what the end of a call says of its provider; None is a call that went well."""
    return Sign.WELL if failure is None else failure.consequence.sign
