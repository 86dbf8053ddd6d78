"""One figure for a call: its money, a price for each tool call and one for processor time.

The unified cost of "Budget-Aware Tool-Use Enables Effective Agent Scaling" (arXiv:2511.17006).
It is shown next to its parts and is no unit that a budget could limit.
"""

from dataclasses import dataclass

from governor.amounts import Amounts, Unit

_MS_PER_SECOND = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class UnifiedPrices:
    """What a tool call and a second of processor time count beside the money itself."""

    tool_call_microusd: int = 0
    cpu_second_microusd: int = 0

    def cost_microusd(self, charged: Amounts) -> int:
        """Return the unified cost of what was charged, rounded up once.

        Tokens are in it as money, at what the price list says of them. The cost of several
        calls together is taken of their sums, so it is at most one micro-dollar a call less
        than their costs added up.
        """
        thousandths = (
            charged.of(Unit.COST_MICROUSD) + charged.of(Unit.TOOL_CALLS) * self.tool_call_microusd
        ) * _MS_PER_SECOND + charged.of(Unit.CPU_MS) * self.cpu_second_microusd
        return -(-thousandths // _MS_PER_SECOND)


MONEY_ALONE = UnifiedPrices()
