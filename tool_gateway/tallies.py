"""Figures that are added up here and read when they are shown: telling an SDK of each costs more.

A histogram cannot be handed to OpenTelemetry's API as it stands; whoever shows the metrics asks
`histograms` for them.
"""

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate
from typing import NamedTuple

from opentelemetry.metrics import CallbackOptions, Meter, Observation

# The most series of one figure: labels are configured names and words of ours, which are fewer.
# Whatever goes beyond, by a mistake of ours, is added up in one series.
SERIES_MAX = 1_000
BEYOND = "other"

# What OpenTelemetry divides by where nothing else is said.
USUAL_BOUNDS = (
    *(0.0, 5.0, 10.0, 25.0, 50.0, 75.0, 100.0, 250.0, 500.0, 750.0),
    *(1_000.0, 2_500.0, 5_000.0, 7_500.0, 10_000.0),
)


class Tally:
    """A counter that is read when it is shown."""

    def __init__(
        self, meter: Meter, name: str, labels: tuple[str, ...], *, description: str
    ) -> None:
        """Count by the values of `labels`, which have to be few."""
        self._labels = labels
        self._counts: dict[tuple[str, ...], int] = {}
        meter.create_observable_counter(name, callbacks=[self._shown], description=description)

    def add(self, *values: str) -> None:
        """Count one more for these values of the labels."""
        counts = self._counts
        if values in counts:
            counts[values] += 1
        else:
            key = values if len(counts) < SERIES_MAX else (BEYOND,) * len(self._labels)
            counts[key] = counts.get(key, 0) + 1

    def _shown(self, _: CallbackOptions) -> Iterable[Observation]:
        for values, count in tuple(self._counts.items()):
            yield Observation(count, dict(zip(self._labels, values, strict=True)))


class Level:
    """A figure that stands somewhere, and is read when it is shown."""

    def __init__(self, meter: Meter, name: str, label: str, *, description: str) -> None:
        """Keep one figure for each value of `label`, which have to be few."""
        self._label = label
        self._levels: dict[str, int] = {}
        meter.create_observable_gauge(name, callbacks=[self._shown], description=description)

    def set(self, value: str, level: int) -> None:
        """Have the figure of this value of the label stand at `level`."""
        if value in self._levels or len(self._levels) < SERIES_MAX:
            self._levels[value] = level

    def _shown(self, _: CallbackOptions) -> Iterable[Observation]:
        for value, level in tuple(self._levels.items()):
            yield Observation(level, {self._label: value})


class Seen(NamedTuple):
    """One of the measurements, and the span that it was made in."""

    value: float
    trace_id: int
    span_id: int


class Series:
    """The measurements of a histogram under one set of labels."""

    __slots__ = ("_bounds", "_counts", "_seen", "_total", "labels")

    def __init__(self, bounds: Sequence[float], labels: Mapping[str, str]) -> None:
        """Begin with none."""
        self.labels = labels
        self._bounds = bounds
        self._counts = [0] * (len(bounds) + 1)
        self._total: float = 0
        self._seen: list[Seen | None] | None = None

    @property
    def total(self) -> float:
        """Return the sum of what was measured."""
        return self._total

    def record(self, value: float) -> None:
        """Add a measurement; one at a bound is counted below it."""
        self._counts[bisect_left(self._bounds, value)] += 1
        self._total += value

    def exemplify(self, value: float, *, trace_id: int, span_id: int) -> None:
        """Have a measurement that was added stand for those of its size, until the next does."""
        if self._seen is None:
            self._seen = [None] * len(self._counts)
        self._seen[bisect_left(self._bounds, value)] = Seen(value, trace_id, span_id)

    @property
    def seen(self) -> Sequence[Seen | None]:
        """Return for each size a measurement that stands for it, None where none does."""
        return self._seen or (None,) * len(self._counts)

    @property
    def counts(self) -> Sequence[int]:
        """Return how many there are of each size."""
        return tuple(self._counts)

    def up_to(self) -> tuple[int, ...]:
        """Return how many there are up to each bound, and then how many there are."""
        return tuple(accumulate(self._counts))


class Histogram:
    """Measurements by size and by labels, which have to be few."""

    def __init__(
        self,
        meter_name: str,
        name: str,
        *,
        unit: str,
        description: str,
        bounds: Sequence[float] = USUAL_BOUNDS,
    ) -> None:
        """Begin with no measurement, and be found among the `histograms`."""
        self.meter_name = meter_name
        self.name = name
        self.unit = unit
        self.description = description
        self.bounds = bounds
        self._series: dict[frozenset[tuple[str, str]], Series] = {}
        _histograms.append(self)

    def of(self, labels: Mapping[str, str]) -> Series:
        """Return what is measured under these labels; it stays, so that it can be kept at hand."""
        key = frozenset(labels.items())
        series = self._series.get(key)
        if series is None and len(self._series) >= SERIES_MAX:
            labels = dict.fromkeys(labels, BEYOND)
            key = frozenset(labels.items())
            series = self._series.get(key)
        if series is None:
            series = self._series[key] = Series(self.bounds, labels)
        return series

    @property
    def series(self) -> tuple[Series, ...]:
        """Return everything that was measured so far."""
        return tuple(self._series.values())


_histograms: list[Histogram] = []


def histograms() -> tuple[Histogram, ...]:
    """Return all histograms of this process."""
    return tuple(_histograms)
