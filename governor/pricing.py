"""What model calls cost, in integers that never round in the caller's favour."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cached_property, lru_cache
from hashlib import sha256

from governor.errors import InvalidPriceError

_TOKENS_PER_PRICE = 1_000_000
# A million dollars for a million tokens: what is above is a slip of the pen.
PRICE_MAX = 10**12
_VERSION_CHARS = 12
# Every call asks for the price that it is held at, and there are few of them.
_PRICES_HELD_MAX = 1_024


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelPrice:
    """The price of a model, in micro-dollars per million tokens.

    Without a price of their own, input tokens that the provider had cached, or wrote to its
    cache, cost what others do; those that it keeps for an hour what other written ones do.

    Raises:
        InvalidPriceError: a price is not an integer from 0 to `PRICE_MAX`, or that of cached
            input is above that of input: a call could cost more than what was held for it.
    """

    input_microusd_per_mtok: int
    output_microusd_per_mtok: int
    cached_input_microusd_per_mtok: int | None = None
    cache_write_microusd_per_mtok: int | None = None
    cache_write_1h_microusd_per_mtok: int | None = None

    def __post_init__(self) -> None:
        """Refuse what is no price, naming the field."""
        _check("input_microusd_per_mtok", self.input_microusd_per_mtok)
        _check("output_microusd_per_mtok", self.output_microusd_per_mtok)
        cached = self.cached_input_microusd_per_mtok
        if cached is not None:
            name = "cached_input_microusd_per_mtok"
            _check(name, cached)
            if cached > self.input_microusd_per_mtok:
                message = f"{name}: {cached} is above input_microusd_per_mtok"
                raise InvalidPriceError(message)
        for name in ("cache_write_microusd_per_mtok", "cache_write_1h_microusd_per_mtok"):
            if getattr(self, name) is not None:
                _check(name, getattr(self, name))

    @property
    def written(self) -> int:
        """Return the price of input that the provider writes to its cache."""
        own = self.cache_write_microusd_per_mtok
        return self.input_microusd_per_mtok if own is None else own

    @property
    def written_1h(self) -> int:
        """Return the price of input that the provider keeps in its cache for an hour."""
        own = self.cache_write_1h_microusd_per_mtok
        return self.written if own is None else own

    def held(self, *, may_write: bool, may_write_1h: bool) -> "ModelPrice":
        """Return the price that covers a call wherever the provider puts its input.

        It may write all of it to its cache, unless that is known not to happen.
        """
        return _held(self, may_write, may_write_1h)

    def cost_microusd(
        self,
        *,
        input_tokens: int,
        output_tokens: int,
        cached_tokens: int = 0,
        cache_write_tokens: int = 0,
        cache_write_1h_tokens: int = 0,
    ) -> int:
        """Return the cost of a call, rounded up to a whole micro-dollar.

        Of `input_tokens`, `cached_tokens` were in the provider's cache and `cache_write_tokens`
        were written to it, `cache_write_1h_tokens` of these for an hour.
        """
        assert 0 <= cache_write_1h_tokens <= cache_write_tokens, "a part of what was written"
        fresh_tokens = input_tokens - cached_tokens - cache_write_tokens
        assert min(cached_tokens, fresh_tokens) >= 0, "both are parts of the input"
        cached_price = self.cached_input_microusd_per_mtok
        if cached_price is None:
            cached_price = self.input_microusd_per_mtok
        parts = (
            fresh_tokens * self.input_microusd_per_mtok
            + cached_tokens * cached_price
            + (cache_write_tokens - cache_write_1h_tokens) * self.written
            + cache_write_1h_tokens * self.written_1h
            + output_tokens * self.output_microusd_per_mtok
        )
        return -(-parts // _TOKENS_PER_PRICE)


@lru_cache(maxsize=_PRICES_HELD_MAX)
def _held(price: ModelPrice, may_write: bool, may_write_1h: bool, /) -> ModelPrice:  # noqa: FBT001
    dearest = max(
        price.input_microusd_per_mtok,
        price.written if may_write else 0,
        price.written_1h if may_write_1h else 0,
    )
    return ModelPrice(
        input_microusd_per_mtok=dearest, output_microusd_per_mtok=price.output_microusd_per_mtok
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedPrice:
    """The price of the models that a provider's name and a pattern cover."""

    provider: str
    model: str
    price: ModelPrice

    def covers(self, *, provider: str, model: str) -> bool:
        """Tell whether it is the price of that model; both parts are shell patterns."""
        return fnmatchcase(provider, self.provider) and fnmatchcase(model, self.model)


@dataclass(frozen=True, kw_only=True)
class PriceList:
    """Prices in order, the first that covers a model is its; `unknown` is for all others.

    Where `unknown` is None an unlisted model has no price: it is refused, never free.

    Raises:
        InvalidPriceError: the same provider and model are listed twice.
    """

    prices: tuple[ListedPrice, ...] = ()
    unknown: ModelPrice | None = None

    def __post_init__(self) -> None:
        """Refuse a second price for the same thing, naming where it stands."""
        for number in repeated(self.prices):
            again = self.prices[number]
            message = f"price[{number}]: {again.provider} {again.model} is listed before"
            raise InvalidPriceError(message)

    def price_for(self, *, provider: str, model: str) -> ModelPrice | None:
        """Return the price of a model, the ceiling where it is unknown and there is one."""
        key = (provider, model)
        if key not in self._found:
            covering = (
                listed.price
                for listed in self.prices
                if listed.covers(provider=provider, model=model)
            )
            self._found[key] = next(covering, self.unknown)
        return self._found[key]

    @cached_property
    def _found(self) -> dict[tuple[str, str], ModelPrice | None]:
        # Only tiers are asked for, so it stays small; a list may be long and is asked each call.
        return {}

    @cached_property
    def version(self) -> str:
        """Return a short name of exactly this list."""
        lines = [repr((one.provider, one.model, _figures(one.price))) for one in self.prices] + [
            repr(None if self.unknown is None else _figures(self.unknown))
        ]
        return sha256("\n".join(lines).encode()).hexdigest()[:_VERSION_CHARS]


def repeated(prices: Sequence[ListedPrice]) -> Iterator[int]:
    """Yield where a provider and model stand that stood before: one could never be charged."""
    seen: set[tuple[str, str]] = set()
    for number, listed in enumerate(prices):
        key = (listed.provider, listed.model)
        if key in seen:
            yield number
        seen.add(key)


def _figures(price: ModelPrice) -> tuple[int | None, ...]:
    """Return what a version is made of: the names of lists from before these prices stay."""
    figures = (
        price.input_microusd_per_mtok,
        price.output_microusd_per_mtok,
        price.cached_input_microusd_per_mtok,
    )
    written = (price.cache_write_microusd_per_mtok, price.cache_write_1h_microusd_per_mtok)
    return figures if written == (None, None) else figures + written


def _check(name: str, value: object) -> None:
    if isinstance(value, bool) or not isinstance(value, int):
        message = f"{name}: {value!r} is not an integer"
        raise InvalidPriceError(message)
    if not 0 <= value <= PRICE_MAX:
        message = f"{name}: {value} is outside 0..{PRICE_MAX}"
        raise InvalidPriceError(message)
