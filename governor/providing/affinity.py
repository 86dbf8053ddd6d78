"""Whether a session goes on where its prompt is warm: what a move saves against what it loses.

A provider keeps the beginning of a prompt for some minutes and reads it again at a fraction of
the price. A session that moves, to another tier, provider or key, pays the full price once for
all that it had said. So it moves where that is paid for by what the new place saves in the
calls that are still to be expected: about as many as there were.
"""

from dataclasses import dataclass

from governor.ids import TierName
from governor.pricing import ModelPrice

# As many calls are expected as there were; a session that long goes on, or ends the next moment.
_CALLS_EXPECTED_MAX = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptCache:
    """How a provider keeps prompts: for how long, from which size on, whether unasked."""

    life_ms: int = 300_000
    tokens_min: int = 1_024
    is_automatic: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where a prompt is warm: for this model, of this provider, by this key."""

    provider: str
    model: str
    key: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Home:
    """Where a session's last call went, and what of it the provider should have kept.

    `warm_tokens` of the next prompt are expected to be read from the cache. `calls` counts the
    session's calls at this place, `at_ms` is when the last ended, `output_tokens` what it wrote.
    """

    tier: TierName
    place: Place
    warm_tokens: int
    calls: int
    at_ms: int
    output_tokens: int = 0


def home_after(
    home: Home | None,
    *,
    tier: TierName,
    place: Place,
    cache: PromptCache,
    input_tokens: int,
    cached_tokens: int,
    cache_write_tokens: int = 0,
    output_tokens: int = 0,
    now_ms: int,
) -> Home:
    """Return a session's home after a call there whose prompt had `input_tokens`.

    What was expected to be cached and was not is not expected again.
    """
    warm_before = 0 if home is None else warm_tokens(home, place, cache=cache, now_ms=now_ms)
    kept = cached_tokens + cache_write_tokens
    # Unasked, all of a prompt is kept: of the first that is believed, of others it is seen.
    if cache.is_automatic and (cached_tokens > 0 or warm_before == 0):
        kept = input_tokens
    is_same = home is not None and home.place == place
    return Home(
        tier=tier,
        place=place,
        warm_tokens=kept if kept >= cache.tokens_min else 0,
        calls=1 + (home.calls if is_same and home is not None else 0),
        at_ms=now_ms,
        output_tokens=output_tokens,
    )


def warm_tokens(home: Home, place: Place, *, cache: PromptCache, now_ms: int) -> int:
    """Return how much of a session's next prompt `place` should have in its cache.

    A `place` that names no key is asked by any, and so by the warm one.
    """
    is_there = (home.place.provider, home.place.model) == (place.provider, place.model) and (
        place.key is None or place.key == home.place.key
    )
    return home.warm_tokens if is_there and now_ms - home.at_ms < cache.life_ms else 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Expected:
    """What a call is expected to use at a place, and at which price."""

    price: ModelPrice
    input_tokens: int
    output_tokens: int

    def cost_microusd(self, *, warm_tokens: int) -> int:
        """Return what the call costs with so much of its prompt in the cache."""
        return self.price.cost_microusd(
            input_tokens=self.input_tokens,
            output_tokens=self.output_tokens,
            cached_tokens=min(warm_tokens, self.input_tokens),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Weighed:
    """A move, weighed: what it saves in the calls to come against what it loses once."""

    saved_microusd: int
    lost_microusd: int

    @property
    def pays(self) -> bool:
        """Tell whether the session should move."""
        return self.saved_microusd > self.lost_microusd


def weighed(home: Home, *, here: Expected, there: Expected, warm: int) -> Weighed:
    """Return what it means to move from `here`, where `warm` tokens are cached, to `there`.

    Both are warm after the move but for its first call, which reads at the full price.
    """
    calls = min(home.calls, _CALLS_EXPECTED_MAX)
    cost_there = there.cost_microusd(warm_tokens=warm)
    return Weighed(
        saved_microusd=calls * (here.cost_microusd(warm_tokens=warm) - cost_there),
        lost_microusd=there.cost_microusd(warm_tokens=0) - cost_there,
    )


def stays(home: Home, *, here: Expected, there: Expected, warm: int) -> bool:
    """Tell whether a session stays where it is though a rule would send it elsewhere.

    A tier that costs more by itself was chosen for what it can do, which no saving weighs up:
    there the session goes. It is kept from a cheaper one that would cost it more.
    """
    is_for_money = there.cost_microusd(warm_tokens=0) <= here.cost_microusd(warm_tokens=0)
    return warm > 0 and is_for_money and not weighed(home, here=here, there=there, warm=warm).pays
