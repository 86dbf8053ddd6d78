"""The fields that several shapes share."""

from collections.abc import Callable, Iterable
from typing import Annotated, Any, Generic, TypeVar

from pydantic import BaseModel, ConfigDict, Field

from governor.amounts import AMOUNT_MAX, Amounts, Unit
from memory_store import paging

EPOCH_MS_MAX = 253_402_300_799_999  # the end of the year 9999

T = TypeVar("T")
S = TypeVar("S")


class Shape(BaseModel):
    """A request; an unknown member is an error, because a typo is not an opinion."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Out(BaseModel):
    """An answer."""

    model_config = ConfigDict(frozen=True)


Label = Annotated[str, Field(min_length=1, max_length=200, pattern=r"^[^\x00-\x1f\x7f]+$")]
Amount = Annotated[int, Field(strict=True, ge=0, le=AMOUNT_MAX)]
EpochMs = Annotated[int, Field(strict=True, ge=0, le=EPOCH_MS_MAX)]
Limits = Annotated[dict[Unit, Amount], Field(min_length=1)]


def limits_shape(limits: Amounts) -> dict[Unit, int]:
    """Return how `limits` are written."""
    return dict(limits)


class Paging(Shape):
    """Which part of a listing is wanted."""

    cursor: Annotated[str | None, Field(max_length=1024, description="`next` of a page")] = None
    limit: Annotated[int, Field(ge=1, le=paging.PAGE_LIMIT_MAX)] = 50


class Page(Out, Generic[T]):
    """Part of a listing; the listing goes on at `next` until that is null."""

    items: list[T]
    next: str | None


def page_of(found: paging.Page[Any], shape: Callable[[Any], T]) -> Page[T]:
    """Return a page of the store as a page of the interface."""
    return Page(items=[shape(item) for item in found.items], next=found.next)


def whole_page(items: Iterable[T]) -> Page[T]:
    """Return a listing that is one page."""
    return Page(items=list(items), next=None)
