"""How the memory and the processor time of a local command went over its life."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

# However long a command runs: the samples between two points become one of them.
POINTS_MAX = 120
_SHARE_MS_MIN = 10


class CurvePoint(NamedTuple):
    """How a command stood so long after it began.

    `memory_bytes` is the most that any sample since the point before found, so that no thinning
    hides a peak. `cpu_ms` is all processor time so far, None where nobody counts it.
    """

    at_ms: int
    memory_bytes: int
    cpu_ms: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Curve:
    """The points of a command's life in their order, the last one at its end."""

    points: tuple[CurvePoint, ...]

    def ended_at(self, cpu_ms: int | None) -> "Curve":
        """Return it with the processor time that was counted exactly, once nothing ran any more.

        What was sampled misses what was used after the last sample. A command whose processor
        time nobody counted, or nobody counted on the way, stays one without.
        """
        *before, last = self.points
        if cpu_ms is None or last.cpu_ms is None:
            return self
        return Curve(points=(*before, last._replace(cpu_ms=max(last.cpu_ms, cpu_ms))))


def joined(earlier: CurvePoint, later: CurvePoint) -> CurvePoint:
    """Return the one point that stands for two neighbours."""
    return later._replace(memory_bytes=max(earlier.memory_bytes, later.memory_bytes))


def halved(points: Sequence[CurvePoint]) -> list[CurvePoint]:
    """Return half as many points, each for two neighbours; an odd one at the end stays."""
    pairs = [joined(*points[place : place + 2]) for place in range(0, len(points) - 1, 2)]
    return [*pairs, *points[len(pairs) * 2 :]]


def cpu_millis(points: Sequence[CurvePoint]) -> list[int | None]:
    """Return how much of a processor was used up to each point, in thousandths.

    None where nobody counts it, and where the time since the point before is too short for
    whole milliseconds to say anything.
    """
    found: list[int | None] = []
    before = CurvePoint(0, 0, 0)
    for point in points:
        elapsed_ms = point.at_ms - before.at_ms
        is_known = point.cpu_ms is not None and before.cpu_ms is not None
        if not is_known or elapsed_ms < _SHARE_MS_MIN:
            found.append(None)
        else:
            assert point.cpu_ms is not None, "just checked"
            assert before.cpu_ms is not None, "just checked"
            found.append(max(0, point.cpu_ms - before.cpu_ms) * 1000 // elapsed_ms)
        before = point
    return found
