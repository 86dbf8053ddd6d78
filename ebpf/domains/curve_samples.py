"""A command's memory and processor time over time, from the samples that its watch takes."""

from governor.curve import POINTS_MAX, Curve, CurvePoint, halved, joined

# One place is for the end, which is always told.
_SAMPLED_MAX = POINTS_MAX - 2


class CurveSamples:
    """Keeps so many points at the most: when they are full, two of them become one.

    From then on each point takes in twice as many samples, so a long command costs no more room
    than a short one. It reads nothing by itself: whoever watches a command has the figures.
    """

    def __init__(self) -> None:
        """Start before the command does."""
        self._began: float | None = None
        self._ended: float | None = None
        self._points: list[CurvePoint] = []
        self._samples_per_point = 1
        self._samples_in_last = 1
        self._counts_cpu = True

    def begin(self, at: float) -> None:
        """Note when the command entered its domain; `at` is in seconds of any one clock."""
        self._began = at

    def note(self, at: float, *, memory_bytes: int, cpu_ms: int | None) -> None:
        """Note a sample."""
        if self._began is None:
            return
        self._counts_cpu = self._counts_cpu and cpu_ms is not None
        point = self._point(at, memory_bytes, cpu_ms)
        if self._points and self._samples_in_last < self._samples_per_point:
            self._points[-1] = joined(self._points[-1], point)
            self._samples_in_last += 1
            return
        if len(self._points) >= _SAMPLED_MAX:
            self._points = halved(self._points)
            self._samples_per_point *= 2
        self._points.append(point)
        self._samples_in_last = 1

    def end(self, at: float) -> None:
        """Note when the tree was ended; only the first time counts."""
        if self._ended is None:
            self._ended = at

    def curve(
        self, *, now: float, cpu_ms: int | None, memory_peak_bytes: int | None
    ) -> Curve | None:
        """Return what was seen so far; None where nothing was seen of the command.

        A command that was too short for any sample has one point, with its peak.
        """
        if self._began is None:
            return None
        held = self._points[-1].memory_bytes if self._points else memory_peak_bytes
        if held is None:
            return None
        last = self._point(now if self._ended is None else self._ended, held, cpu_ms)
        points = (*self._points, last)
        if not self._counts_cpu or cpu_ms is None:
            points = tuple(point._replace(cpu_ms=None) for point in points)
        return Curve(points=points)

    def _point(self, at: float, memory_bytes: int, cpu_ms: int | None) -> CurvePoint:
        assert self._began is not None, "it has begun"
        at_ms = max(0, round((at - self._began) * 1000))
        before = self._points[-1].cpu_ms if self._points else None
        # What is sampled can fall when a process dies whose parent has not waited for it yet.
        most = max((one for one in (cpu_ms, before) if one is not None), default=None)
        return CurvePoint(at_ms, memory_bytes, most)
