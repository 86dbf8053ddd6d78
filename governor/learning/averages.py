"""What queries of one class usually take, as far as was seen lately."""

from collections import OrderedDict
from dataclasses import dataclass

CLASSES_MAX = 512
# Half of the weight is in the last 35 queries, so that a class that changes is followed.
_KEPT = 0.98
# Fewer say nothing about what is usual.
_QUERIES_MIN = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Average:
    """A mean that forgets: `weight` is how many queries it still stands for."""

    mean: float = 0.0
    weight: float = 0.0

    def noted(self, value: float, *, kept: float = _KEPT, counts: float = 1.0) -> "Average":
        """Return the average after one more value, which counts so much of a whole one."""
        weight = self.weight * kept + counts
        if weight <= 0:
            return self
        return Average(mean=self.mean + counts * (value - self.mean) / weight, weight=weight)


UNSEEN = Average()


class UsualTokens:
    """The average output of each class of query; classes that are not asked for are dropped."""

    def __init__(self, *, classes_max: int = CLASSES_MAX) -> None:
        """Start with nothing seen; of more than `classes_max` the least recent is forgotten."""
        self._averages: OrderedDict[str, Average] = OrderedDict()
        self._classes_max = classes_max

    def of(self, query_class: str) -> int | None:
        """Return what the class takes on average; None where too little was seen."""
        seen = self._averages.get(query_class)
        if seen is None or seen.weight < _QUERIES_MIN:
            return None
        return max(round(seen.mean), 1)

    def note(self, query_class: str, tokens: int) -> None:
        """Note what one more query of the class took, reasoning included."""
        before = self._averages.pop(query_class, UNSEEN)
        self._averages[query_class] = before.noted(tokens)
        if len(self._averages) > self._classes_max:
            self._averages.popitem(last=False)

    def __len__(self) -> int:
        """Return how many classes are remembered."""
        return len(self._averages)


def class_of(*, task_class: str | None, tier: str, chars: int, has_tools: bool) -> str:
    """Return the class of a query: its task, its tier, its rough length and whether it has tools.

    Length counts by powers of four, so that a class is never a single prompt.
    """
    length = (max(chars, 1).bit_length() + 1) // 2
    return f"{task_class or '-'}/{tier}/{length}/{'tools' if has_tools else 'plain'}"
