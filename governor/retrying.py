"""When a call that failed is sent again: only where that is safe, a few times, in its time.

It is safe where provably nothing was sent, or where running twice is the same as running once.
The pauses double and each is drawn anew from none to all of its length ("full jitter"), so that
callers who failed together do not come back together.
"""

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

# Beyond some doublings the bound holds anyway; the exponent needs one of its own.
_DOUBLINGS_MAX = 16


class Sent(StrEnum):
    """What a failed attempt may have done: nothing, anything, or what it was told."""

    NOTHING = "nothing"
    UNKNOWN = "unknown"
    ANSWERED = "answered"


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryTerms:
    """How often a call is sent again at the most, and after which pauses, in milliseconds."""

    retries: int = 2
    pause_ms: int = 100
    pause_ms_max: int = 2_000


def pause_before_retry(
    terms: RetryTerms,
    *,
    attempts: int,
    sent: Sent,
    is_repeatable: bool,
    left_ms: int,
    below: Callable[[int], int],
) -> int | None:
    """Return how long to wait before a call is sent again, None if it is not.

    `attempts` were made, of which the last did what `sent` says. `is_repeatable` tells that to
    run it twice is to run it once; `left_ms` is what remains of its time. `below` draws a
    number from 0 up to its argument.
    """
    is_safe = sent is Sent.NOTHING or (sent is Sent.UNKNOWN and is_repeatable)
    if not is_safe or attempts > terms.retries:
        return None
    longest = min(terms.pause_ms << min(attempts - 1, _DOUBLINGS_MAX), terms.pause_ms_max)
    pause_ms = below(longest + 1)
    return pause_ms if pause_ms < left_ms else None
