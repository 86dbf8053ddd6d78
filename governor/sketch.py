"""Quantiles of a stream in little space, in integers, with a bound that is proven by counting.

A value falls into a bucket by its highest bits: below `2**(BITS+1)` every value has a bucket of
its own; above, each doubling is cut into `2**BITS` buckets of equal width. A bucket that begins at
`low` is therefore at most `low / 2**BITS` wide. A quantile is answered with the highest value of
its bucket, so what is answered, `q'`, and the true quantile of what was added, `q`, keep

    q <= q' < q * (1 + 2**-BITS)

which is 3.2 % for five bits, always upwards. Sketches are added by adding their buckets, in any
order, without any loss: whoever counts a part of a stream can be joined later. (The buckets are
those of a DDSketch with a logarithm that is linear between powers of two.)

A stream changes, so a sketch forgets: above `COUNT_MAX` every count is halved.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from governor.amounts import AMOUNT_MAX

BITS = 5
_PARTS = 1 << BITS
COUNT_MAX = 4_096
# There is no value above `AMOUNT_MAX`, so there are no more buckets than this, whatever comes.
BUCKETS_MAX = (AMOUNT_MAX.bit_length() - BITS + 1) * _PARTS
_PERMILLE = 1_000


@dataclass(frozen=True, slots=True)
class Sketch:
    """How many values fell into each bucket."""

    buckets: Mapping[int, int] = field(default_factory=dict)

    @property
    def count(self) -> int:
        """Return how many values it stands for."""
        return sum(self.buckets.values())

    def with_value(self, value: int) -> "Sketch":
        """Return the sketch with one more value, which is not negative."""
        bucket = bucket_of(value)
        return Sketch({**self.buckets, bucket: self.buckets.get(bucket, 0) + 1}).bounded()

    def plus(self, other: "Sketch") -> "Sketch":
        """Return the sketch of both streams."""
        total = dict(self.buckets)
        for bucket, count in other.buckets.items():
            total[bucket] = total.get(bucket, 0) + count
        return Sketch(total).bounded()

    def bounded(self) -> "Sketch":
        """Return the sketch, older values at half their weight where there are too many."""
        total = self
        while total.count > COUNT_MAX:
            halved = {bucket: count // 2 for bucket, count in total.buckets.items()}
            total = Sketch({bucket: count for bucket, count in halved.items() if count})
        return total

    def quantile(self, permille: int) -> int | None:
        """Return the value that so many thousandths do not exceed; None of an empty sketch."""
        assert 0 <= permille <= _PERMILLE, "a quantile is a share"
        rank = max(1, -(-self.count * permille // _PERMILLE))
        seen = 0
        for bucket in sorted(self.buckets):
            seen += self.buckets[bucket]
            if seen >= rank:
                return highest_in(bucket)
        return None


def bucket_of(value: int) -> int:
    """Return the bucket of a value; one above `AMOUNT_MAX` counts as that."""
    assert value >= 0, "what is measured is not negative"
    value = min(value, AMOUNT_MAX)
    shift = max(0, value.bit_length() - BITS - 1)
    return (shift << BITS) + (value >> shift)


def highest_in(bucket: int) -> int:
    """Return the highest value of a bucket."""
    shift = max(0, (bucket >> BITS) - 1)
    lowest = (bucket - (shift << BITS)) << shift
    return lowest + (1 << shift) - 1


EMPTY = Sketch()
