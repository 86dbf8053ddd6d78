"""A preview that looks at every call, however many, and says meanwhile how far it is."""

from collections.abc import AsyncGenerator
from dataclasses import dataclass
from functools import partial

import anyio
import anyio.to_thread

from governor.budget import Budget
from governor.preview import BudgetReplay, Lineup, warm_up_ms
from memory_store.past_calls import PastCalls
from runtime.errors import PreviewsBusyError
from runtime.previewing import (
    DAY_MS,
    REPLAYED_AT_ONCE,
    REST_SECONDS,
    Elapsed,
    Preview,
    Race,
    units_of,
    whose_calls,
)

SECONDS_MAX = 900.0
# Calls are read by their end and replayed by their start: so long a call has its place.
HELD_BACK_MS = 60 * 60 * 1000
HELD_MAX = 50_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """How many calls were looked at, and which part of the time that is to be looked at."""

    calls: int
    done_permille: int


class LongPreviews:
    """Makes one such preview at a time; it takes turns with whatever else the process does.

    The calls are read in the order of time, a page after the other, so that no more of them are
    held than may still have to wait for one that began earlier.
    """

    def __init__(
        self,
        *,
        seconds_max: float = SECONDS_MAX,
        held_max: int = HELD_MAX,
        elapsed: Elapsed = anyio.current_time,
    ) -> None:
        """Bound how long one preview takes, and how many calls it holds."""
        self._seconds_max = seconds_max
        self._held_max = held_max
        self._elapsed = elapsed
        self._is_busy = False

    async def of(
        self, past: PastCalls, budget: Budget, *, before: Budget | None, days: int, now_ms: int
    ) -> AsyncGenerator[Progress | Preview, None]:
        """Yield how far it is, and at last what `budget` would have denied in the last days.

        Raises:
            PreviewsBusyError: another one is being made.
            StoreUnavailableError: the records cannot be read.
        """
        if self._is_busy:
            raise PreviewsBusyError
        self._is_busy = True
        try:
            yield Progress(calls=0, done_permille=0)
            way = _Way(
                past, budget, before, from_ms=now_ms - days * DAY_MS, held_max=self._held_max
            )
            deadline = self._elapsed() + self._seconds_max
            way.records_since_ms = await past.first_ended_at_ms(budget.tenant)
            first_ms = max(way.since_ms, way.records_since_ms or 0)
            while await way.goes_on() and self._elapsed() < deadline:
                done = (way.read_until_ms - first_ms) * 1000 // max(1, now_ms - first_ms)
                yield Progress(calls=way.calls, done_permille=min(999, max(0, done)))
            yield way.preview()
        finally:
            self._is_busy = False


class _Way:
    """The calls of the past, read and replayed a page after the other."""

    def __init__(
        self,
        past: PastCalls,
        budget: Budget,
        before: Budget | None,
        *,
        from_ms: int,
        held_max: int,
    ) -> None:
        budgets = (budget,) if before is None else (budget, before)
        self._past = past
        self._from_ms = from_ms
        self.since_ms = min(warm_up_ms(one, from_ms) for one in budgets)
        self._page = partial(
            past.page,
            whose_calls(budgets),
            since_ms=self.since_ms,
            units=units_of(budgets),
            oldest_first=True,
        )
        self._lineup = Lineup(held_back_ms=HELD_BACK_MS, held_max=held_max)
        self._race = Race(
            after=BudgetReplay(budget, from_ms=from_ms),
            before=None if before is None else BudgetReplay(before, from_ms=from_ms),
        )
        self._cursor: str | None = None
        self._has_all = False
        self.calls = 0
        self.read_until_ms = self.since_ms
        self.records_since_ms: int | None = None

    async def goes_on(self) -> bool:
        """Read a page and replay what is due; tell whether more follows."""
        page = await self._page(cursor=self._cursor)
        for call in page.items:
            self._lineup.add(call)
        self.calls += len(page.items)
        if page.items:
            self.read_until_ms = page.items[-1].ended_at_ms
        self._cursor = page.next
        self._has_all = page.next is None
        due = self._lineup.due(ended_until_ms=None if self._has_all else self.read_until_ms)
        for start in range(0, len(due), REPLAYED_AT_ONCE):
            part = due[start : start + REPLAYED_AT_ONCE]
            await anyio.to_thread.run_sync(partial(self._race.run, part))
            await anyio.sleep(REST_SECONDS)
        return not self._has_all

    def preview(self) -> Preview:
        """Return what was found so far."""
        race = self._race
        until_ms = self.read_until_ms if self._has_all else self.read_until_ms - HELD_BACK_MS
        return Preview(
            from_ms=self._from_ms,
            until_ms=max(self._from_ms, until_ms),
            is_complete=self._has_all,
            counts_since_ms=self.since_ms,
            records_since_ms=self.records_since_ms,
            after=race.after,
            before=race.before,
            newly_denied=race.newly_denied,
            no_longer_denied=race.no_longer_denied,
            late=self._lineup.late,
        )
