"""Who is told whenever a collector has taken something."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

_told: list[Callable[[], None]] = []


@contextmanager
def telling_of_what_is_taken(told: Callable[[], None]) -> Iterator[None]:
    """Call `told` at each delivery while the block runs, from whatever thread makes it."""
    _told.append(told)
    try:
        yield
    finally:
        _told.remove(told)


def note_taken() -> None:
    """Say that a collector has taken something."""
    for told in tuple(_told):
        told()
