"""What is held before a call of the memory's tools: what it asks for, and the price of that."""

from collections.abc import Callable, Mapping
from dataclasses import replace

from governor.amounts import NOTHING, Amounts, Unit
from governor.call import ToolCall
from governor.content import USUAL, ContentTerms
from governor.estimate import context_tokens
from governor.experience.charges import MemoryPrices, reading, writing
from governor.experience.reading import TOKENS_DEFAULT
from governor.ids import ToolName
from governor.policy import ToolRule
from tool_gateway.memory.definitions import CONTEXT, EXPAND, NAMES, READ, SEARCH, WRITE
from tool_gateway.memory.requests import read_bounds

_READING = frozenset({SEARCH, EXPAND, CONTEXT})
# What an answer's frame takes beside the tokens that were asked for: its last lines.
_FRAME_TOKENS = 100
_ENCODED_AT_MOST = 2
_AROUND_BYTES = 64 * 1024


def _never(_namespace: str) -> bool:
    return False


class MemoryCharging:
    """Narrows rules to what a call of the memory's tools asks for."""

    def __init__(
        self,
        prices: Callable[[], MemoryPrices],
        *,
        is_copied: Callable[[str], bool] = _never,
        item_bytes_max: Callable[[], int] = lambda: 0,
    ) -> None:
        """Take the prices in force; what is written to a namespace that `is_copied` is kept twice.

        It is its writer's own, and its team's where that chooses it. `item_bytes_max` is what one
        experience may have.
        """
        self._item_bytes_max = item_bytes_max
        self._prices = prices
        self._is_copied = is_copied

    def held(self, call: ToolCall) -> Amounts:
        """Return what a call may take of the memory at the most."""
        held = held_for(call.tool, call.arguments, takes_bytes=call.takes_bytes)
        is_twice = call.tool == WRITE and self._is_copied(str(call.arguments.get("namespace", "")))
        return held.plus(held) if is_twice else held

    def price_of(self, used: Amounts) -> int:
        """Return what it costs to use so much."""
        return self._prices().of(used)

    @property
    def prices(self) -> MemoryPrices:
        """Return the prices in force."""
        return self._prices()

    def narrowed(self, call: ToolCall, rule: ToolRule) -> ToolRule:
        """Return the rule with what is held for this call; others' are left as they are."""
        if rule.is_free or call.tool not in NAMES:
            return rule
        held = self.held(call)
        shown = max(
            context_tokens(rule.archive_above_bytes),
            held.of(Unit.MEMORY_READ_TOKENS) + _FRAME_TOKENS,
        )
        estimates = {
            Unit.CONTEXT_TOKENS: shown,
            **rule.estimates.by_unit,
            **held.by_unit,
            Unit.COST_MICROUSD: rule.cost_microusd + self.price_of(held),
        }
        return replace(rule, estimates=Amounts(estimates), content=self._content_of(call, rule))

    def _content_of(self, call: ToolCall, rule: ToolRule) -> ContentTerms:
        """Return how large a call may be: a write by what one experience may have.

        The memory itself counts the bytes; here is room for what JSON and base64 add to them.
        """
        content = rule.content
        if call.tool != WRITE or content.arguments_bytes_max != USUAL.arguments_bytes_max:
            return content
        room = _ENCODED_AT_MOST * self._item_bytes_max() + _AROUND_BYTES
        return replace(content, arguments_bytes_max=max(room, content.arguments_bytes_max))


def held_for(
    tool: ToolName, arguments: Mapping[str, object], *, takes_bytes: bool = False
) -> Amounts:
    """Return what a call may take of the memory at the most, by its checked arguments."""
    if tool == WRITE:
        return writing(size_bytes=size_of(arguments))
    if tool == READ:
        return reading(read_bounds(arguments, takes_bytes=takes_bytes).tokens_held)
    if tool in _READING:
        asked = arguments.get("max_tokens", TOKENS_DEFAULT)
        return reading(int(asked) if isinstance(asked, (int, float)) else TOKENS_DEFAULT)
    return NOTHING


def size_of(arguments: Mapping[str, object]) -> int:
    """Return how many bytes a write is at the most."""
    content = str(arguments.get("content", ""))
    if arguments.get("encoding") == "base64":
        return -(-len(content) * 3 // 4)
    return len(content.encode(errors="replace"))
