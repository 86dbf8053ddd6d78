"""What model calls cost, in integers that never round in the caller's favour."""

from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cached_property
from hashlib import sha256

from governor.errors import InvalidPriceError

_TOKENS_PER_PRICE = 1_000_000
# A million dollars for a million tokens: what is above is a slip of the pen.
PRICE_MAX = 10**12
_VERSION_CHARS = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelPrice:
    """The price of a model, in micro-dollars per million tokens.

    Raises:
        InvalidPriceError: a price is not an integer from 0 to `PRICE_MAX`.
    """

    input_microusd_per_mtok: int
    output_microusd_per_mtok: int

    def __post_init__(self) -> None:
        """Refuse what is no price, naming the field."""
        for name, value in (
            ("input_microusd_per_mtok", self.input_microusd_per_mtok),
            ("output_microusd_per_mtok", self.output_microusd_per_mtok),
        ):
            if isinstance(value, bool) or not isinstance(value, int):
                message = f"{name}: {value!r} is not an integer"
                raise InvalidPriceError(message)
            if not 0 <= value <= PRICE_MAX:
                message = f"{name}: {value} is outside 0..{PRICE_MAX}"
                raise InvalidPriceError(message)

    def cost_microusd(self, *, input_tokens: int, output_tokens: int) -> int:
        """Return the cost of a call, rounded up to a whole micro-dollar."""
        parts = (
            input_tokens * self.input_microusd_per_mtok
            + output_tokens * self.output_microusd_per_mtok
        )
        return -(-parts // _TOKENS_PER_PRICE)


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
        seen: set[tuple[str, str]] = set()
        for number, listed in enumerate(self.prices):
            key = (listed.provider, listed.model)
            if key in seen:
                message = f"price[{number}]: {listed.provider} {listed.model} is listed before"
                raise InvalidPriceError(message)
            seen.add(key)

    def price_for(self, *, provider: str, model: str) -> ModelPrice | None:
        """Return the price of a model, the ceiling where it is unknown and there is one."""
        for listed in self.prices:
            if listed.covers(provider=provider, model=model):
                return listed.price
        return self.unknown

    @cached_property
    def version(self) -> str:
        """Return a short name of exactly this list."""
        lines = [repr((one.provider, one.model, _figures(one.price))) for one in self.prices] + [
            repr(None if self.unknown is None else _figures(self.unknown))
        ]
        return sha256("\n".join(lines).encode()).hexdigest()[:_VERSION_CHARS]


def _figures(price: ModelPrice) -> tuple[int, int]:
    return (price.input_microusd_per_mtok, price.output_microusd_per_mtok)
