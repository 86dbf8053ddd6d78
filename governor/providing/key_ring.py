"""The keys of one provider: which is used next, which rest, which are out.

A key that answers 429 rests for its own time while the others go on. One that is refused is
out until the configuration is read again, or a trial goes well: because a provider's mistake
must not end with ours, it is tried once in a while, and sooner when no other is left. Time is an
argument, any monotonic reading in milliseconds.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from enum import StrEnum

from governor.providing.failure import KeyFate
from governor.rate import Rate, RateHold

REST_MS = 1_000
REST_LONG_MS = 60_000
REST_MS_MAX = 60 * 60 * 1000
# How often a ring without a key left tries one that was refused.
TRIAL_MS = 30_000
# How often a refused key is tried while others are left, which answer the call it fails.
OUT_TRIAL_MS = 10 * 60_000
_MINUTE_MS = 60_000


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyTerms:
    """A key by the name of its variable, with what may pass by it in a minute."""

    name: str
    requests_per_minute: int | None = None
    tokens_per_minute: int | None = None


class KeyState(StrEnum):
    """How a key is, as it is shown."""

    READY = "ready"
    RESTING = "resting"
    OUT = "out"


@dataclass(frozen=True, slots=True, kw_only=True)
class Lent:
    """One use of a key, which is to be given back once; `position` says which key it is.

    `tokens_held` is what it took of the key's tokens per minute, where they are limited.
    """

    position: int
    tokens_held: int
    at_ms: int
    is_trial: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class NoneReady:
    """No key can be used now: one can after `retry_after_ms`, None if nobody knows."""

    retry_after_ms: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyShown:
    """How a key is, by the name of its variable."""

    name: str
    state: KeyState
    in_flight: int
    rests_for_ms: int | None


@dataclass(slots=True)
class _Bucket:
    rate: Rate
    arrival: int = 0

    def wait_ms(self, amount: int, now_ms: int) -> int:
        # What is more than a whole minute's share waits until nothing else has passed.
        return self.rate.wait_ms(self.arrival, min(amount, self.rate.burst), now_ms) or 0

    def take(self, amount: int, now_ms: int) -> int:
        held = min(amount, self.rate.burst)
        self.arrival = self.rate.after(self.arrival, held, now_ms)
        return held

    def correct(self, *, held: int, used: int, elapsed_ms: int) -> None:
        hold = RateHold(
            held=held,
            ticks_per_unit=self.rate.ticks_per_unit,
            ticks_per_ms=self.rate.ticks_per_ms,
        )
        self.arrival = hold.corrected(self.arrival, charged=used, elapsed_ms=elapsed_ms)


@dataclass(slots=True)
class _Key:
    name: str
    requests: _Bucket | None
    tokens: _Bucket | None
    in_flight: int = 0
    lent_number: int = 0
    rests_until_ms: int = 0
    is_out: bool = False
    trial_at_ms: int = 0

    def wait_ms(self, tokens: int, now_ms: int) -> int:
        """Return how long until the key may be used for a call of so many tokens."""
        return max(
            0,
            self.rests_until_ms - now_ms,
            0 if self.requests is None else self.requests.wait_ms(1, now_ms),
            0 if self.tokens is None else self.tokens.wait_ms(tokens, now_ms),
        )


class KeyRing:
    """The keys of one provider."""

    __slots__ = ("_keys", "_lent", "_tried_ms")

    def __init__(self, keys: Sequence[KeyTerms]) -> None:
        """Begin with every key ready."""
        assert keys, "a provider without a key has no ring"
        self._keys = tuple(
            _Key(
                name=key.name,
                requests=_bucket(key.requests_per_minute),
                tokens=_bucket(key.tokens_per_minute),
            )
            for key in keys
        )
        self._lent = 0
        self._tried_ms: int | None = None

    def lend(
        self,
        now_ms: int,
        *,
        tokens: int,
        wished: int | None = None,
        without: Collection[int] = (),
    ) -> Lent | NoneReady:
        """Return the use of a key for a call of at most `tokens`, or when there will be one.

        The `wished` key is taken if it is ready, else the one with the fewest calls under way,
        of several the one that was not used for longest. Keys in `without` failed this call
        before: they are taken only where no other is ready.
        """
        ready = self._ready(now_ms, tokens=tokens, without=without) or self._ready(
            now_ms, tokens=tokens, without=()
        )
        if not ready:
            return self._trial(now_ms, tokens) or self._none_ready(now_ms, tokens)
        overdue = self._overdue(now_ms, tokens, without=without)
        if overdue is not None:
            return overdue
        is_wished = wished is not None and wished in ready
        position = wished if is_wished else min(ready, key=self._load)
        assert position is not None, "one of several is the least"
        return self._lend(position, now_ms, tokens)

    def has_another(self, now_ms: int, *, tokens: int, without: Collection[int]) -> bool:
        """Tell whether a key is ready that is none of `without`."""
        return bool(self._ready(now_ms, tokens=tokens, without=without))

    def is_ready(self, now_ms: int) -> bool:
        """Tell whether any key could be used now, if only to see whether it is taken again."""
        if all(key.is_out for key in self._keys):
            return self._is_trial_due(now_ms)
        return any(not key.is_out and key.wait_ms(0, now_ms) <= 0 for key in self._keys)

    def give_back(
        self,
        lent: Lent,
        now_ms: int,
        *,
        fate: KeyFate,
        rest_ms: int | None = None,
        tokens: int | None = None,
    ) -> None:
        """Take note of how a use ended; `tokens` is what it used, None if nobody knows."""
        key = self._keys[lent.position]
        key.in_flight -= 1
        if tokens is not None and key.tokens is not None:
            elapsed_ms = max(0, now_ms - lent.at_ms)
            key.tokens.correct(held=lent.tokens_held, used=tokens, elapsed_ms=elapsed_ms)
        match fate:
            case KeyFate.KEPT:
                # A call that began before the key was refused says nothing against that.
                key.is_out = key.is_out and not lent.is_trial
            case KeyFate.RESTS:
                self._rest(key, now_ms + _bounded(rest_ms, otherwise=REST_MS))
            case KeyFate.RESTS_LONG:
                self._rest(key, now_ms + _bounded(rest_ms, otherwise=REST_LONG_MS))
            case KeyFate.TAKEN_OUT:
                key.is_out, key.trial_at_ms = True, now_ms + OUT_TRIAL_MS

    def return_unused(self, lent: Lent, now_ms: int) -> None:
        """Take back a use of which nothing was sent."""
        self.give_back(lent, now_ms, fate=KeyFate.RESTS, rest_ms=0, tokens=0)

    def readmit(self) -> None:
        """Take refused keys in again: somebody has looked at them."""
        for key in self._keys:
            key.is_out = False
        self._tried_ms = None

    def shown(self, now_ms: int) -> tuple[KeyShown, ...]:
        """Return how every key is."""
        return tuple(_shown(key, now_ms) for key in self._keys)

    def _ready(self, now_ms: int, *, tokens: int, without: Collection[int]) -> tuple[int, ...]:
        return tuple(
            position
            for position, key in enumerate(self._keys)
            if position not in without and not key.is_out and key.wait_ms(tokens, now_ms) <= 0
        )

    def _load(self, position: int) -> tuple[int, int]:
        key = self._keys[position]
        return key.in_flight, key.lent_number

    def _lend(self, position: int, now_ms: int, tokens: int, *, is_trial: bool = False) -> Lent:
        key = self._keys[position]
        self._lent += 1
        key.lent_number = self._lent
        key.in_flight += 1
        if key.requests is not None:
            key.requests.take(1, now_ms)
        held = 0 if key.tokens is None else key.tokens.take(tokens, now_ms)
        return Lent(position=position, tokens_held=held, at_ms=now_ms, is_trial=is_trial)

    def _trial(self, now_ms: int, tokens: int) -> Lent | None:
        """Return the use of a refused key where no other is left, now and then."""
        if not all(key.is_out for key in self._keys) or not self._is_trial_due(now_ms):
            return None
        self._tried_ms = now_ms
        oldest = min(range(len(self._keys)), key=lambda one: self._keys[one].lent_number)
        return self._lend(oldest, now_ms, tokens, is_trial=True)

    def _overdue(self, now_ms: int, tokens: int, *, without: Collection[int]) -> Lent | None:
        """Return the use of a key that was refused long ago, before a call that has others."""
        if without:
            return None
        for position, key in enumerate(self._keys):
            if key.is_out and key.trial_at_ms <= now_ms and key.wait_ms(tokens, now_ms) <= 0:
                # Whatever becomes of it: no other call tries it before its time.
                key.trial_at_ms = now_ms + OUT_TRIAL_MS
                return self._lend(position, now_ms, tokens, is_trial=True)
        return None

    def _is_trial_due(self, now_ms: int) -> bool:
        return self._tried_ms is None or now_ms - self._tried_ms >= TRIAL_MS

    def _none_ready(self, now_ms: int, tokens: int) -> NoneReady:
        waits = [key.wait_ms(tokens, now_ms) for key in self._keys if not key.is_out]
        return NoneReady(retry_after_ms=max(0, min(waits)) if waits else None)

    def _rest(self, key: _Key, until_ms: int) -> None:
        # Answers come in no order: one that names less must not end a longer rest.
        key.rests_until_ms = max(key.rests_until_ms, until_ms)


def _bucket(limit: int | None) -> _Bucket | None:
    if limit is None:
        return None
    return _Bucket(Rate(limit=limit, every_ms=_MINUTE_MS, burst=limit))


def _bounded(rest_ms: int | None, *, otherwise: int) -> int:
    return otherwise if rest_ms is None else min(max(0, rest_ms), REST_MS_MAX)


def _shown(key: _Key, now_ms: int) -> KeyShown:
    left_ms = key.rests_until_ms - now_ms
    state = KeyState.OUT if key.is_out else KeyState.RESTING if left_ms > 0 else KeyState.READY
    return KeyShown(
        name=key.name,
        state=state,
        in_flight=key.in_flight,
        rests_for_ms=left_ms if state is KeyState.RESTING else None,
    )
