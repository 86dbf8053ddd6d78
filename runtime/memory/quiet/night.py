"""One round of work in quiet hours, as it goes from work to work."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Protocol

from runtime.memory.house.allowance import Spent

IsIdle = Callable[[], bool]
# What one work may read.
READ_TOKENS_MAX = 16_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Night:
    """What one round of work came to; `denied` works were allowed by no budget."""

    reflected: int = 0
    answered: int = 0
    lessons: int = 0
    linked: int = 0
    denied: int = 0
    was_disturbed: bool = False


class Work(Protocol):
    """One of the works that are done while nobody asks anything."""

    async def work(self, night: Night) -> Night:
        """Return the round with what was done; it is left off as soon as somebody asks.

        Raises:
            StoreError: something could not be read or kept.
        """
        ...


def after(
    night: Night,
    spent: Spent | None,
    *,
    reflected: int = 0,
    answered: int = 0,
    lessons: int = 0,
    linked: int = 0,
) -> Night:
    """Return the round after a work; without what it spent, no budget allowed it."""
    return replace(
        night,
        reflected=night.reflected + reflected,
        answered=night.answered + answered,
        lessons=night.lessons + lessons,
        linked=night.linked + linked,
        denied=night.denied + (spent is None),
    )
