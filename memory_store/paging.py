"""Pages of a listing and the opaque cursors between them."""

import base64
import binascii
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from memory_store.errors import InvalidCursorError

PAGE_LIMIT_MAX = 200
_INT64_MAX = 2**63 - 1

T = TypeVar("T")
R = TypeVar("R")

Key = tuple[int | str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Page(Generic[T]):
    """Some items of a listing; `next` is the cursor for those that follow, if any do."""

    items: tuple[T, ...]
    next: str | None


def clamped(limit: int) -> int:
    """Return `limit`, brought into what one page may hold."""
    return max(1, min(limit, PAGE_LIMIT_MAX))


def cursor_of(key: Key) -> str:
    """Return the cursor that continues after `key`."""
    return base64.urlsafe_b64encode(json.dumps(key).encode()).decode().rstrip("=")


def key_of(cursor: str, *, kinds: tuple[type[int] | type[str], ...]) -> Key:
    """Return the key in `cursor`, whose parts must be of `kinds`.

    Raises:
        InvalidCursorError: the cursor is not one of ours.
    """
    try:
        padded = cursor + "=" * (-len(cursor) % 4)
        parts = json.loads(base64.b64decode(padded, altchars=b"-_", validate=True))
    except (binascii.Error, ValueError, RecursionError):
        raise InvalidCursorError from None
    if not isinstance(parts, list) or [type(part) for part in parts] != list(kinds):
        raise InvalidCursorError
    if any(isinstance(part, int) and abs(part) > _INT64_MAX for part in parts):
        raise InvalidCursorError
    return tuple(parts)


def page_of(
    rows: Sequence[R], *, limit: int, item: Callable[[R], T], key: Callable[[R], Key]
) -> Page[T]:
    """Return the page for `rows`, read with one row more than `limit` to see if more follow."""
    shown = rows[:limit]
    follows = len(rows) > limit
    return Page(
        items=tuple(item(row) for row in shown),
        next=cursor_of(key(shown[-1])) if follows else None,
    )
