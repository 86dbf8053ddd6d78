"""Price lists of models as JSON."""

from collections.abc import Collection
from typing import Annotated

from pydantic import Field

from governor.errors import InvalidPriceError
from governor.pricing import PRICE_MAX, ListedPrice, ModelPrice, PriceList, repeated
from runtime.admin.shapes.fields import Label, Out, Shape
from runtime.failures import Fault, ProblemError, invalid
from runtime.prices import PriceOrigin, PricesInForce

_PRICES_MAX = 1_000
_FAULTS_MAX = 20

Price = Annotated[int, Field(strict=True, ge=0, le=PRICE_MAX)]


class ListedPriceShape(Shape):
    """What the models cost that a provider's name and a pattern cover, in micro-dollars.

    Input that the provider had cached, or wrote to its cache, costs what other input does where
    it has no price of its own; what it keeps for an hour costs what other written input does.
    """

    provider: Label = "*"
    model: Label
    input_microusd_per_mtok: Price
    output_microusd_per_mtok: Price
    cached_input_microusd_per_mtok: Price | None = None
    cache_write_microusd_per_mtok: Price | None = None
    cache_write_1h_microusd_per_mtok: Price | None = None


class CeilingShape(Shape):
    """What models cost that no entry covers."""

    input_microusd_per_mtok: Price
    output_microusd_per_mtok: Price


class PricesChange(Shape):
    """A whole price list; the first entry that covers a model is its price.

    Without `unknown`, models that no entry covers are refused. The other members may be sent
    back as they were read.
    """

    prices: Annotated[list[ListedPriceShape], Field(max_length=_PRICES_MAX)]
    unknown: CeilingShape | None = None
    version: str | None = None
    source: PriceOrigin | None = None
    put_at_ms: int | None = None
    put_by: str | None = None
    warnings: list[str] | None = None

    def price_list(self) -> PriceList:
        """Return the list that is meant.

        Raises:
            ProblemError: it names the entries that stood before, or that cannot be charged.
        """
        faults: list[Fault] = []
        listed: list[ListedPrice] = []
        for number, entry in enumerate(self.prices):
            figures = entry.model_dump(exclude={"provider", "model"})
            try:
                price = ModelPrice(**figures)
            except InvalidPriceError as error:
                name, _, detail = str(error).partition(": ")
                faults.append(Fault(field=f"prices.{number}.{name}", detail=detail))
            else:
                listed.append(ListedPrice(provider=entry.provider, model=entry.model, price=price))
        if not faults:
            faults = [
                Fault(
                    field=f"prices.{number}",
                    detail=f"{listed[number].provider} {listed[number].model} is listed before",
                )
                for number in repeated(listed)
            ]
        if faults:
            raise ProblemError(invalid(*faults[:_FAULTS_MAX]))
        unknown = None if self.unknown is None else ModelPrice(**self.unknown.model_dump())
        return PriceList(prices=tuple(listed), unknown=unknown)


class PricesOut(Out):
    """A price list; `version` is what the records of calls name it by."""

    version: str
    source: PriceOrigin = Field(
        description="`file`: what `[pricing]` says; `admin`: what was put here, which goes first"
    )
    prices: list[ListedPriceShape]
    unknown: CeilingShape | None
    put_at_ms: int | None
    put_by: str | None
    warnings: list[str] = Field(description="providers that are not configured: they price nothing")


def prices_out(found: PricesInForce, *, providers: Collection[str]) -> PricesOut:
    """Return a price list as it is shown; `providers` are those that are configured."""
    named = dict.fromkeys(listed.provider for listed in found.prices.prices)
    strange = [name for name in named if name != "*" and name not in providers]
    unknown = found.prices.unknown
    return PricesOut(
        version=found.version,
        source=found.origin,
        prices=[
            # Not checked again: the file may name models that nobody could put.
            ListedPriceShape.model_construct(
                provider=listed.provider,
                model=listed.model,
                input_microusd_per_mtok=listed.price.input_microusd_per_mtok,
                output_microusd_per_mtok=listed.price.output_microusd_per_mtok,
                cached_input_microusd_per_mtok=listed.price.cached_input_microusd_per_mtok,
                cache_write_microusd_per_mtok=listed.price.cache_write_microusd_per_mtok,
                cache_write_1h_microusd_per_mtok=listed.price.cache_write_1h_microusd_per_mtok,
            )
            for listed in found.prices.prices
        ],
        unknown=None
        if unknown is None
        else CeilingShape(
            input_microusd_per_mtok=unknown.input_microusd_per_mtok,
            output_microusd_per_mtok=unknown.output_microusd_per_mtok,
        ),
        put_at_ms=found.put_at_ms,
        put_by=found.put_by,
        warnings=[
            f"no provider is called {name!r}: what is listed for it prices nothing"
            for name in strange[:_FAULTS_MAX]
        ],
    )
