"""What model calls cost, in integers that never round in the caller's favour."""

from dataclasses import dataclass

_TOKENS_PER_PRICE = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelPrice:
    """The price of a model, in micro-dollars per million tokens."""

    input_microusd_per_mtok: int
    output_microusd_per_mtok: int

    def cost_microusd(self, *, input_tokens: int, output_tokens: int) -> int:
        """Return the cost of a call, rounded up to a whole micro-dollar."""
        parts = (
            input_tokens * self.input_microusd_per_mtok
            + output_tokens * self.output_microusd_per_mtok
        )
        return -(-parts // _TOKENS_PER_PRICE)
