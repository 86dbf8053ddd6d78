"""One call's attempts at one provider, in one hold: as many as are safe, and no more."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from governor.providing.failure import Cause, Failure, failure_of
from governor.providing.key_ring import Lent, NoneReady
from governor.providing.recourse import Recourse, SameHold
from governor.retrying import Sent
from runtime.model_gateway.attempts.care import ProviderCare
from runtime.model_gateway.attempts.ports import Elapsing
from tool_gateway import telemetry


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptEnd:
    """How one attempt ended: with `failure`, or well where that is None.

    `tokens` is what it used, None where nobody knows. `has_begun`: the client was sent a part of
    the answer, so that nothing can take its place.
    """

    failure: Failure | None = None
    tokens: int | None = None
    has_begun: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Tried:
    """How a call's attempts ended: the failure of the last and what is to be done about it.

    Both are None where the call went well; `was_asked` is False where it failed for want of a
    key. `key` is the one that was used last, by its position;
    `made` how often the provider was asked. `rounds` counts the waits for a key with them.
    """

    failure: Failure | None = None
    recourse: Recourse | None = None
    was_asked: bool = True
    key: int | None = None
    made: int = 0
    rounds: int = 0


_ATTEMPT_MS_MIN = 1_000

Ask = Callable[[int, int], Awaitable[AttemptEnd]]


async def tried(
    care: ProviderCare,
    ask: Ask,
    *,
    clock: Elapsing,
    pause: Callable[[int], Awaitable[None]],
    tokens: int,
    time_ms: int,
    wished: int | None = None,
    rounds_before: int = 0,
) -> Tried:
    """Ask a provider until it answers, or asking it in this hold makes no more sense.

    `ask` makes one attempt with the key at a position, in at most so many milliseconds; `pause`
    waits so many between two of them, while nothing was generated and nothing is sent. `tokens`
    is the most that the call can use, `time_ms` how long all attempts may take together, pauses
    included; the key that is `wished` for is used while it is ready. `rounds_before` were made
    in holds before this one.
    """
    began_ms = clock.elapsed_ms()
    failed_keys: set[int] = set()
    key, asked, rounds = None, 0, rounds_before

    def left_ms() -> int:
        return time_ms - (clock.elapsed_ms() - began_ms)

    while True:
        rounds += 1
        lent = care.lend(tokens=tokens, wished=wished, without=failed_keys)
        if isinstance(lent, NoneReady):
            end = AttemptEnd(failure=_none_ready(lent))
        else:
            key, asked = lent.position, asked + 1
            # What a pause took too long is not the provider's fault.
            end = await _asked(care, ask, lent, min(time_ms, max(left_ms(), _ATTEMPT_MS_MIN)))
        if end.failure is None:
            return Tried(key=key, made=asked, rounds=rounds)
        if key is not None:
            failed_keys.add(key)
        recourse = care.recourse(
            end.failure,
            made=rounds,
            left_ms=left_ms(),
            tokens=tokens,
            failed_keys=failed_keys,
            has_begun=end.has_begun,
        )
        if not isinstance(recourse, SameHold):
            return Tried(
                failure=end.failure,
                recourse=recourse,
                was_asked=isinstance(lent, Lent),
                key=key,
                made=asked,
                rounds=rounds,
            )
        telemetry.count_retry(upstream=care.name, after=end.failure.cause.value)
        await pause(recourse.pause_ms)


async def _asked(care: ProviderCare, ask: Ask, lent: Lent, left_ms: int) -> AttemptEnd:
    # Whoever cancels, the key is free again; what was used by then nobody knows.
    unknown = Failure(cause=Cause.FAILED, sent=Sent.UNKNOWN)
    end = AttemptEnd(failure=unknown)
    try:
        end = await ask(lent.position, left_ms)
    finally:
        care.give_back(lent, end.failure, tokens=end.tokens)
    return end


def _none_ready(none: NoneReady) -> Failure:
    """Return why no key could be used: all rest, or all were refused."""
    if none.retry_after_ms is None:
        return failure_of(Cause.KEY_REFUSED)
    return failure_of(Cause.KEYS_RESTING, retry_after_ms=none.retry_after_ms)
