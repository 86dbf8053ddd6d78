"""What a failed attempt at a model call says: of the request, of the provider, of the key.

One table, so that nobody who reads it has to ask: whether something may have been generated
(and is charged), whether the same may be tried again, whether another provider could mend it,
whether the provider is ill, whether the key can be used on.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType

from governor.breaker import Sign
from governor.retrying import Sent


class Cause(StrEnum):
    """Why an attempt failed. The words stand in records and metrics."""

    UNREACHED = "unreached"
    KEYS_RESTING = "keys_resting"
    RATE_LIMITED = "rate_limited"
    OVERLOADED = "overloaded"
    KEY_REFUSED = "key_refused"
    UNPAID = "unpaid"
    TOO_LONG = "too_long"
    NOT_SERVED = "not_served"
    MISTAKEN = "mistaken"
    TIMED_OUT = "timed_out"
    FAILED = "failed"


class Again(StrEnum):
    """Whether the same provider may be asked the same once more."""

    NEVER = "never"
    WITH_ANOTHER_KEY = "with_another_key"
    AFTER_A_PAUSE = "after_a_pause"


class Mends(StrEnum):
    """Who could serve what this provider did not."""

    NOBODY = "nobody"
    A_LARGER_WINDOW = "a_larger_window"
    ANOTHER_TIER = "another_tier"


class KeyFate(StrEnum):
    """What becomes of the key that an attempt was made with."""

    KEPT = "kept"
    RESTS = "rests"
    RESTS_LONG = "rests_long"
    TAKEN_OUT = "taken_out"


@dataclass(frozen=True, slots=True, kw_only=True)
class Consequence:
    """What follows from a cause; `sent` is what the attempt may have done at the most."""

    sent: Sent
    again: Again
    mends: Mends
    sign: Sign
    key: KeyFate = KeyFate.KEPT


_REFUSED_FOR_LOAD = Consequence(
    sent=Sent.NOTHING, again=Again.AFTER_A_PAUSE, mends=Mends.ANOTHER_TIER, sign=Sign.ILL
)
# The provider answers, so it is well; what was asked is at fault.
_REFUSED_AS_ASKED = Consequence(
    sent=Sent.NOTHING, again=Again.NEVER, mends=Mends.NOBODY, sign=Sign.WELL
)
# A limit of the key or its account: the key rests, the provider is not to blame.
_REFUSED_FOR_KEY = Consequence(
    sent=Sent.NOTHING,
    again=Again.WITH_ANOTHER_KEY,
    mends=Mends.ANOTHER_TIER,
    sign=Sign.NOTHING,
    key=KeyFate.RESTS_LONG,
)
# Whether it was generated and billed nobody knows, so trying again costs a second time.
_UNKNOWN = Consequence(
    sent=Sent.UNKNOWN, again=Again.AFTER_A_PAUSE, mends=Mends.ANOTHER_TIER, sign=Sign.ILL
)

CONSEQUENCES: Mapping[Cause, Consequence] = MappingProxyType(
    {
        Cause.UNREACHED: _REFUSED_FOR_LOAD,
        Cause.KEYS_RESTING: Consequence(
            sent=Sent.NOTHING,
            again=Again.AFTER_A_PAUSE,
            mends=Mends.ANOTHER_TIER,
            sign=Sign.NOTHING,
        ),
        Cause.RATE_LIMITED: Consequence(
            sent=Sent.NOTHING,
            again=Again.AFTER_A_PAUSE,
            mends=Mends.ANOTHER_TIER,
            sign=Sign.NOTHING,
            key=KeyFate.RESTS,
        ),
        Cause.OVERLOADED: _REFUSED_FOR_LOAD,
        Cause.KEY_REFUSED: Consequence(
            sent=Sent.NOTHING,
            again=Again.WITH_ANOTHER_KEY,
            mends=Mends.ANOTHER_TIER,
            sign=Sign.NOTHING,
            key=KeyFate.TAKEN_OUT,
        ),
        Cause.UNPAID: _REFUSED_FOR_KEY,
        Cause.TOO_LONG: Consequence(
            sent=Sent.NOTHING, again=Again.NEVER, mends=Mends.A_LARGER_WINDOW, sign=Sign.WELL
        ),
        Cause.NOT_SERVED: Consequence(
            sent=Sent.NOTHING, again=Again.NEVER, mends=Mends.ANOTHER_TIER, sign=Sign.WELL
        ),
        Cause.MISTAKEN: _REFUSED_AS_ASKED,
        Cause.TIMED_OUT: _UNKNOWN,
        Cause.FAILED: _UNKNOWN,
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Complaint:
    """What a provider's error says, as far as it can be read: code, type and message."""

    code: str = ""
    kind: str = ""
    message: str = ""


NO_COMPLAINT = Complaint()


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """One failed attempt: why, what it may have done, and when trying again was said to help."""

    cause: Cause
    sent: Sent
    retry_after_ms: int | None = None

    @property
    def consequence(self) -> Consequence:
        """Return what follows from the cause."""
        return CONSEQUENCES[self.cause]

    @property
    def proves_nothing_generated(self) -> bool:
        """Tell whether there is nothing that the provider could bill."""
        return self.sent is Sent.NOTHING


def failure_of(cause: Cause, *, retry_after_ms: int | None = None) -> Failure:
    """Return a failure for `cause` with what such an attempt may have done."""
    return Failure(cause=cause, sent=CONSEQUENCES[cause].sent, retry_after_ms=retry_after_ms)


