"""The price list of models."""

from http import HTTPStatus
from typing import Annotated

from fastapi import Path, Response

from runtime.admin.auth import By
from runtime.admin.context import Parts
from runtime.admin.openapi import WITH_BODY, governed_routes, problems
from runtime.admin.shapes.prices import PricesChange, PricesOut, prices_out
from runtime.admin.versions import IfMatch, changed, tag
from runtime.prices import PriceOrigin, PricesInForce

ROUTES = governed_routes("/prices", tag="prices")

Version = Annotated[str, Path(pattern=r"^[0-9a-f]{12}$")]


@ROUTES.get("", summary="Read the price list in force")
async def read_prices(parts: Parts, response: Response) -> PricesOut:
    """Return the list that the next model call is charged by.

    A price that a tier of the file states itself goes before it.
    """
    found = await parts.prices.refresh()
    tag(response, found)
    return prices_out(found, providers=parts.known().providers)


@ROUTES.get("/{version}", summary="Read a price list by its version", responses=problems(404))
async def read_version(parts: Parts, version: Version, response: Response) -> PricesOut:
    """Return a list that is or was in force, as the records of calls name it.

    Those that were put here stay for good; of the file, only what it says now is known.
    """
    found = await parts.prices.version(version)
    tag(response, found)
    return prices_out(found, providers=parts.known().providers)


@ROUTES.put("", summary="Replace the price list", responses=WITH_BODY | problems(412))
async def replace_prices(
    *, parts: Parts, by: By, change: PricesChange, response: Response, if_match: IfMatch = None
) -> PricesOut:
    """Return the new list, which the next model call is charged by; the file's rests."""
    prices = change.price_list()

    async def write(before: PricesInForce) -> PricesInForce:
        return await parts.prices.put(prices, over=before, by=by, now_ms=parts.clock.now_ms())

    found = await changed(
        read=parts.prices.refresh, write=write, if_match=if_match, version_sent=change.version
    )
    tag(response, found)
    return prices_out(found, providers=parts.known().providers)


@ROUTES.delete(
    "",
    summary="Go by the file's price list again",
    status_code=HTTPStatus.NO_CONTENT,
    responses=problems(412),
)
async def go_by_file(parts: Parts, by: By, if_match: IfMatch = None) -> None:
    """Charge the next model call by the file's list."""

    async def write(before: PricesInForce) -> PricesInForce:
        if before.origin is PriceOrigin.FILE:
            return before
        return await parts.prices.put(None, over=before, by=by, now_ms=parts.clock.now_ms())

    await changed(read=parts.prices.refresh, write=write, if_match=if_match)
