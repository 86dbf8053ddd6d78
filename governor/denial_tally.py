"""Denials added up, so that an administrator hears of them and no loop can flood anybody.

The first of its kind is told at once; what follows is told as one figure, every so often.
"""

from dataclasses import dataclass, replace
from typing import NamedTuple

from governor.call import ToolCall
from governor.denial import DenialReason, Denied, Shortage
from governor.ids import BudgetId, CallId, PrincipalId, TenantId
from governor.target import CallKind

# How often the same denials are told of again.
WINDOW_MS = 5 * 60 * 1000
# How many kinds of them are told apart in that time; agents and budgets are an operator's, but
# an authorization server may name more agents than anybody wants to hear of.
KINDS_MAX = 64
ANYBODY = PrincipalId("")


@dataclass(frozen=True, slots=True, kw_only=True)
class DenialsSeen:
    """Denials of one agent for one reason, added up from `since_ms` on; the latest stands for all.

    The agent is `ANYBODY` where those of several were too many to be told apart.
    """

    tenant: TenantId
    agent: PrincipalId
    reason: DenialReason
    kind: CallKind
    name: str
    call_id: CallId
    count: int
    since_ms: int
    shortage: Shortage | None = None


class _Key(NamedTuple):
    tenant: TenantId
    agent: PrincipalId
    reason: DenialReason
    budget: BudgetId | None


class DenialTally:
    """The denials of one process that were not told of yet."""

    def __init__(self, *, window_ms: int = WINDOW_MS, kinds_max: int = KINDS_MAX) -> None:
        """Begin with none."""
        self._window_ms = window_ms
        self._kinds_max = kinds_max
        self._seen: dict[_Key, DenialsSeen] = {}
        self._told_at_ms: dict[_Key, int] = {}
        self.left_out = 0  # those that not even a sum has room for

    def note(self, call: ToolCall, kind: CallKind, denied: Denied, *, now_ms: int) -> None:
        """Add a denial up. One that waits for a person is told of by its approval."""
        if denied.reason is DenialReason.APPROVAL_PENDING:
            return
        chain, short = call.chain, denied.shortage
        budget = None if short is None else short.budget_id
        key = self._place(_Key(chain.tenant, chain.agent, denied.reason, budget))
        if key is None:
            self.left_out += 1
            return
        before = self._seen.get(key)
        self._seen[key] = DenialsSeen(
            tenant=key.tenant,
            agent=key.agent,
            reason=key.reason,
            kind=kind,
            name=call.tool,
            call_id=call.call_id,
            count=1 if before is None else before.count + 1,
            since_ms=now_ms if before is None else before.since_ms,
            shortage=None if key.budget is None else short,
        )

    def due(self, *, now_ms: int) -> tuple[DenialsSeen, ...]:
        """Return what is to be told now, and take it for told; `again` takes that back."""
        self._told_at_ms = {
            key: at_ms
            for key, at_ms in self._told_at_ms.items()
            if at_ms <= now_ms < at_ms + self._window_ms
        }
        keys = [key for key in self._seen if key not in self._told_at_ms]
        for key in keys:
            self._told_at_ms[key] = now_ms
        return tuple(self._seen.pop(key) for key in keys)

    def rest(self) -> tuple[DenialsSeen, ...]:
        """Return all that was not told yet, however lately others like it were."""
        untold = tuple(self._seen.values())
        self._seen.clear()
        return untold

    def again(self, untold: tuple[DenialsSeen, ...]) -> None:
        """Have what could not be told be due again, with what came in between."""
        for one in untold:
            budget = None if one.shortage is None else one.shortage.budget_id
            key = _Key(one.tenant, one.agent, one.reason, budget)
            self._told_at_ms.pop(key, None)
            later = self._seen.get(key)
            self._seen[key] = (
                one
                if later is None
                else replace(later, count=later.count + one.count, since_ms=one.since_ms)
            )

    def _place(self, key: _Key) -> _Key | None:
        """Return under what a denial is added up, None where there is no room at all."""
        if self._has_room(key, self._kinds_max):
            return key
        summed = _Key(key.tenant, ANYBODY, key.reason, None)
        return summed if self._has_room(summed, 2 * self._kinds_max) else None

    def _has_room(self, key: _Key, most: int) -> bool:
        if key in self._seen or key in self._told_at_ms:
            return True
        return len(self._seen.keys() | self._told_at_ms.keys()) < most
