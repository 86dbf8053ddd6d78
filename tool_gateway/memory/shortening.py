"""A read of the memory that a budget is too short for, made as long as what is left of it."""

from collections.abc import Iterable
from dataclasses import replace
from typing import Final

from governor.amounts import Unit
from governor.call import ToolCall
from governor.denial import DenialReason, Denied, Shortage
from governor.experience.charges import MemoryPrices
from governor.policy import ToolRule
from tool_gateway.memory.charging import held_for
from tool_gateway.memory.definitions import CONTEXT, EXPAND, READ, SEARCH
from tool_gateway.memory.requests import read_bounds
from tool_gateway.results import Json

# In fewer than these nothing is said that is worth an answer: then the denial says more. What is
# found stands in a frame each, which takes half of it.
USEFUL_TOKENS_MIN: Final = 256
_READ_TOKENS_MIN: Final = 64
_BY_TOKENS = frozenset({SEARCH, EXPAND, CONTEXT})
_PRICED_TOKENS: Final = 1_000


def shortened(
    call: ToolCall, denied: Denied, rule: ToolRule, prices: MemoryPrices
) -> ToolCall | None:
    """Return the call as it may be admitted after all, None where nothing useful is left.

    It is the same question with fewer tokens to answer it in.
    """
    if denied.reason is not DenialReason.BUDGET_EXHAUSTED or denied.shortage is None:
        return None
    if not _is_by_tokens(call):
        return None
    held = held_for(call.tool, call.arguments, takes_bytes=call.takes_bytes).of(
        Unit.MEMORY_READ_TOKENS
    )
    left = _tokens_left((denied.shortage, *denied.also), rule, prices)
    least = _READ_TOKENS_MIN if call.tool == READ else USEFUL_TOKENS_MIN
    if left is None or not least <= left < held:
        return None
    return replace(call, arguments={**call.arguments, "max_tokens": left})


def granted(call: ToolCall, asked: ToolCall) -> tuple[Json, str]:
    """Return what a call was cut to, for programs and in words."""
    tokens, before = (
        held_for(one.tool, one.arguments, takes_bytes=one.takes_bytes).of(Unit.MEMORY_READ_TOKENS)
        for one in (call, asked)
    )
    note = (
        f"This answer has at most {tokens} tokens where {before} were asked for: no more is left "
        "of the budget for reading memory."
    )
    return {"max_tokens": tokens, "asked_tokens": before, "why": "budget_short"}, note


def _is_by_tokens(call: ToolCall) -> bool:
    """Tell whether the tokens of a call bound what it shows."""
    if call.tool == READ:
        return read_bounds(call.arguments).tokens_max is not None
    return call.tool in _BY_TOKENS


def _tokens_left(shortages: Iterable[Shortage], rule: ToolRule, prices: MemoryPrices) -> int | None:
    """Return how many tokens every budget that is short has left; None where one is of others."""
    found = []
    for shortage in shortages:
        match shortage.unit:
            case Unit.MEMORY_READ_TOKENS:
                found.append(shortage.remaining)
            case Unit.COST_MICROUSD if prices.read_microusd_per_ktoken > 0:
                money = shortage.remaining - rule.cost_microusd
                found.append(money * _PRICED_TOKENS // prices.read_microusd_per_ktoken)
            case _:
                return None
    return min(found)
