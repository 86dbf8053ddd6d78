"""Where sessions go on: which tier and key have their prompt warm, and whether that decides."""

from collections.abc import Sequence

from governor.ids import SessionId, TierName
from governor.providing.affinity import Expected, Home, Place, home_after, stays, warm_tokens
from governor.tiers import ModelTier
from runtime.model_gateway.attempts.care import ProviderCares
from runtime.model_gateway.attempts.homes import SessionHomes
from runtime.model_gateway.attempts.ports import AttemptClock
from runtime.model_gateway.measured import Measured

# A token of text is some four bytes; what is expected here is never charged.
_BYTES_PER_TOKEN = 4


class Staying:
    """Knows the homes of sessions, and how providers keep prompts."""

    def __init__(
        self, cares: ProviderCares, *, clock: AttemptClock, homes: SessionHomes | None = None
    ) -> None:
        """Begin with no session at home anywhere."""
        self._cares = cares
        self._clock = clock
        self._homes = SessionHomes() if homes is None else homes

    def is_fit(self, tier: ModelTier) -> bool:
        """Tell whether asking the provider of a tier makes sense now."""
        return self._cares.of(tier.provider).is_fit

    def wished_key(self, session: SessionId, tier: ModelTier) -> int | None:
        """Return the key with which the session's prompt is warm; None where none is."""
        home = self._homes.of(session)
        if home is None or not self._warm(home, tier):
            return None
        return home.place.key

    def warm_tokens(self, session: SessionId, tier: ModelTier) -> int:
        """Return how much of the session's next prompt a tier should have in its cache."""
        home = self._homes.of(session)
        return 0 if home is None else self._warm(home, tier)

    def kept_at(
        self, session: SessionId, chosen: ModelTier, tiers: Sequence[ModelTier], *, body_bytes: int
    ) -> ModelTier | None:
        """Return the tier at which a session stays though `chosen` was, None where it goes.

        `tiers` are those that can serve the request now, with their prices.
        """
        home = self._homes.of(session)
        if home is None or home.tier == chosen.name or chosen.price is None:
            return None
        here = next((tier for tier in tiers if tier.name == home.tier), None)
        if here is None or here.price is None:
            return None
        warm = self._warm(home, here)
        expected_input = max(warm, body_bytes // _BYTES_PER_TOKEN)
        is_kept = stays(
            home,
            here=Expected(
                price=here.price, input_tokens=expected_input, output_tokens=home.output_tokens
            ),
            there=Expected(
                price=chosen.price, input_tokens=expected_input, output_tokens=home.output_tokens
            ),
            warm=warm,
        )
        return here if is_kept else None

    def note(
        self, session: SessionId, tier: ModelTier, *, key: int | None, tokens: Measured
    ) -> None:
        """Take note of a call that went well, and of what of its prompt was cached."""
        home = home_after(
            self._homes.of(session),
            tier=TierName(tier.name),
            place=Place(provider=tier.provider, model=tier.model, key=key),
            cache=self._cares.of(tier.provider).terms.cache,
            input_tokens=tokens.input_tokens,
            cached_tokens=tokens.cached_tokens,
            cache_write_tokens=tokens.cache_write_tokens,
            output_tokens=tokens.output_tokens,
            now_ms=self._clock.elapsed_ms(),
        )
        self._homes.note(session, home)

    def _warm(self, home: Home, tier: ModelTier) -> int:
        return warm_tokens(
            home,
            Place(provider=tier.provider, model=tier.model),
            cache=self._cares.of(tier.provider).terms.cache,
            now_ms=self._clock.elapsed_ms(),
        )
