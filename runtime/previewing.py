"""Previews of budgets: the calls of the past replayed, a little at a time beside those that run."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Protocol

import anyio
import anyio.to_thread

from governor.amounts import Unit
from governor.budget import Budget
from governor.ids import PrincipalId, SessionId
from governor.preview import BudgetReplay, PastCall, in_order, warm_up_ms
from governor.scope import ScopeKind
from memory_store.past_calls import PastCalls, Whose
from runtime.errors import PreviewsBusyError

DAY_MS = 24 * 60 * 60 * 1000
CALLS_MAX = 50_000
SECONDS_MAX = 20.0
# A few milliseconds of work, between which whatever else waits for the interpreter has it.
REPLAYED_AT_ONCE = 50
WAITING_MAX = 4
REST_SECONDS = 0.002


class Elapsed(Protocol):
    """A clock that only goes forward, in seconds."""

    def __call__(self) -> float:
        """Return the seconds since any one moment."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Preview:
    """What a budget would have denied from `from_ms` to `until_ms`, and one before a change too.

    It is complete where all calls since the days that were asked for, and those before that
    count in the budget's window, were replayed. `records_since_ms` is when the first call ended
    that is still on record.
    """

    from_ms: int
    until_ms: int
    is_complete: bool
    counts_since_ms: int
    records_since_ms: int | None
    after: BudgetReplay
    before: BudgetReplay | None
    newly_denied: int
    no_longer_denied: int
    late: int = 0
    """Calls that were replayed after such as began later than they."""


class Previews:
    """Makes one preview at a time; a few more may wait."""

    def __init__(
        self,
        *,
        calls_max: int = CALLS_MAX,
        seconds_max: float = SECONDS_MAX,
        elapsed: Elapsed = anyio.current_time,
    ) -> None:
        """Bound how many calls one preview looks at, and for how long."""
        self._calls_max = calls_max
        self._seconds_max = seconds_max
        self._elapsed = elapsed
        self._turn = anyio.Lock()
        self._waiting = 0

    async def of(
        self, past: PastCalls, budget: Budget, *, before: Budget | None, days: int, now_ms: int
    ) -> Preview:
        """Return what `budget` would have denied in the last days; `before` is what it changes.

        The latest calls are looked at first, so that what there is no room or time for is what
        lies longest back, or came last.

        Raises:
            PreviewsBusyError: as many as may wait for theirs do.
            StoreUnavailableError: the records cannot be read.
        """
        if self._waiting >= WAITING_MAX:
            raise PreviewsBusyError
        self._waiting += 1
        try:
            async with self._turn:
                return await self._made(past, budget, before, from_ms=now_ms - days * DAY_MS)
        finally:
            self._waiting -= 1

    async def _made(
        self, past: PastCalls, budget: Budget, before: Budget | None, *, from_ms: int
    ) -> Preview:
        deadline = self._elapsed() + self._seconds_max
        budgets = (budget,) if before is None else (budget, before)
        since_ms = min(warm_up_ms(one, from_ms) for one in budgets)
        calls, has_all = await self._read(past, budgets, since_ms=since_ms, deadline=deadline)
        ordered = await anyio.to_thread.run_sync(lambda: list(in_order(calls)))
        if not has_all and ordered:
            # What was used before the first of them is not known, so it cannot be counted.
            since_ms = ordered[0].started_at_ms
            from_ms = max(from_ms, since_ms)
        race = Race(
            after=BudgetReplay(budget, from_ms=from_ms),
            before=None if before is None else BudgetReplay(before, from_ms=from_ms),
        )
        done = 0
        while done < len(ordered) and (done == 0 or self._elapsed() < deadline):
            part = ordered[done : done + REPLAYED_AT_ONCE]
            await anyio.to_thread.run_sync(partial(race.run, part))
            await anyio.sleep(REST_SECONDS)
            done += len(part)
        is_through = done == len(ordered)
        latest_ms = max((call.ended_at_ms for call in calls), default=from_ms)
        return Preview(
            from_ms=from_ms,
            until_ms=latest_ms if is_through else ordered[done].started_at_ms,
            is_complete=has_all and is_through,
            counts_since_ms=since_ms,
            records_since_ms=await past.first_ended_at_ms(budget.tenant),
            after=race.after,
            before=race.before,
            newly_denied=race.newly_denied,
            no_longer_denied=race.no_longer_denied,
        )

    async def _read(
        self, past: PastCalls, budgets: Sequence[Budget], *, since_ms: int, deadline: float
    ) -> tuple[list[PastCall], bool]:
        """Return the latest calls since then, and whether these are all."""
        units = units_of(budgets)
        # Half of the time is for the replay.
        deadline -= self._seconds_max / 2
        found: list[PastCall] = []
        cursor = None
        while True:
            page = await past.page(
                whose_calls(budgets), since_ms=since_ms, units=units, cursor=cursor
            )
            found += page.items[: self._calls_max - len(found)]
            cursor = page.next
            if cursor is None:
                return found, len(found) < self._calls_max
            if len(found) >= self._calls_max or self._elapsed() >= deadline:
                return found, False


class Race:
    """A budget and the one that it changes, replayed side by side."""

    def __init__(self, *, after: BudgetReplay, before: BudgetReplay | None) -> None:
        self.after, self.before = after, before
        self.newly_denied = 0
        self.no_longer_denied = 0

    def run(self, calls: Sequence[PastCall]) -> None:
        """Replay a few calls."""
        for call in calls:
            denied_before = self.after.denied, 0 if self.before is None else self.before.denied
            self.after.take(call)
            if self.before is None:
                continue
            self.before.take(call)
            # Only what counts: a replay begins before the days that are asked for.
            is_denied = self.after.denied > denied_before[0]
            was_denied = self.before.denied > denied_before[1]
            self.newly_denied += is_denied and not was_denied
            self.no_longer_denied += was_denied and not is_denied


def units_of(budgets: Sequence[Budget]) -> list[Unit]:
    """Return what of each call is looked at."""
    return sorted({unit for one in budgets for unit, _ in one.limits} | {Unit.COST_MICROUSD})


def whose_calls(budgets: Sequence[Budget]) -> Whose:
    """Return whose calls one of the budgets may govern, as narrow as can be."""
    first = budgets[0]
    places = {(budget.scope, budget.subject) for budget in budgets}
    if len(places) == 1 and first.subject is not None:
        if first.scope is ScopeKind.AGENT:
            return Whose(tenant=first.tenant, agent=PrincipalId(first.subject))
        if first.scope is ScopeKind.SESSION:
            return Whose(tenant=first.tenant, session=SessionId(first.subject))
    return Whose(tenant=first.tenant)
