"""What it costs to write into the experience memory and to read out of it."""

from dataclasses import dataclass

from governor.amounts import Amounts, Unit

_TOKENS_PRICED = 1_000
_BYTES_PRICED = 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryPrices:
    """The price of a thousand tokens that are read, and of a mebibyte that is written."""

    read_microusd_per_ktoken: int = 0
    write_microusd_per_mib: int = 0

    def of(self, amounts: Amounts) -> int:
        """Return what the bytes and the tokens in `amounts` cost, each rounded up."""
        read = amounts.of(Unit.MEMORY_READ_TOKENS) * self.read_microusd_per_ktoken
        written = amounts.of(Unit.MEMORY_BYTES) * self.write_microusd_per_mib
        return -(-read // _TOKENS_PRICED) + -(-written // _BYTES_PRICED)


FREE = MemoryPrices()


def reading(tokens: int) -> Amounts:
    """Return what it is to read so many tokens."""
    return Amounts({Unit.MEMORY_READ_TOKENS: tokens})


def writing(*, size_bytes: int, writes: int = 1) -> Amounts:
    """Return what it is to write so many bytes in so many experiences."""
    return Amounts({Unit.MEMORY_BYTES: size_bytes, Unit.MEMORY_WRITES: writes})


def never_above(used: Amounts, held: Amounts) -> Amounts:
    """Return what was used, of each unit no more than was held for it.

    A bound that was promised before is kept: what a figure is off by is the house's to bear.
    """
    return Amounts({unit: min(amount, held.of(unit)) for unit, amount in used})