def failure_of_status(
    status: int, complaint: Complaint = NO_COMPLAINT, *, retry_after_ms: int | None = None
) -> Failure:
    """Return what a provider's answer with an error status means."""
    cause = _cause_of(status, complaint, has_retry_after=retry_after_ms is not None)
    return failure_of(cause, retry_after_ms=retry_after_ms)


def failure_in_answer(
    complaint: Complaint, *, status: int | None = None, retry_after_ms: int | None = None
) -> Failure:
    """Return what an error means that came where an answer should be, after the status 200.

    `status` is the one that the error names for itself, if any. Generation had begun, or may
    have: whatever the error says, it proves nothing about what is billed.
    """
    cause = Cause.FAILED
    if status is not None:
        cause = _cause_of(status, complaint, has_retry_after=retry_after_ms is not None)
    elif complaint.kind in _KINDS:
        cause = _KINDS[complaint.kind]
    return Failure(cause=cause, sent=Sent.UNKNOWN, retry_after_ms=retry_after_ms)


_REFUSALS = range(400, 500)
_UNAVAILABLE = 503
# What a status means by itself; any other refusal is the client's own mistake.
_BY_STATUS = MappingProxyType(
    {
        401: Cause.KEY_REFUSED,
        402: Cause.UNPAID,
        404: Cause.NOT_SERVED,
        407: Cause.UNREACHED,  # a proxy on the way refused us: the provider never heard of it
        408: Cause.TIMED_OUT,
        429: Cause.RATE_LIMITED,
        499: Cause.TIMED_OUT,
        529: Cause.OVERLOADED,
    }
)
# The words that Anthropic's error events carry in place of a status.
_KINDS = MappingProxyType(
    {
        "rate_limit_error": Cause.RATE_LIMITED,
        "overloaded_error": Cause.OVERLOADED,
        "authentication_error": Cause.KEY_REFUSED,
        "billing_error": Cause.UNPAID,
        "not_found_error": Cause.NOT_SERVED,
        "invalid_request_error": Cause.MISTAKEN,
        "timeout_error": Cause.TIMED_OUT,
    }
)
# Codes and types that say more than the status they come with. What is about the request, and
# not about who asks, must not cost us the key.
_UNPAID = ("insufficient_quota", "billing_hard_limit_reached", "billing_error")
_CONTENT = ("content_filter", "content_policy_violation", "moderation", "moderation_blocked")
# A 403 is about the key only where it says so: more often it is a moderation, or a firewall on
# the way, and whoever writes such a prompt must not take the key from everybody else.
_KEY = (
    *("permission_error", "authentication_error", "invalid_api_key", "invalid_authentication"),
    *("permission_denied", "PERMISSION_DENIED", "insufficient_permissions", "api_key_invalid"),
    *("account_deactivated", "account_suspended", "organization_suspended", "access_terminated"),
    *("unsupported_country_region_territory", "ip_not_authorized"),
)
_OTHER_MODEL = ("model_not_found", "model_not_available")
_LOADED = ("overloaded_error", "overloaded", "engine_overloaded_error", "slow_down")
_TOO_LONG = ("context_length_exceeded", "exceed_context_size_error")
_BY_WORD: Mapping[tuple[int, str], Cause] = MappingProxyType(
    {
        **{(429, word): Cause.UNPAID for word in _UNPAID},
        **{(403, word): Cause.MISTAKEN for word in (*_CONTENT, "invalid_request_error")},
        **{(403, word): Cause.KEY_REFUSED for word in _KEY},
        **{(403, word): Cause.NOT_SERVED for word in _OTHER_MODEL},
        **{(403, word): Cause.UNPAID for word in _UNPAID},
        **{(_UNAVAILABLE, word): Cause.OVERLOADED for word in _LOADED},
        **{(status, word): Cause.TOO_LONG for status in (400, 413, 422) for word in _TOO_LONG},
    }
)
# Read in messages because not every server has a code. A message may quote the prompt, so what
# stands in it decides nothing but whether a tier with a larger window is asked.
_TOO_LONG_WORDS = (
    "maximum context length",
    "prompt is too long",
    "exceed context limit",
    "exceeds the context window",
    "exceeds the available context size",
    "exceeds the maximum number of tokens allowed",
)
_UNPAID_OPENING = "Your credit balance is too low"


def _cause_of(status: int, complaint: Complaint, *, has_retry_after: bool) -> Cause:
    for word in (complaint.code, complaint.kind):
        if (status, word) in _BY_WORD:
            return _BY_WORD[status, word]
    if status in _BY_STATUS:
        return _BY_STATUS[status]
    if status in _REFUSALS:
        return _cause_of_request(complaint)
    # RFC 9110: a server that names a time with this status did not handle the request.
    is_load = status == _UNAVAILABLE and has_retry_after
    return Cause.OVERLOADED if is_load else Cause.FAILED


def _cause_of_request(complaint: Complaint) -> Cause:
    if any(word in complaint.message.lower() for word in _TOO_LONG_WORDS):
        return Cause.TOO_LONG
    # Its opening, not a part of it: no prompt that is quoted can stand there.
    is_unpaid = complaint.message.startswith(_UNPAID_OPENING)
    return Cause.UNPAID if is_unpaid else Cause.MISTAKEN
